"""Where two texts of one model part: is it a near-tie that rounding decided, or a bug?

Two passes over the same tokens need not give the same bits: a kernel may sum in another order for 8 rows
than for 1. Where two tokens are as good as equal, that decides between them, and from there on the texts
differ for good. A damaged cache or a wrong rule makes texts differ too. The test: read the shared text again,
token by token as plain decoding does, and again in wide passes as checking does. How much the two scores move
against each other is the noise; a bug shows as a gap that no width accounts for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from redline.core.chance import Keyed, derive, uniforms
from redline.core.dist import FloatArray
from redline.core.errors import OptionError
from redline.core.ports import Backend, Chunk, Tokenizer
from redline.core.sampling import Sampling, distribution
from redline.core.types import History

PROBES = 16
"""Wide readings of the shared text at most, each in passes of other widths, as a run mixes them."""

ENOUGH = 2
"""Wide readings after which no more are made once their noise accounts for the difference. More of them could
only find more noise, and on a large model each takes seconds."""

FACTOR = 2.0
"""A near-tie's gap is at most so many times the noise. A fork stands where noise happened to be large, the
first of hundreds of places, while the noise measured there is the largest of some draws. If those are normal,
twice the largest of sixteen is about four standard deviations, which few runs ever see; what a bug does to
scores knows no such scale."""

LOUD = 2.0
"""Logits: noise above this is no rounding. The worst kernels measured, of 4-bit weights, move logits by 0.5;
a wrong mask or a misplaced row in wide passes moves them by more, and must not pass for noise."""

WIDTHS = tuple(range(2, 17))
"""Rows of the passes that the noise is measured over, when no others are named."""

Row = NDArray[np.float32]
Verdict = Literal["near-tie", "bug"]


@dataclass(frozen=True, slots=True)
class Fork:
    """The first difference of two texts.

    Attributes:
        position: Index of the first token that differs.
        plain, other: The two tokens; None where that text has ended.
        labels: Their texts, or the names of those that add none.
        gap: How far the token that is further behind lies below the best one, in the target's own one-row
            pass: in logits, or in log p + Gumbel noise where the text is sampled. Infinite where a filter
            such as top-k has dropped the token, and where a text has ended.
        noise: The largest change of that difference over the passes of other widths that were tried.
        verdict: "near-tie" if the noise accounts for the gap, else "bug".
    """

    position: int
    plain: int | None
    other: int | None
    labels: tuple[str, str]
    gap: float
    noise: float
    verdict: Verdict

    @property
    def sentence(self) -> str:
        """All of it in words."""
        if self.plain is None or self.other is None:
            ended, goes_on = ("plain", "other") if self.plain is None else ("other", "plain")
            return f"a bug: at token {self.position} the {ended} text ends and the {goes_on} one goes on."
        where = f"a {self.verdict}: at token {self.position}, {self.labels[0]!r} or {self.labels[1]!r},"
        if self.gap == 0:
            return f"{where} the two scores are exactly equal."
        apart = f"are {self.gap:.2g} apart" if np.isfinite(self.gap) else "lie on two sides of a filter"
        return f"{where} the scores {apart} and move by {self.noise:.2g} with the width of the pass."


def explain(
    target: Backend,
    prompt: Sequence[int],
    plain: Sequence[int],
    other: Sequence[int],
    *,
    sampling: Sampling | None = None,
    seed: int | None = None,
    widths: Iterable[int] = WIDTHS,
    cut: bool = False,
    prefill: int = 256,
) -> Fork | None:
    """Find where two texts part, and why.

    Args:
        target: The model that both came from.
        prompt: What both go on from, at least one token.
        plain, other: The two texts without the prompt: by plain decoding, and in another way.
        sampling: How both were sampled; greedy when left out.
        seed: Of both, under a rule whose noise is tied to positions, such as matching.
        widths: Rows of the passes to measure the noise over; those that the other way used will do.
        cut: The texts were cut at lengths of their own, so that one may well be the beginning of the other.
        prefill: Prompt tokens read per pass.

    Returns:
        The first difference; None where there is none.

    Raises:
        OptionError: The texts were sampled and no seed is given, so that there is nothing to compare.
    """
    sampling = sampling or Sampling()
    if sampling.temperature > 0 and seed is None:
        raise OptionError("Sampled texts differ by chance.", "Give the seed that both were drawn with.")
    at = next((i for i, (a, b) in enumerate(zip(plain, other, strict=False)) if a != b), None)
    if at is None:
        at = min(len(plain), len(other))
        if cut or len(plain) == len(other):
            return None
        a, b = (None, other[at]) if at == len(plain) else (plain[at], None)
        return Fork(at, a, b, ("", ""), np.inf, 0.0, "bug")
    text, behind = [*prompt, *plain[:at]], other[at:]
    judge = _Judge(sampling, seed, History(text, len(prompt)))
    reader = _Reader(target, text, len(prompt) - 1, behind, prefill)
    one = reader.row(1, 0, lambda: 1)
    best, wide = judge.draw(one), list[Row]()
    # Nothing says that the plain text itself is sound: both tokens have to hold against the best one.
    found = [judge.weigh(one, wide, best, token) for token in (plain[at], other[at])]
    for probe in _probes(tuple(widths)):
        wide.append(reader.row(*probe))
        found = [judge.weigh(one, wide, best, token) for token in (plain[at], other[at])]
        if len(wide) >= ENOUGH and all(near for _, _, near in found):
            break
    gap, noise, _ = max(found)
    verdict: Verdict = "near-tie" if all(near for _, _, near in found) else "bug"
    labels = _label(target.tokenizer, plain[at]), _label(target.tokenizer, other[at])
    return Fork(at, plain[at], other[at], labels, gap, noise, verdict)


def _label(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.piece(token).decode(errors="replace") or tokenizer.label(token)


class _Judge:
    """What is drawn from a row at one place of a text, and by how much."""

    def __init__(self, sampling: Sampling, seed: int | None, history: History) -> None:
        self._sampling, self._seed, self._history = sampling, seed, history
        self._place = len(history.tokens)
        self._temperature = sampling.temperature or 1.0

    def draw(self, row: FloatArray) -> int:
        """The token that the target writes."""
        dist = distribution(row, self._sampling, self._history)
        return dist.top if self._seed is None else Keyed(self._seed).at(self._place).pick(dist, at=0)

    def weigh(self, one: Row, wide: Sequence[Row], best: int, token: int) -> tuple[float, float, bool]:
        """Gap and noise between a token and the best one, and whether the noise accounts for the gap."""
        if token == best:
            return 0.0, 0.0, True
        margin, noise = self._margin(one, best, token), 0.0
        if np.isfinite(margin):  # else a bias forbids the token at any width
            noise = max((abs(self._margin(row, best, token) - margin) for row in wide), default=0.0)
        quiet = noise <= LOUD / self._temperature
        if self._sampling.temperature == 0:
            return margin, noise, quiet and margin <= FACTOR * noise
        kept = distribution(one, self._sampling, self._history).prob(token) > 0
        gap = max(margin, 0.0) if kept else np.inf
        return gap, noise, quiet and self._turns(one, wide, best, token)

    def _turns(self, one: Row, wide: Sequence[Row], best: int, token: int) -> bool:
        """Whether noise of the measured size turns the draw, be it by moving a token over a filter's edge."""
        logits = one.astype(np.float64)
        lead = logits[best] - logits[token]
        shift = FACTOR * max((abs(row[best] - row[token] - lead) for row in wide), default=0.0)
        lifted, lowered = logits.copy(), logits.copy()
        lifted[token] += shift
        lowered[best] -= shift
        return any(self.draw(row) == token for row in (lifted, lowered))

    def _margin(self, row: Row, best: int, token: int) -> float:
        """How far the best token's score is above another's, the filters left aside: they move no scores."""
        # At temperature 1, so that no small probability is lost before its logarithm is taken.
        bare = replace(self._sampling, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
        pair = np.array([best, token])
        with np.errstate(divide="ignore"):
            scores = np.log(distribution(row, bare, self._history).on(pair)) / self._temperature
        if self._sampling.temperature > 0 and self._seed is not None:
            scores -= np.log(-np.log(uniforms(derive(self._seed, self._place), pair)))
        return float(scores[0] - scores[1])


def _probes(widths: Sequence[int]) -> Iterator[tuple[int, int, Callable[[], int]]]:
    """Width of the last pass, place of the row in it, and the widths of the passes before it.

    Kernels that work in blocks treat the rows of a pass differently, so the places are varied too.
    """
    for number in range(PROBES if widths else 0):
        rng = Random(number)
        width = widths[number % len(widths)]
        yield width, rng.randrange(width), partial(rng.choice, [1, *widths])


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a text from the start. It rewinds nothing: a cache that forgets badly would make its own noise.

    Attributes:
        target: The model.
        text: At least one token.
        start: Where the prompt ends that is read in large passes, `prefill` tokens each.
        behind: Tokens to put behind the text in its last pass.
    """

    target: Backend
    text: Sequence[int]
    start: int
    behind: Sequence[int]
    prefill: int

    def row(self, width: int, place: int, before: Callable[[], int]) -> Row:
        """The row after the text, at a place of a pass of some width; `before` gives the widths before it."""
        place = min(place, len(self.text) - 1)
        head = len(self.text) - 1 - place
        start = min(self.start, head)
        edges = [head]
        while edges[0] > start:
            edges.insert(0, max(start, edges[0] - before()))
        edges = [*range(0, start, self.prefill), *edges]
        cache = self.target.open()
        try:
            for begin, end in pairwise(edges):
                want: Literal["none", "all"] = "none" if begin < start else "all"
                self.target.extend([Chunk(cache, self.text[begin:end], want)])
            room = min(width, self.target.traits.context - head)
            block = [*self.text[head:], *self.behind, *(list(self.text) * width)][:room]
            row: Row = self.target.extend([Chunk(cache, block, "all")])[0][place]
            return row
        finally:
            cache.close()
