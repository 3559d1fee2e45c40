"""`redline generate`: one text from one prompt."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from redline import models
from redline.bench import describe
from redline.cli import options
from redline.cli.reading import read_constraint, read_prompt
from redline.cli.render import by_source, legend, redlined
from redline.core.errors import OptionError
from redline.core.pace import choose_pace
from redline.core.ports import Constraint
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.engine import Engine, Result, trace
from redline.engine import generate as write
from redline.engine.files import check_place
from redline.engine.generate import stream, to_tokens
from redline.engine.load import load


def generate(
    prompt: Annotated[str, typer.Argument(help="The prompt, or - to read it from stdin.")],
    model: options.Model = models.DEFAULT,
    draft: options.Draft = "auto",
    rule: options.Rule = "matching",
    pace: options.Pace = None,
    depth: options.Depth = None,
    nodes: options.Nodes = None,
    memory: options.Memory = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens to write at most.")] = 256,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Divides logits of tokens seen before.")] = 1.0,
    presence_penalty: Annotated[float, typer.Option(help="Lowers logits of tokens written before.")] = 0.0,
    frequency_penalty: Annotated[float, typer.Option(help="Lowers them by how often they were.")] = 0.0,
    penalty_window: Annotated[int, typer.Option(help="Penalties look back so many tokens; 0: all.")] = 0,
    seed: options.Seed = None,
    stop: Annotated[list[str] | None, typer.Option("--stop", help="Text to end at; may be repeated.")] = None,
    schema: options.Schema = None,
    regex: options.Regex = None,
    draft_temperature: options.DraftTemperature = None,
    chat: options.Chat = True,
    check: Annotated[bool, typer.Option("--check", help="Also decode plainly and compare.")] = False,
    marks: Annotated[
        bool, typer.Option("--marks", help="Show guesses, corrections and bonus in colour.")
    ] = False,
    trace_file: Annotated[
        Path | None, typer.Option("--trace", help="Write every step's record here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
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
    """Write on from a prompt; what comes out is what the model alone would have written."""
    text = read_prompt(prompt)
    if max_tokens < 1:
        raise OptionError(
            f"--max-tokens is {max_tokens}, so there is nothing to write.", "Ask for at least 1."
        )
    if trace_file:
        check_place(trace_file, "--trace")
    sampling = Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        penalty_window=penalty_window,
    )
    constrain = read_constraint(schema, regex)
    engine = load(
        model,
        draft,
        rule=rule,
        pace=pace,
        depth=depth,
        nodes=nodes,
        memory=memory,
        draft_sampling=None
        if draft_temperature is None
        else replace(sampling, temperature=draft_temperature),
        draft_backend=draft_backend,
        draft_precision=draft_precision,
        strict=strict,
        backend=backend,
        device=device,
        precision=precision,
        threads=threads,
        context=context,
        gpu_layers=gpu_layers,
        trust_remote_code=trust_remote_code,
    )
    pace, depth = choose_pace(pace, depth, engine.drafter)
    if check and not engine.repeats_plain(sampling):
        raise OptionError(
            f"--check compares tokens, and the rule {rule} keeps only the law of sampled text.",
            "Use the rule matching, or temperature 0.",
        )
    notes = Console(stderr=True, highlight=False)
    if not engine.rule.exact:
        notes.print(f"[bold red]The rule {rule} is lossy: this is not the law of the model's own text.[/]")
    tokens = to_tokens(engine, [{"role": "user", "content": text}] if chat else text)
    limits = Limits(max_tokens, tuple(stop or ()))
    constraint = constrain(engine.target)
    result = _write(engine, tokens, sampling, limits, seed, constraint, show=not as_json, marks=marks)
    inexact = result.inexact_widths
    about = {
        "model": engine.target.name,
        "draft": engine.drafter.name if engine.drafter else "none",
        "rule": rule,
        "exact": engine.rule.exact,
        "bit_exact": engine.repeats_plain(sampling) and not inexact,
        "inexact_widths": inexact,
        "strict": strict,
        "backends": {"target": describe(engine.target), "draft": describe(engine.draft_model)},
        "pace": pace,
        "depth": depth,
        "nodes": nodes,
        "memory": memory,
        "max_tokens": max_tokens,
        "stop": list(limits.stop),
        "schema": str(schema) if schema else None,
        "regex": regex,
        "chat": chat,
        "draft_temperature": draft_temperature,
        "prompt_tokens": len(tokens),
        **asdict(sampling),
    }
    stopped = result.finish == "cancelled"
    same = None
    if check and not stopped:
        same = _same_as_plain(engine, tokens, sampling, limits, constraint, result)
    if as_json:
        typer.echo(json.dumps(_document(result, about, same), ensure_ascii=False))
    else:
        lines = [summary(result), by_source(result.metrics.to_json()["sources"]), running(engine)]
        notes.print("\n".join(filter(None, lines)), style="dim", markup=False, soft_wrap=True)
    if inexact and engine.repeats_plain(sampling):
        widths = ", ".join(map(str, inexact))
        notes.print(
            f"note: the last bits of passes of {widths} rows are not plain decoding's here, so near-ties may "
            "fall otherwise. --strict avoids such passes.",
            soft_wrap=True,
        )
    if trace_file:
        trace.write(trace_file, result.steps, {**about, "seed": result.seed, "prompt": tokens})
    if stopped:
        raise typer.Exit(130)
    if same is not None:
        notes.print(f"identical to plain decoding: {'yes' if same else 'no'}")
        raise typer.Exit(0 if same else 1)


def running(engine: Engine) -> str:
    """What runs where, and on how many threads, in one line."""
    parts = []
    for role, backend in (("target", engine.target), ("draft", engine.draft_model)):
        if about := describe(backend):
            count = about["threads"]
            threads = f", {count} thread{'s' if count > 1 else ''}" if count else ""
            parts.append(f"{role} {about['name']}: {about['engine']}, {about['dtype']}{threads}")
    return " · ".join(parts)


def summary(result: Result) -> str:
    """A run in one line."""
    m = result.metrics
    acceptance = "nothing was guessed" if m.acceptance is None else f"acceptance {m.acceptance:.2f}"
    return (
        f"{m.tokens} tokens in {m.steps} steps · {m.tokens_per_step:.2f} tokens a step · {acceptance} · "
        f"{m.tokens_per_s:.1f} tokens/s · ended by {result.finish} · seed {result.seed}"
    )


def _write(
    engine: Engine,
    tokens: list[int],
    sampling: Sampling,
    limits: Limits,
    seed: int | None,
    constraint: Constraint | None,
    show: bool,
    marks: bool,
) -> Result:
    """Run one text and show it as it comes."""
    console = Console(highlight=False, soft_wrap=True)
    if show and marks:
        legend(console)
    text = stream(engine, tokens, sampling, limits, seed, constraint)
    try:
        while step := text.step():
            if show and marks:
                console.print(redlined(step, engine.target.tokenizer, console), end="")
            elif show:
                sys.stdout.write("".join(step.texts))
                sys.stdout.flush()
    except KeyboardInterrupt:
        text.close()
    if show:
        print(flush=True)
    return text.result


def _same_as_plain(
    engine: Engine,
    tokens: list[int],
    sampling: Sampling,
    limits: Limits,
    constraint: Constraint | None,
    result: Result,
) -> bool:
    """Whether plain decoding writes the same tokens, found out by doing it."""
    plain = write(Engine(engine.target), tokens, sampling, limits, result.seed, constraint)
    return plain.tokens == result.tokens


def _document(result: Result, about: dict[str, Any], same: bool | None) -> dict[str, Any]:
    document = {
        "text": result.text,
        "tokens": result.tokens,
        "finish": result.finish,
        "seed": result.seed,
        "metrics": result.metrics.to_json(),
        "draft_fault": next((step.fault for step in result.steps if step.fault), None),
        "settings": about,
    }
    return document if same is None else {**document, "identical_to_plain": same}
