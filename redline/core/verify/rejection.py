"""Rejection with residual resampling: the rule that started speculative decoding."""

from __future__ import annotations

from collections.abc import Mapping

from redline.core.dist import Dist
from redline.core.ports import Chance
from redline.core.types import Draft, Verdict


class Rejection:
    """Keep x with probability min(1, p(x) / q(x)); at the first refusal draw from norm(max(p − q, 0)).

    Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318. A guess is kept with probability
    1 − TV(p, q), which no rule for a single guess can beat.
    """

    name = "rejection"
    summary = "keeps a guess with probability p/q, else draws from what the target still owes"
    exact = True
    trees = False
    needs_q = True
    samples = True
    shared = False

    def __call__(self, draft: Draft, target: Mapping[int, Dist], chance: Chance) -> Verdict:
        for node, (x, q) in enumerate(zip(draft.tokens, draft.dists, strict=True)):
            p = target[node - 1]  # in a chain the node before; ROOT is -1
            if not chance.accept(p.prob(x) / q.prob(x), at=node):
                return Verdict(tuple(range(node)), chance.pick(p.minus(q), at=node))
        n = len(draft)
        return Verdict(tuple(range(n)), chance.pick(target[n - 1], at=n))
