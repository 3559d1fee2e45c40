"""`redline bench`: is it faster here, and by how much?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from redline import models
from redline.bench import Trial, read_questions, report, run
from redline.cli import options
from redline.cli.generate import is_comparable
from redline.cli.render import time_split
from redline.core.errors import OptionError
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.engine import Engine
from redline.engine.files import check_place, write_whole
from redline.engine.load import load

PLAIN = "plain"


def bench(
    model: options.Model = models.DEFAULT,
    draft: options.Draft = "ngram",
    rule: options.Rule = "matching",
    pace: options.Pace = "fixed",
    depth: options.Depth = 5,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens per answer at most.")] = 128,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same for every arm.")] = 0,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="JSON lines with question_id, category and turns.")
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", help="Only this category; may be repeated.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Measurements of each answer.")] = 1,
    chat: options.Chat = True,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything measured to this file; - is stdout.")
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    threads: options.Threads = None,
) -> None:
    """Measure plain decoding and a drafter on the same prompts, in turns."""
    questions = read_questions(prompts, category or ())
    if json_file and str(json_file) != "-":
        check_place(json_file, "--json")
    engine = load(
        model, draft, rule=rule, pace=pace, depth=depth, device=device, dtype=dtype, threads=threads, keep=0
    )
    if engine.drafter is None:
        raise OptionError("There is nothing to compare: the draft is none.", "Name one with --draft.")
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    arms = {PLAIN: Engine(engine.target, keep=0), engine.drafter.name: engine}
    settings = {
        "model": engine.target.name,
        "draft": engine.drafter.name,
        "rule": rule,
        "exact": engine.rule.exact,
        "comparable": is_comparable(engine, sampling),
        "pace": pace,
        "depth": depth,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
        "prompts": prompts.name if prompts else "built-in",
        "repeats": repeat,
        "chat": chat,
    }
    answers = sum(len(question.turns) for question in questions) * repeat * len(arms)
    running = run(arms, questions, sampling, Limits(max_tokens), seed=seed, repeats=repeat, chat=chat)
    trials, stopped = _collect(running, answers)
    if not trials:
        raise typer.Exit(130)
    document = report(trials, PLAIN, {**settings, "complete": not stopped})
    _show(document)
    _write(document, json_file)
    if stopped:
        raise typer.Exit(130)


def _collect(running: Iterator[Trial], answers: int) -> tuple[list[Trial], bool]:
    """Take all trials under a progress bar; ctrl-C keeps what was measured, and is told."""
    notes = Console(stderr=True)
    trials: list[Trial] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task("warming up", total=answers)
        try:
            for trial in running:
                trials.append(trial)
                bar.update(task, advance=1, description=f"{trial.category} · {trial.arm}")
        except KeyboardInterrupt:
            said = "these are the answers measured so far" if trials else "nothing was measured yet"
            notes.print(f"Stopped; {said}.")
            return trials, True
    return trials, False


def _show(document: dict[str, Any]) -> None:
    machine, settings = document["machine"], document["settings"]
    console = Console(highlight=False)
    for arm, numbers in document["arms"].items():
        title = f"{settings['model']} · {arm} · {settings['rule']} · depth {settings['depth']}"
        title += "" if settings["exact"] else " · LOSSY"
        table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=0, collapse_padding=True)
        table.add_column("prompts", overflow="fold")
        for name in ("plain", "drafted", "speed-up", "10–90 %", "per step", "kept", "same"):
            table.add_column(name, justify="right", no_wrap=True)
        rows = {**numbers["by_category"], "all": numbers["all"]}
        for name, row in rows.items():
            if not row["answers"]:
                continue
            table.add_row(*_cells(name, row, settings["comparable"]), end_section=name == list(rows)[-2])
        console.print(table)
        if numbers["all"]["answers"]:
            console.print(time_split(numbers["all"]["metrics"]["share"]))
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, torch {machine['torch']}; "
        "plain, drafted: tokens a second, prompts not counted; "
        "10–90 %: of single answers; kept: accepted / proposed",
        soft_wrap=True,
    )


def _cells(name: str, row: dict[str, Any], comparable: bool) -> list[str]:
    metrics = row["metrics"]
    acceptance = metrics["acceptance"]
    return [
        name,
        f"{row['baseline_tokens_per_s']:.1f}",
        f"{metrics['tokens_per_s']:.1f}",
        f"{row['speedup']:.2f}×",
        f"{row['speedup_low']:.2f}–{row['speedup_high']:.2f}",
        f"{metrics['tokens_per_step']:.2f}",
        "–" if acceptance is None else f"{acceptance:.2f}",
        f"{row['identical']}/{row['answers']}" if comparable else "–",
    ]


def _write(document: dict[str, Any], file: Path | None) -> None:
    if file is None:
        return
    text = json.dumps(document, ensure_ascii=False)
    if str(file) == "-":
        typer.echo(text)
        return
    write_whole(file, [text + "\n"])
