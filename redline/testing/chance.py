"""Enumerated randomness: turns "lossless" into an equality without seeds or statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from redline.core.dist import Dist
from redline.core.ports import Noise

T = TypeVar("T", bound=Hashable)


def outcomes(run: Callable[[Noise], T], limit: int = 1_000_000) -> dict[T, float]:
    """The exact law of whatever `run` returns, by taking every branch of its randomness once.

    Args:
        run: A computation whose only randomness is the `Noise` it is given.
        limit: Give up beyond so many branches.

    Returns:
        Probability by result; the probabilities sum to 1.
    """
    law: dict[T, float] = defaultdict(float)
    scripts: list[list[int]] = [[]]
    for _ in range(limit):
        if not scripts:
            return dict(law)
        noise = Enumerated(scripts.pop())
        law[run(noise)] += noise.probability
        scripts += noise.untaken
    raise AssertionError(f"more than {limit} branches")


class Enumerated:
    """Noise that follows a script and then always takes the first branch. Made by `outcomes`.

    Attributes:
        probability: Of the branches taken so far.
        untaken: Scripts of the branches passed by behind the end of the script.
    """

    def __init__(self, script: Sequence[int]) -> None:
        self._script = script
        self._taken: list[int] = []
        self.probability = 1.0
        self.untaken: list[list[int]] = []
        self.drawn: dict[int, tuple[Dist, int]] = {}

    def at(self, position: int) -> EnumeratedChance:
        return EnumeratedChance(self, position)

    def stream(self, name: str, step: int) -> EnumeratedChance:
        return EnumeratedChance(self, None)

    def branch(self, weights: Sequence[float]) -> int:
        """One of the branches of positive weight."""
        at = len(self._taken)
        ways = [i for i, weight in enumerate(weights) if weight > 0]
        if at < len(self._script):
            way = self._script[at]
        else:
            way = ways[0]
            self.untaken += [[*self._taken, other] for other in ways[1:]]
        self._taken.append(way)
        self.probability *= weights[way]
        return way


class EnumeratedChance:
    """One stream of enumerated noise, fresh or tied to positions."""

    def __init__(self, noise: Enumerated, position: int | None) -> None:
        self._noise, self._position = noise, position

    def accept(self, p: float, at: int) -> bool:
        return p > 0 and (p >= 1 or self._noise.branch([p, 1 - p]) == 0)

    def pick(self, dist: Dist, at: int) -> int:
        if self._position is None:
            return int(dist.ids[self._noise.branch(dist.probs.tolist())])
        place = self._position + at
        if place not in self._noise.drawn:
            self._noise.drawn[place] = (dist, int(dist.ids[self._noise.branch(dist.probs.tolist())]))
        known, token = self._noise.drawn[place]
        same = known.ids.tolist() == dist.ids.tolist() and known.probs.tolist() == dist.probs.tolist()
        assert same, "two distributions at one position of tied noise cannot be enumerated"
        return token
