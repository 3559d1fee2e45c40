"""How far guesses that cost nothing can be trusted."""

from __future__ import annotations

from bisect import bisect_right

from redline.core.errors import OptionError
from redline.core.topology import ROOT
from redline.core.types import Draft, Verdict

DOUBT = 0.15
"""Guess on while all guesses together are at least so probable. A look-up costs nothing but a row of the
target's pass, so that it may be less probable than what a model has to say."""

LENGTHS = (1, 2, 3, 4, 6, 9, 14, 22)
"""Matches from each of these lengths up to the next are counted together."""

FIRST = (0.30, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92, 0.95)
"""What is believed of each before anything is known, where nothing else ever followed."""

WEIGHT = 4.0
"""So many observations that belief is worth."""

BINS = 10
"""Parts of 0 to 1 in which what drafters say of their guesses is compared with what came."""

MEMORY = 64.0
"""After so many observations older ones count half: a text changes its ways."""


def check_doubt(doubt: float) -> float:
    """The doubt itself.

    Raises:
        OptionError: It is no probability.
    """
    if not 0 <= doubt <= 1:
        raise OptionError(f"doubt is {doubt!r}.", "It must be a probability, from 0 to 1.")
    return doubt


class Trust:
    """Learns from every token of a text what a guess would have been worth."""

    def __init__(self) -> None:
        self._seen = [[0.0] * len(LENGTHS), [0.0] * len(LENGTHS)]
        self._right = [[0.0] * len(LENGTHS), [0.0] * len(LENGTHS)]

    def of(self, length: int, share: float) -> float:
        """The probability that a continuation is right.

        Args:
            length: Of the match, 1 or more.
            share: Of this continuation in all that ever followed the match.
        """
        only, at = share == 1.0, bisect_right(LENGTHS, length) - 1
        first = FIRST[at] * share
        seen, right = self._seen[only][at], self._right[only][at]
        return (right + WEIGHT * first) / (seen + WEIGHT)

    def learn(self, length: int, share: float, was_right: bool) -> None:
        """What followed a match; arguments as for `of`."""
        only, at = share == 1.0, bisect_right(LENGTHS, length) - 1
        self._seen[only][at] += 1
        self._right[only][at] += was_right
        if self._seen[only][at] > MEMORY:
            self._seen[only][at] /= 2
            self._right[only][at] /= 2


class Calibration:
    """What a drafter's trust in its guesses has been worth in one text, by source."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[float, float]] = {}

    def of(self, source: str, trust: float) -> float:
        """How probable a guess is to be kept if its parent is: said and observed, by their weight."""
        seen, kept = self._seen.get((source, int(trust * BINS)), (0.0, 0.0))
        return (kept + WEIGHT * trust) / (seen + WEIGHT)

    def survival(self, draft: Draft) -> list[float]:
        """How probable every guess is to be kept: along its path, multiplied."""
        found: list[float] = []
        for source, trust, parent in zip(draft.sources, draft.trust, draft.parents, strict=True):
            found.append(self.of(source, trust) * (found[parent] if parent != ROOT else 1.0))
        return found

    def learn(self, draft: Draft, verdict: Verdict, emitted: int) -> None:
        """What became of a draft; guesses behind the end of the text were put before nobody."""
        node = ROOT
        for at in range(min(len(verdict.accepted) + 1, emitted)):
            kept = verdict.accepted[at] if at < len(verdict.accepted) else None
            for child in draft.children(node):
                self._learn(draft.sources[child], draft.trust[child], child == kept)
                if child == kept:
                    node = child
                    break

    def _learn(self, source: str, trust: float, was_kept: bool) -> None:
        at = source, int(trust * BINS)
        seen, kept = self._seen.get(at, (0.0, 0.0))
        scale = 0.5 if seen >= MEMORY else 1.0
        self._seen[at] = scale * seen + 1, scale * kept + was_kept
