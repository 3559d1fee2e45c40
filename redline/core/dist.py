"""`Dist`: a next-token distribution that stores only the tokens it can produce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.floating]


@dataclass(frozen=True, slots=True, eq=False)
class Dist:
    """A probability distribution over token ids, zero outside `ids`.

    Attributes:
        ids: Token ids with positive probability, strictly ascending, shape (n,).
        probs: Their probabilities in float64, all positive, summing to 1, shape (n,).
    """

    ids: IntArray
    probs: NDArray[np.float64]

    @classmethod
    def point(cls, token: int) -> Dist:
        """The distribution of a certainty: greedy rows and deterministic guesses."""
        return cls(np.array([token], np.int64), np.ones(1))

    @classmethod
    def of(cls, weights: FloatArray, ids: IntArray | None = None) -> Dist:
        """Normalise non-negative weights and drop the zeros.

        Args:
            weights: Non-negative, finite, not all zero, shape (n,).
            ids: Ascending token ids, shape (n,); the indices 0..n-1 when left out.

        Raises:
            ValueError: A weight is negative or not finite, or nothing is left.
        """
        weights = np.asarray(weights, np.float64)
        total = weights.sum()
        if not (np.isfinite(total) and total > 0 and weights.min() >= 0):
            raise ValueError("weights must be finite, non-negative and not all zero")
        probs = weights / total
        ids = np.arange(len(probs)) if ids is None else ids
        if probs.min() > 0:  # after the division, which may round to zero
            return cls(ids, probs)
        keep = np.flatnonzero(probs)
        return cls(ids[keep], probs[keep])

    @property
    def top(self) -> int:
        """The most probable token; the lowest id on a tie."""
        return int(self.ids[self.probs.argmax()])

    def prob(self, token: int) -> float:
        """The probability of one token; 0.0 for a token that cannot occur."""
        i = int(self.ids.searchsorted(token))
        return float(self.probs[i]) if i < len(self.ids) and self.ids[i] == token else 0.0

    def quantile(self, u: float) -> int:
        """The token at which the distribution function passes `u`, for u in [0, 1)."""
        i = int(np.cumsum(self.probs).searchsorted(u, side="right"))
        return int(self.ids[min(i, len(self.ids) - 1)])  # the sum may round to just below 1

    def on(self, ids: IntArray) -> NDArray[np.float64]:
        """The probabilities of the given ids, shape of `ids`; 0.0 where a token cannot occur."""
        at = np.minimum(self.ids.searchsorted(ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, self.probs[at], 0.0)

    def excess(self, q: Dist, weight: float = 1.0) -> NDArray[np.float64]:
        """max(weight · p − q, 0) on the support of p, not normalised, shape (n,)."""
        return np.maximum(weight * self.probs - q.on(self.ids), 0.0)

    def minus(self, q: Dist, weight: float = 1.0) -> Dist:
        """What the target still owes once a draw from q was refused: norm(max(weight · p − q, 0)).

        Where p and q agree so closely that rounding leaves nothing, a refusal has probability zero
        up to rounding, and p itself is the right law (Leviathan et al., arXiv 2211.17192).
        """
        rest = self.excess(q, weight)
        return Dist.of(rest, self.ids) if rest.sum() > 0 else self

    def without(self, token: int) -> Dist:
        """This distribution given that `token` does not occur.

        Raises:
            ValueError: Nothing else can occur.
        """
        return Dist.of(np.where(self.ids == token, 0.0, self.probs), self.ids)
