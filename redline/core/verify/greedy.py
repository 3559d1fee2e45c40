"""Greedy verification: a guess stays where it is the target's most probable token."""

from __future__ import annotations

from collections.abc import Mapping

from redline.core.dist import Dist
from redline.core.ports import Chance
from redline.core.types import Draft, Verdict
from redline.core.verify.matching import follow


class Greedy:
    """Matching for temperature 0; ties go to the lowest id."""

    name = "greedy"
    summary = "keeps a guess that is the target's top token; for temperature 0"
    exact = True
    trees = True
    needs_q = False
    samples = False
    shared = True

    def __call__(self, draft: Draft, target: Mapping[int, Dist], chance: Chance) -> Verdict:
        return follow(draft, lambda node, _depth: target[node].top)
