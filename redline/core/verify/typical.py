"""Typical acceptance: LOSSY. The text is plausible to the target but does not have its law."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from redline.core.dist import Dist
from redline.core.ports import Chance
from redline.core.topology import ROOT, path
from redline.core.types import Draft, Verdict

FLOOR = 0.09
SLACK = 0.3


class Typical:
    """Keep x where p(x) > min(floor, slack · exp(−H(p))): Medusa's entropy test, arXiv 2401.10774.

    Of the paths that pass from the root down, the longest is kept, then the likeliest. Never chosen by
    itself; every output made with it says that it is lossy.
    """

    name = "typical"
    summary = "LOSSY: keeps guesses that are not too surprising to the target (Medusa's entropy test)"
    exact = False
    trees = True
    needs_q = False
    samples = True
    shared = False

    def __call__(self, draft: Draft, target: Mapping[int, Dist], chance: Chance) -> Verdict:
        best: tuple[int, float, int] = (0, 0.0, ROOT)
        passed = {ROOT: (0, 0.0)}
        for node, (x, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
            if parent not in passed:
                continue
            p = target[parent]
            entropy = -float(np.sum(p.probs * np.log(p.probs)))
            if p.prob(x) > min(FLOOR, SLACK * np.exp(-entropy)):
                depth, logprob = passed[parent]
                passed[node] = (depth + 1, logprob + float(np.log(p.prob(x))))
                best = max(best, (*passed[node], node))
        kept = path(draft.parents, best[2])
        return Verdict(tuple(kept), chance.pick(target[best[2]], at=len(kept)))
