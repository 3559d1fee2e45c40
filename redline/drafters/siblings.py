"""Candidates for one place, drawn one after another from what a draft model says of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from redline.core.dist import Dist
from redline.core.ports import Chance
from redline.core.sampling import Sampling, adjusted, distribution
from redline.core.types import History

WORTH = 0.05
"""A further candidate is made if it is kept with at least this probability, by the model's own account. A row
adds about as much to a pass of the target on a CPU, in passes, and less on a GPU."""


class Siblings:
    """What may follow one node: candidates, one after another.

    The k-th is expected to be kept as often as the model finds its k-th favourite probable at temperature 1.
    So what a candidate is worth is known before it is drawn, and hangs on nothing that is.

    Args:
        logits: After the node, shape (V,).
        sampling: How to draw; at temperature 0 candidates are the most probable tokens, each for certain.
        history: The text with all that leads to the node.
        allowed: What a constraint permits, shape (V,).
    """

    def __init__(
        self,
        logits: NDArray[np.float32],
        sampling: Sampling,
        history: History,
        allowed: NDArray[np.bool_] | None,
    ) -> None:
        self._left: Dist | None = distribution(logits, sampling, history, allowed)
        seen = adjusted(logits, sampling, history, allowed)
        self._odds = Odds(seen)
        likely = self._odds.above(WORTH)
        ranked = likely[np.argsort(-seen[likely], kind="stable")].tolist() or [int(seen.argmax())]
        self._certain = ranked if sampling.temperature == 0 else []
        most = len(ranked) if self._certain else len(self._left.ids)
        self._worths = [self._odds.of(token) for token in ranked[:most]]
        self._drawn = 0

    @property
    def worth(self) -> float:
        """How often the next candidate is kept if the node is; 0 where there is none."""
        return self._worths[self._drawn] if self._drawn < len(self._worths) else 0.0

    def draw(self, chance: Chance, at: int) -> tuple[int, Dist, float]:
        """The next candidate, what it was drawn from, and how probable the model finds it at temperature 1.

        Drawn without replacement. Under noise tied to positions that is the next one in the same race, which
        wins the target's race more often than the next most probable one does: for two random models of 200
        tokens at temperature 0.7, the target's draw is among two candidates in 93 % of cases instead of 87 %.
        """
        if self._certain:
            token = self._certain[self._drawn]
            law = Dist.point(token)
        else:
            assert self._left is not None
            law = self._left
            token = chance.pick(law, at)
            self._left = law.without(token) if len(law.ids) > 1 else None
        self._drawn += 1
        return token, law, self._odds.of(token)


class Odds:
    """What a model finds probable at temperature 1, whatever the sampling.

    Args:
        logits: Shape (V,), the largest finite.
    """

    def __init__(self, logits: NDArray[np.floating]) -> None:
        self._weights = np.exp(logits - logits.max())
        self._total = float(self._weights.sum(dtype=np.float64))

    @property
    def top(self) -> float:
        """How probable its favourite is."""
        return 1 / self._total

    def of(self, token: int) -> float:
        """How probable a token is."""
        return float(self._weights[token]) / self._total

    def above(self, least: float) -> NDArray[np.intp]:
        """The tokens that are at least so probable, ascending."""
        return np.flatnonzero(self._weights >= least * self._total)
