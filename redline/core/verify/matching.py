"""Sample matching: the target draws its own token everywhere; a guess stays where it equals the draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from redline.core.dist import Dist
from redline.core.ports import Chance
from redline.core.topology import ROOT
from redline.core.types import Draft, Verdict


def follow(draft: Draft, choose: Callable[[int, int], int]) -> Verdict:
    """Walk down the tree as long as the target's own choice has been guessed.

    Args:
        draft: The guesses.
        choose: The target's token after a node at a depth (the root is at 0).
    """
    kept: list[int] = []
    node = ROOT
    while True:
        token = choose(node, len(kept))
        for child in draft.children(node):
            if draft.tokens[child] == token:
                kept.append(child)
                node = child
                break
        else:
            return Verdict(tuple(kept), token)


class Matching:
    """Exact whatever the drafter did, because every emitted token is the target's own draw.

    With noise tied to positions the draw is fixed by the seed alone, so the text is the same with any
    drafter or none; a model drafter that draws with the same noise agrees with probability at least
    (1 − TV) / (1 + TV) (Daliri, Musco, Suresh, arXiv 2408.07978).
    """

    name = "matching"
    summary = "keeps a guess that equals the target's own draw; same text with any drafter or none"
    exact = True
    trees = True
    needs_q = False
    samples = True
    shared = True

    def __call__(self, draft: Draft, target: Mapping[int, Dist], chance: Chance) -> Verdict:
        return follow(draft, lambda node, depth: chance.pick(target[node], at=depth))
