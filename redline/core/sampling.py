"""From a row of logits to the distribution that is really sampled: one pipeline for everybody.

Target, drafter, plain decoding and training call `distribution`. The order is fixed:

    bias → penalties → allowed → temperature → top-k → top-p → min-p

Each filter sees the renormalised result of the one before it. Temperature 0 is greedy: all mass on the
largest logit, the lowest id on a tie. Nothing here has state: the history is an argument, so there is
nothing to roll back when a guess is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from redline.core.dist import Dist, FloatArray, IntArray
from redline.core.errors import OptionError, is_whole
from redline.core.types import History


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target samples. The defaults are greedy decoding with nothing else on.

    Attributes:
        temperature: 0 is greedy; 1 is the model's own distribution.
        top_k: Keep the k most probable tokens; 0 keeps all.
        top_p: Keep the smallest set of most probable tokens whose mass is at least this; 1 keeps all.
        min_p: Keep tokens at least this fraction as probable as the most probable one; 0 keeps all.
        repetition_penalty: Divide positive and multiply negative logits of tokens that stand in the
            prompt or the output by this (Keskar et al., arXiv 1909.05858); 1 is off.
        presence_penalty: Subtract this from the logits of tokens that stand in the output.
        frequency_penalty: Subtract this times their count in the output.
        penalty_window: The penalties look at the last so many tokens; 0 looks at all.
        bias: Added to the logits of single tokens, by id.

    Raises:
        OptionError: A value is out of range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 0
    bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, fits, range_ in (
            ("temperature", lambda x: 0 <= x < np.inf, "0 or more"),
            ("top_k", lambda x: is_whole(x) and x >= 0, "a whole number, 0 or more"),
            ("top_p", lambda x: 0 < x <= 1, "above 0 and at most 1"),
            ("min_p", lambda x: 0 <= x <= 1, "from 0 to 1"),
            ("repetition_penalty", lambda x: 0 < x < np.inf, "above 0"),
            ("presence_penalty", np.isfinite, "a finite number"),
            ("frequency_penalty", np.isfinite, "a finite number"),
            ("penalty_window", lambda x: is_whole(x) and x >= 0, "a whole number, 0 or more"),
            ("bias", lambda x: all(is_whole(i) and i >= 0 and x[i] < np.inf for i in x), "ids to numbers"),
        ):
            value = getattr(self, name)
            try:
                good = bool(fits(value))
            except (TypeError, ValueError, LookupError):  # not even of a kind that can be compared
                good = False
            if not good:
                raise OptionError(f"{name} is {value!r}.", f"It must be {range_}.")

    @property
    def reads_history(self) -> bool:
        """Whether a row depends on the text before it beyond the model itself."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)


def distribution(
    logits: FloatArray, settings: Sampling, history: History, allowed: NDArray[np.bool_] | None = None
) -> Dist:
    """The distribution of the next token.

    Args:
        logits: One row of the model's output, shape (V,). Not changed.
        settings: How to sample.
        history: The text that the row continues; only the penalties read it.
        allowed: Tokens that a constraint permits, shape (V,); None permits all.

    Returns:
        A `Dist` over the tokens that survive every filter.

    Raises:
        OptionError: A bias names a token outside the vocabulary, no token is left to choose from, or the
            row holds NaN.
    """
    logits = adjusted(logits, settings, history, allowed)
    top = int(logits.argmax())  # NaN compares as the largest, so a broken row shows itself here
    if not np.isfinite(logits[top]):
        raise OptionError(
            f"No token can be chosen: the largest logit is {logits[top]}.",
            "A bias or a constraint may forbid every token; a model that computes NaN is damaged.",
        )
    if settings.temperature == 0:
        return Dist.point(top)
    ids = _top_k(logits, int(settings.top_k))
    weights = logits[ids].astype(np.float64)  # in place from here: a large vocabulary is megabytes a copy
    weights -= float(logits[top])
    with np.errstate(over="ignore"):  # -inf is right where the temperature is next to nothing
        weights /= settings.temperature
    dist = Dist.of(np.exp(weights, out=weights), ids)
    if settings.top_p < 1:
        dist = _top_p(dist, settings.top_p)
    if settings.min_p > 0:
        floor = settings.min_p * dist.probs.max()
        dist = Dist.of(np.where(dist.probs >= floor, dist.probs, 0.0), dist.ids)
    return dist


def adjusted(
    logits: FloatArray, settings: Sampling, history: History, allowed: NDArray[np.bool_] | None = None
) -> FloatArray:
    """The logits that temperature and filters see: with bias and penalties, -inf for what is not allowed.

    Args:
        logits, settings, history, allowed: See `distribution`.

    Returns:
        Shape (V,); `logits` itself where nothing is on.

    Raises:
        OptionError: A bias names a token outside the vocabulary.
    """
    logits = _biased(logits, settings.bias)
    if settings.reads_history:
        logits = _penalised(logits, settings, history)
    return logits if allowed is None else np.where(allowed, logits, -np.inf)


def _biased(logits: FloatArray, bias: Mapping[int, float]) -> FloatArray:
    if not bias:
        return logits
    ids = np.fromiter(bias, np.int64, len(bias))
    if ids.max() >= len(logits):
        raise OptionError(
            f"bias names token {ids.max()}, but the vocabulary has {len(logits)} tokens.",
            "Token ids run from 0 to one less than that.",
        )
    logits = logits.copy()
    logits[ids] += np.fromiter(bias.values(), logits.dtype, len(bias))
    return logits


def _penalised(logits: FloatArray, settings: Sampling, history: History) -> FloatArray:
    start = max(0, len(history.tokens) - int(settings.penalty_window)) if settings.penalty_window else 0
    text = np.asarray(history.tokens[start:], np.int64)
    output = text[max(0, history.prompt - start) :]
    seen = np.unique(text[text < len(logits)])  # a drafter's row may be of fewer tokens than a text has
    written, counts = np.unique(output[output < len(logits)], return_counts=True)
    logits = logits.copy()
    rep = settings.repetition_penalty
    logits[seen] = np.where(logits[seen] > 0, logits[seen] / rep, logits[seen] * rep)
    logits[written] -= settings.presence_penalty + settings.frequency_penalty * counts
    return logits


def _top_k(logits: FloatArray, k: int) -> IntArray:
    """Ids of the k largest logits, ascending; on a tie at the edge the lowest ids."""
    if not 0 < k < len(logits):
        return np.flatnonzero(logits > -np.inf)
    edge = np.partition(logits, -k)[-k]
    above = np.flatnonzero(logits > edge)
    level = np.flatnonzero(logits == edge)[: k - len(above)]
    ids: IntArray = np.sort(np.concatenate([above, level]))
    return ids[logits[ids] > -np.inf]


def _top_p(dist: Dist, top_p: float) -> Dist:
    """The nucleus (Holtzman et al., arXiv 1904.09751); on a tie at its edge the lowest ids."""
    for size in (1024, len(dist.ids)):  # nearly every nucleus is small: sort the whole vocabulary only if not
        edge = np.partition(dist.probs, -size)[-size] if size < len(dist.ids) else 0.0
        near = np.flatnonzero(dist.probs >= edge)
        order = near[np.argsort(-dist.probs[near], kind="stable")]
        mass = np.cumsum(dist.probs[order])
        if mass[-1] >= top_p:
            break
    keep = np.sort(order[: int(mass.searchsorted(top_p, side="left")) + 1])
    return Dist.of(dist.probs[keep], dist.ids[keep])
