"""What a pass of the target costs by its number of rows: the curve that decides whether guessing pays."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Any

from redline.bench.run import Trial
from redline.core.ports import Backend, Chunk

ROWS = 16
ROUNDS = 5
PREFILL = 256
"""Prompt tokens read per pass, as the engine does."""


def pass_cost(
    target: Backend, trials: Sequence[Trial], rows: int = ROWS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Seconds of a pass over 1, 2, 3 … rows in the middle of a typical answer.

    Every round measures each width once, in turn, so that whatever else the machine does falls on all of
    them alike; a first round is thrown away.

    Args:
        target: The model.
        trials: What was measured with it; the one of median length is read once more.
        rows: The widest pass.
        rounds: How often each is measured.

    Returns:
        `cached_tokens`, and for each of `rows` the median `pass_s`.
    """
    typical = sorted(trials, key=lambda trial: len(trial.prompt) + len(trial.result.tokens))[len(trials) // 2]
    text = [*typical.prompt, *typical.result.tokens]
    cached = len(typical.prompt) + len(typical.result.tokens) // 2
    widths = range(1, min(rows, target.traits.context - cached) + 1)
    ahead = (text[cached:] + text * rows)[:rows]
    cache, times = target.open(), {width: list[float]() for width in widths}
    try:
        for begin in range(0, cached, PREFILL):
            target.extend([Chunk(cache, text[begin : min(begin + PREFILL, cached)], "none")])
        for _ in range(rounds + 1):
            for width in widths:
                began = perf_counter()
                target.extend([Chunk(cache, ahead[:width])])
                times[width].append(perf_counter() - began)
                cache.rewind(cached)
    finally:
        cache.close()
    return {
        "cached_tokens": cached,
        "rows": list(widths),
        "pass_s": [median(found[1:]) for found in times.values()],
    }
