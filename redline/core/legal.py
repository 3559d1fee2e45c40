"""What a constraint leaves: guesses that it forbids are dropped before they cost a row."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from redline.core.ports import Constraint
from redline.core.sampling import Sampling
from redline.core.topology import ROOT
from redline.core.types import Draft


def prune(draft: Draft, constraint: Constraint, drawn: bool) -> Draft:
    """The draft without certain guesses that the constraint forbids, and what hangs on them.

    A guess that was drawn at random must stay where rules read q, for to drop it would change the law of
    those that are left. The rule refuses it, since its p is 0; what hangs on it can go.

    Args:
        draft: The guesses.
        constraint: What may follow the text.
        drawn: Keep what was drawn at random.
    """
    after: dict[int, Constraint | None] = {ROOT: constraint}  # None: nobody gets there
    keep: list[int] = []
    for node, (token, parent, q) in enumerate(zip(draft.tokens, draft.parents, draft.dists, strict=True)):
        state = after.get(parent)
        if state is None:
            continue
        if state.takes([token]):
            after[node] = state.after(token)
            keep.append(node)
        elif drawn and len(q.ids) > 1:
            keep.append(node)
    return draft.only(keep)


def any_left(mask: NDArray[np.bool_] | None, sampling: Sampling) -> bool:
    """Whether a constraint allows a token that no bias bans; `mask` as of `Constraint.allowed`."""
    if mask is None:
        return True
    banned = [token for token, bias in sampling.bias.items() if bias == -math.inf]
    return int(mask.sum()) > int(mask[banned].sum())
