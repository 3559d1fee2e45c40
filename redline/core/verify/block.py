"""Block verification: a chain of guesses is judged as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from redline.core.dist import Dist
from redline.core.ports import Chance
from redline.core.types import Draft, Verdict


class Block:
    """Keeps at least as many guesses as `Rejection` in expectation, with the same law of the text.

    Sun et al., arXiv 2403.10444. Clamping the running product of p/q instead of each factor lets a
    likely token pay for an unlikely one before it. On deterministic guesses it gains nothing.
    """

    name = "block"
    summary = "judges a whole chain jointly; keeps more than rejection when drafts are sampled"
    exact = True
    trees = False
    needs_q = True
    samples = True
    shared = False

    def __call__(self, draft: Draft, target: Mapping[int, Dist], chance: Chance) -> Verdict:
        n = len(draft)
        weight = 1.0
        kept, kept_weight = 0, 1.0
        for i in range(n):  # guesses 0..i kept is one candidate length; the longest that passes wins
            x, q = draft.tokens[i], draft.dists[i]
            weight = min(1.0, weight * target[i - 1].prob(x) / q.prob(x))
            if weight == 0.0:
                break  # the target cannot write this guess, nor anything behind it
            if i + 1 < n:
                owed = float(target[i].excess(draft.dists[i + 1], weight).sum())
                passes = owed / (owed + (1.0 - weight)) if owed > 0 else 0.0  # owed may be next to nothing
            else:
                passes = weight
            if chance.accept(passes, at=i):
                kept, kept_weight = i + 1, weight
        p = target[kept - 1]
        if kept < n:
            p = p.minus(draft.dists[kept], kept_weight)
        return Verdict(tuple(range(kept)), chance.pick(p, at=kept))
