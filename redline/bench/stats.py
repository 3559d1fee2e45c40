"""What paired measurements amount to: a ratio, its spread over answers, and how sure one can be of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

DRAWS = 4000
"""Resamples of a bootstrap: the ends of the interval then move by less than what two digits show."""


def pooled(plain: FloatArray, fast: FloatArray) -> float:
    """Seconds per token of the first arm over those of the second, of sums and never a mean of ratios.

    Args:
        plain, fast: Seconds and tokens of every answer, shape (n, 2).
    """
    (plain_s, plain_n), (fast_s, fast_n) = plain.sum(axis=0), fast.sum(axis=0)
    return float((plain_s / plain_n) / (fast_s / fast_n))


def ratios(plain: FloatArray, fast: FloatArray) -> FloatArray:
    """The same ratio for every answer by itself, shape (n,)."""
    found: FloatArray = (plain[:, 0] / plain[:, 1]) / (fast[:, 0] / fast[:, 1])
    return found


def interval(
    plain: FloatArray,
    fast: FloatArray,
    groups: Sequence[object] | None = None,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[float, float] | None:
    """How far `pooled` might have come out otherwise, had other questions of the same kinds been asked.

    A percentile bootstrap (Efron, 1979): answers are drawn anew with replacement, the two arms of an answer
    always together, so that what makes an answer slow in both cancels.

    Args:
        plain, fast: Seconds and tokens of every answer, shape (n, 2).
        groups: A label an answer; each group keeps its size, because the set's make-up is no accident.
            Where one has a single answer, and so no spread to draw from, all answers are one group.
        level: How much of the drawn ratios the interval holds.
        draws: How often to draw.
        seed: The same one gives the same interval.

    Returns:
        Its ends; None for fewer than two answers, which say nothing about their spread.
    """
    if len(plain) < 2:
        return None
    rng = np.random.default_rng(seed)
    sums = np.zeros((draws, 4))
    both = np.hstack([plain, fast])
    sizes = Counter(groups if groups is not None else [None] * len(plain))
    labels = list(groups) if groups is not None and min(sizes.values()) > 1 else [None] * len(plain)
    for label in dict.fromkeys(labels):
        rows = both[[own == label for own in labels]]
        sums += rows[rng.integers(0, len(rows), (draws, len(rows)))].sum(axis=1)
    drawn = (sums[:, 0] / sums[:, 1]) / (sums[:, 2] / sums[:, 3])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios by which twice as fast and half as fast cancel."""
    return float(np.exp(np.mean(np.log(values))))
