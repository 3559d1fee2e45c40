"""`redline bench`: is it faster here, and by how much?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from redline import models
from redline.bench import Difference, Trial, describe, differences, pass_cost, read_questions, report, run
from redline.bench.plot import draw, read
from redline.cli import options
from redline.cli.bench_table import show
from redline.core.errors import OptionError, RedlineError
from redline.core.pace import choose_pace
from redline.core.ports import Backend
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.engine import Engine
from redline.engine.draft import opens_model
from redline.engine.files import check_place, write_whole
from redline.engine.load import load

PLAIN = "plain"

app = typer.Typer(invoke_without_command=True)


@app.callback()
def bench(
    command: typer.Context,
    model: options.Model = models.DEFAULT,
    draft: Annotated[
        list[str] | None,
        typer.Option(
            "--draft", help="Who guesses: auto, a drafter, a model by name or path, or a+b; may be repeated."
        ),
    ] = None,
    rule: options.Rule = "matching",
    pace: options.Pace = None,
    depth: options.Depth = None,
    nodes: options.Nodes = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens per answer.")] = 128,
    stop_at_end: Annotated[
        bool, typer.Option("--stop-at-end", help="Let the model end its answers; else all are of one length.")
    ] = False,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same for every arm.")] = 0,
    tasks: Annotated[
        Path | None, typer.Option("--tasks", help="Questions in Spec-Bench's format, instead of our own.")
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", help="Only this category; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first so many questions of a category.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Measurements of each answer.")] = 1,
    chat: options.Chat = True,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything measured to this file; - is stdout.")
    ] = None,
    backend: options.Backend = None,
    draft_backend: options.DraftBackend = None,
    draft_precision: options.DraftPrecision = None,
    strict: options.Strict = False,
    device: options.Device = None,
    precision: options.Precision = None,
    threads: options.Threads = None,
    context: options.Context = None,
    gpu_layers: options.GpuLayers = None,
    trust_remote_code: options.TrustRemoteCode = False,
) -> None:
    """Measure plain decoding and drafters on the same prompts, in turns.

    Every answer has --max-tokens tokens, so that all arms do the same work:
    past its own end the model writes on, and the table says for how long.
    With --stop-at-end it does not.
    """
    if command.invoked_subcommand:
        return
    questions = read_questions(tasks, category or (), limit)
    if json_file and str(json_file) != "-":
        check_place(json_file, "--json")
    opening = {
        "backend": backend,
        "device": device,
        "precision": precision,
        "threads": threads,
        "context": context,
        "gpu_layers": gpu_layers,
        "trust_remote_code": trust_remote_code,
    }
    of_draft = {"draft_backend": draft_backend, "draft_precision": draft_precision}
    make = partial(load, rule=rule, pace=pace, depth=depth, nodes=nodes, keep=0, strict=strict, memory=False)
    drafted = _engines(make, model, draft or ["auto"], opening, of_draft)
    target, first = drafted[0].target, drafted[0]
    arms = {PLAIN: Engine(target, keep=0)} | {_name(engine): engine for engine in drafted}
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    settings = {
        "model": target.name,
        "drafts": list(arms)[1:],
        "rule": rule,
        "exact": first.rule.exact,
        "comparable": first.repeats_plain(sampling),
        "pace": pace,
        "depth": depth,
        "nodes": nodes,
        "paces": {_name(e): choose_pace(pace, depth, e.drafter) for e in drafted},
        "draft_precision": draft_precision,
        "strict": strict,
        "max_tokens": max_tokens,
        "stop_at_end": stop_at_end,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
        "tasks": tasks.name if tasks else "built-in",
        "limit": limit,
        "categories": category,
        "repeats": repeat,
        "chat": chat,
    }
    answers = sum(len(question.turns) for question in questions) * repeat * len(arms)
    limits = Limits(max_tokens, stop_tokens=None if stop_at_end else frozenset())
    running = run(arms, questions, sampling, limits, seed=seed, repeats=repeat, chat=chat)
    trials, stopped = _collect(running, answers)
    if not trials:
        raise typer.Exit(130)
    backends = {"target": describe(target), "drafts": {_name(e): describe(e.draft_model) for e in drafted}}
    if json_file and str(json_file) != "-":  # what took hours is safe before anything else is tried
        _write(report(trials, PLAIN, {**settings, "complete": False}, backends=backends), json_file)
    found = _differences(trials, target, sampling, seed) if settings["comparable"] else []
    document = report(
        trials,
        PLAIN,
        {**settings, "complete": not stopped},
        differences=found,
        backends=backends,
        pass_cost=None if stopped else pass_cost(target, trials),
    )
    show(document)
    _write(document, json_file)
    _refuse(found)
    if stopped:
        raise typer.Exit(130)


@app.command("plot")
def plot(
    results: Annotated[Path, typer.Argument(help="What `redline bench --json` wrote.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for the figures; that of the results by default.")
    ] = None,
) -> None:
    """Draw the results: speed-up by workload, acceptance by depth, time split, and cost of a pass by rows."""
    document = read(results)
    for file in draw(document, out or results.parent, results.stem):
        typer.echo(file)
    if not document.get("pass_cost"):
        Console(stderr=True).print(
            "No figure of what a pass costs: the run was stopped before that was measured."
        )


def _engines(
    make: partial[Engine],
    model: str,
    drafts: Sequence[str],
    opening: dict[str, Any],
    of_draft: dict[str, Any],
) -> list[Engine]:
    """One engine a draft, around one target; each takes the options for the models that it opens."""
    engines: list[Engine] = []
    for draft in drafts:
        opens = opens_model(draft)
        how = opening if opens or not engines else {}
        how = how | of_draft if opens or not any(map(opens_model, drafts)) else how
        engines.append(make(engines[0].target if engines else model, draft, **how))
        if engines[-1].drafter is None:
            raise OptionError("There is nothing to compare: the draft is none.", "Name one with --draft.")
    names = [_name(engine) for engine in engines]
    if len(set(names)) < len(names):
        raise OptionError(f"Two drafts have the same name: {', '.join(names)}.", "Name each of them once.")
    return engines


def _name(engine: Engine) -> str:
    return engine.drafter.name if engine.drafter else PLAIN


def _collect(running: Iterator[Trial], answers: int) -> tuple[list[Trial], bool]:
    """Take all trials under a progress bar; ctrl-C keeps what was measured, and is told."""
    notes = Console(stderr=True, soft_wrap=True)
    trials: list[Trial] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task("warming up", total=answers)
        try:
            for trial in running:
                if not notes.is_terminal and (not trials or trial.category != trials[-1].category):
                    notes.print(f"measuring: {trial.category}, {len(trials)} of {answers} answers so far")
                trials.append(trial)
                bar.update(task, advance=1, description=f"{trial.category} · {trial.arm}")
        except KeyboardInterrupt:
            said = "these are the answers measured so far" if trials else "nothing was measured yet"
            notes.print(f"Stopped; {said}.")
            return trials, True
    return trials, False


def _differences(trials: list[Trial], target: Backend, sampling: Sampling, seed: int) -> list[Difference]:
    with Console(stderr=True).status("reading again what differs from plain decoding"):
        return list(differences(trials, PLAIN, target, sampling, seed))


def _refuse(found: Sequence[Difference]) -> None:
    """No speed-up of an arm that writes something else, and an error that says where it does.

    Raises:
        RedlineError: A difference is no near-tie.
    """
    bugs = [difference for difference in found if difference.fork.verdict == "bug"]
    if bugs:
        trial, more = bugs[0].trial, f" and {len(bugs) - 1} more" if len(bugs) > 1 else ""
        raise RedlineError(
            f"{trial.arm} differs from plain decoding in {trial.question}, turn {trial.turn + 1}{more}.",
            f"It is {bugs[0].fork.sentence}",
        )


def _write(document: dict[str, Any], file: Path | None) -> None:
    text = json.dumps(document, ensure_ascii=False)
    if str(file) == "-":
        typer.echo(text)
    elif file:
        write_whole(file, [text + "\n"])
