"""What the target thought might follow a token when it last stood somewhere may follow it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Text:
    """What is known of one text.

    Attributes:
        right: How often the successor of each rank came.
        seen: Of how many.
        after: The likeliest successors of every token that was read, best first.
        length: How much was read.
    """

    right: list[int]
    seen: int = 0
    after: dict[int, list[int]] = field(default_factory=dict)
    length: int = 0

    def read(self, tokens: Sequence[int]) -> None:
        """What is new of the text: of tokens whose row nobody has seen, the next one is a successor."""
        for token, following in pairwise(tokens[max(0, self.length - 1) :]):
            self.after.setdefault(token, [following])
        self.length = len(tokens)

    def learn(self, emitted: Sequence[int]) -> None:
        """How often which successor came, as far as the tokens of one step tell."""
        for token, following in pairwise(emitted):
            known = self.after.get(token, [])
            self.seen += 1
            if following in known:
                self.right[known.index(following)] += 1

    def successors(self, token: int, ranks: int) -> list[tuple[int, float]]:
        """The likeliest ones, and how often those of their rank come."""
        rates = [
            (right + WEIGHT * (FIRST[rank] if rank < len(FIRST) else OTHERS)) / (self.seen + WEIGHT)
            for rank, right in enumerate(self.right[:ranks])
        ]
        return list(zip(self.after.get(token, []), rates, strict=False))


class Recycle:
    """Remembers the target's own likeliest tokens after every token it has read, and guesses a tree of them.

    Needs no model and no training, and knows something about every text; it is right far less often than a
    match (Luo et al., Token Recycling, arXiv 2408.08696). Guesses are deterministic, and what was learned
    ends with the text, so that a seed repeats a run under every rule: `width` numbers for every token in it.

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
        self._texts: dict[int, Text] = {}

    def start(self, key: int, tokens: Sequence[int]) -> None:
        self._texts[key] = Text([0] * self._width)

    def read(self, key: int, tokens: Sequence[int]) -> None:
        self._texts[key].read(tokens)

    def watch(self, key: int, tokens: Sequence[int], rows: Sequence[NDArray[np.float32]]) -> None:
        for token, row in zip(tokens, rows, strict=True):
            self._texts[key].after[token] = largest(row, self._width)

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        return [self._grow(self._texts[scene.key], scene) for scene in scenes]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        self._texts[key].learn(emitted)

    def stop(self, key: int) -> None:
        self._texts.pop(key, None)

    def close(self) -> None:
        self._texts.clear()

    def _grow(self, text: Text, scene: Scene) -> Draft:
        """The most probable nodes first, as far as the budget goes; chains have first successors only."""
        text.read(scene.history.tokens)
        budget, ranks = scene.budget, self._width if scene.trees else 1
        sapling = Sapling(budget.depth, budget.nodes, min(self._doubt, budget.confidence))
        sapling.open(ROOT, text.successors(scene.history.tokens[-1], ranks))
        while (node := sapling.take()) is not None:
            sapling.open(node, text.successors(sapling.tokens[node], ranks))
        return sapling.draft(self.name)


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
