"""`redline demo`: a few prompts, redlined live, measured and compared with plain decoding."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redline import models
from redline.bench import read_questions
from redline.bench.report import speedup
from redline.cli import options
from redline.cli.generate import running
from redline.cli.models import pull_one
from redline.cli.render import legend, redlined, time_split
from redline.core.metrics import checked_widths, fold
from redline.core.stop import Limits
from redline.doctor import Fork, explain
from redline.engine import Engine, Result
from redline.engine import generate as write
from redline.engine.generate import stream, to_tokens
from redline.engine.load import load
from redline.models.cache import is_whole
from redline.models.catalogue import format_size

SHOWN = {
    "edit-1": "a code edit",
    "json-1": "a JSON list",
    "code-1": "new code",
    "summary-1": "a summary",
    "story-1": "a story",
}
"""Questions of the built-in set, by id."""


def demo(
    model: options.Model = models.DEFAULT,
    draft: options.Draft = "auto",
    pace: options.Pace = None,
    depth: options.Depth = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens per answer at most.")] = 160,
) -> None:
    """Watch guesses being kept and struck out, and see what that gains on this machine."""
    console, notes = Console(highlight=False, soft_wrap=True), Console(stderr=True, highlight=False)
    known = models.known()
    missing = [
        known[name] for name in (model, *draft.split("+")) if name in known and not is_whole(known[name])
    ]
    if missing:
        size = format_size(sum(each.size_bytes for each in missing))
        names = " and ".join(each.name for each in missing)
        notes.print(f"Not here yet: {names}; getting {size} now, once.", soft_wrap=True)
        for each in missing:
            pull_one(each.name)
    with notes.status(f"loading {model}"):
        engine = load(model, draft, pace=pace, depth=depth, keep=0)
        plain = Engine(engine.target, keep=0)
        write(plain, "warm-up", limits=Limits(4))
    legend(console)
    pairs: dict[str, tuple[Result, Result]] = {}
    forks: list[Fork] = []
    questions = {question.id: question for question in read_questions()}
    for number, title in SHOWN.items():
        prompt = questions[number].turns[0]
        tokens = to_tokens(engine, [{"role": "user", "content": prompt}])
        console.rule(f"[bold]{title}")
        console.print(prompt, style="dim", markup=False, soft_wrap=False)
        console.print()
        fast = _show(engine, tokens, max_tokens, console)
        with notes.status("the same by plain decoding, to compare"):
            slow = write(plain, tokens, limits=Limits(max_tokens), seed=fast.seed)
            if fork := explain(
                engine.target, tokens, slow.tokens, fast.tokens, widths=checked_widths(fast.steps) or [2]
            ):
                forks.append(fork)
        pairs[title] = (slow, fast)
    console.rule("[bold]what it gained")
    console.print(_table(pairs))
    share = fold(step for _, fast in pairs.values() for step in fast.steps).share
    console.print(time_split(share))
    console.print(running(engine), style="dim", markup=False)
    for fork in forks:
        console.print(f"not identical: {fork.sentence}", markup=False)
    same = f"[bold {'red' if forks else 'green'}]{'no' if forks else 'yes'}"
    console.print(f"identical to plain decoding: {same}")
    raise typer.Exit(1 if any(fork.verdict == "bug" for fork in forks) else 0)


def _show(engine: Engine, tokens: list[int], max_tokens: int, console: Console) -> Result:
    text = stream(engine, tokens, limits=Limits(max_tokens))
    while step := text.step():
        console.print(redlined(step, engine.target.tokenizer, console), end="")
    console.print()
    return text.result


def _table(pairs: dict[str, tuple[Result, Result]]) -> Table:
    table = Table()
    table.add_column("prompt", no_wrap=True)
    for title in ("tokens", "per step", "accepted", "plain tok/s", "tok/s", "speed-up"):
        table.add_column(title, justify="right")
    for title, (slow, fast) in pairs.items():
        plain, ours = slow.metrics, fast.metrics
        table.add_row(
            title,
            str(ours.tokens),
            f"{ours.tokens_per_step:.2f}",
            "–" if ours.acceptance is None else f"{ours.acceptance:.2f}",
            f"{plain.tokens_per_s:.1f}",
            f"{ours.tokens_per_s:.1f}",
            f"{speedup(plain, ours):.2f}×",
        )
    return table
