"""What the target thought might follow a token when it last stood somewhere may follow it again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import OptionError, is_whole
from redline.core.ports import Scene
from redline.core.topology import ROOT
from redline.core.types import Draft, Verdict
from redline.drafters.sapling import Sapling
from redline.drafters.trust import DOUBT, check_doubt

BLOCK = 128
"""Logits that are compared at once in search of the largest."""

FIRST, OTHERS, WEIGHT = (0.30, 0.08, 0.04), 0.02, 20.0
"""How often a token's first, second, third … successor is believed to come, worth so many tokens."""


class Recycle:
    """Remembers the target's own likeliest tokens after every token it has read, and guesses a tree of them.

    Needs no model and no training, and knows something about every text; it is right far less often than a
    match (Luo et al., Token Recycling, arXiv 2408.08696). Guesses are deterministic. What was learned stays
    for later texts: at most `width` numbers a token of the vocabulary.

    Args:
        width: Successors to remember of each token.
        doubt: As for `Suffix`.

    Raises:
        OptionError: `width` is below 1, or `doubt` is no probability.
    """

    name = "recycle"
    confident = True
    draws = False

    def __init__(self, width: int = 8, doubt: float = DOUBT) -> None:
        if not is_whole(width) or width < 1:
            raise OptionError(f"width is {width!r}.", "It must be a whole number, 1 or more.")
        self._width, self._doubt = width, check_doubt(doubt)
        self._after: dict[int, list[int]] = {}
        self._seen, self._right = 0, [0] * width
        self._read: dict[int, int] = {}

    def start(self, key: int, tokens: Sequence[int]) -> None:
        self._read[key] = 0

    def read(self, key: int, tokens: Sequence[int]) -> None:
        """In a prompt the next token is what followed, as long as nothing better is known."""
        for token, following in pairwise(tokens[max(0, self._read[key] - 1) :]):
            self._after.setdefault(token, [following])
        self._read[key] = len(tokens)

    def watch(self, key: int, tokens: Sequence[int], rows: Sequence[NDArray[np.float32]]) -> None:
        for token, row in zip(tokens, rows, strict=True):
            self._after[token] = largest(row, self._width)

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        return [self._grow(scene) for scene in scenes]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """How often which successor came, as far as the tokens of one step tell."""
        for token, following in pairwise(emitted):
            known = self._after.get(token, [])
            self._seen += 1
            if following in known:
                self._right[known.index(following)] += 1

    def stop(self, key: int) -> None:
        self._read.pop(key, None)

    def close(self) -> None:
        self._after.clear()

    def _grow(self, scene: Scene) -> Draft:
        """The most probable nodes first, as far as the budget goes; chains have first successors only."""
        budget = scene.budget
        rates = [self._rate(rank) for rank in range(self._width if scene.trees else 1)]
        sapling = Sapling(budget.depth, budget.nodes, min(self._doubt, budget.confidence))
        sapling.open(ROOT, self._children(scene.history.tokens[-1], rates))
        while (node := sapling.take()) is not None:
            sapling.open(node, self._children(sapling.tokens[node], rates))
        return sapling.draft(self.name)

    def _children(self, token: int, rates: Sequence[float]) -> list[tuple[int, float]]:
        return list(zip(self._after.get(token, []), rates, strict=False))

    def _rate(self, rank: int) -> float:
        """How often the successor of that rank comes."""
        first = FIRST[rank] if rank < len(FIRST) else OTHERS
        return (self._right[rank] + WEIGHT * first) / (self._seen + WEIGHT)


def largest(row: NDArray[np.float32], count: int) -> list[int]:
    """The ids of the `count` largest logits, largest first.

    They lie in the `count` blocks with the largest maxima, so that most of the row is looked at only once.
    """
    whole = len(row) // BLOCK
    ids = np.arange(whole * BLOCK, len(row))
    if whole > count:
        tops = row[: whole * BLOCK].reshape(whole, BLOCK).max(axis=1)
        blocks = np.argpartition(tops, -count)[-count:]
        ids = np.concatenate([(blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel(), ids])
    else:
        ids = np.arange(len(row))
    best: list[int] = ids[np.argsort(-row[ids], kind="stable")[:count]].tolist()
    return best
