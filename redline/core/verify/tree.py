"""Recursive rejection: several candidates a position, tried in turn."""

from __future__ import annotations

from collections.abc import Mapping

from redline.core.dist import Dist
from redline.core.ports import Chance
from redline.core.topology import ROOT
from redline.core.types import Draft, Verdict


class Tree:
    """Exact for any drafter that says what each guess was drawn from, with or without replacement.

    A refused guess leaves the target owing norm(max(p − q, 0)); the next sibling, or at last the
    target itself, is judged against that (Miao et al., SpecInfer, arXiv 2305.09781; without
    replacement: Jeon et al., arXiv 2402.14160). On a chain it is `Rejection`.
    """

    name = "tree"
    summary = "rejection with several candidates a position, each tried in turn"
    exact = True
    trees = True
    needs_q = True
    samples = True
    shared = False

    def __call__(self, draft: Draft, target: Mapping[int, Dist], chance: Chance) -> Verdict:
        kept: list[int] = []
        node = ROOT
        while True:
            p = target[node]
            for child in draft.children(node):
                x, q = draft.tokens[child], draft.dists[child]
                if chance.accept(p.prob(x) / q.prob(x), at=len(kept)):
                    kept.append(child)
                    node = child
                    break
                p = p.minus(q)  # this guess is spent: what the target still owes
            else:
                return Verdict(tuple(kept), chance.pick(p, at=len(kept)))
