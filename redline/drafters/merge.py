"""Several drafts of one text as one tree, in which nothing stands twice that needs to stand once."""

from __future__ import annotations

from collections.abc import Iterable

from redline.core.dist import Dist
from redline.core.topology import ROOT
from redline.core.types import Draft
from redline.drafters.trust import Calibration


def merge(drafts: Iterable[Draft], drawn: Iterable[Draft] = ()) -> Draft:
    """One tree of everybody's guesses.

    Args:
        drafts: A token that stands at a place already is the guess of whoever made it first.
        drawn: Guesses that were drawn at random, where a rule is going to read q. Each stays a candidate of
            its own, behind those that stood there before: without it the text would not have the target's
            law. What follows it hangs on the first of its equals, for only there can it be reached. That is
            exact as long as what is in `drafts`, and how much of it, does not hang on what was drawn.
    """
    tokens, parents, dists, sources, trust = (
        list[int](),
        list[int](),
        list[Dist](),
        list[str](),
        list[float](),
    )
    first: dict[tuple[int, int], int] = {}
    for own, many in ((False, drafts), (True, drawn)):
        for draft in many:
            place = {ROOT: ROOT}
            for node, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
                at = (place[parent], token)
                if own or at not in first:
                    first.setdefault(at, len(tokens))
                    tokens.append(token)
                    parents.append(place[parent])
                    dists.append(draft.dists[node])
                    sources.append(draft.sources[node])
                    trust.append(draft.trust[node])
                place[node] = first[at]
    return Draft(tuple(tokens), tuple(parents), tuple(dists), tuple(sources), tuple(trust))


def likeliest(draft: Draft, nodes: int, calibration: Calibration) -> Draft:
    """The nodes that are most probable to be kept, as many as there is room for."""
    survival = calibration.survival(draft)
    order = sorted(range(len(draft)), key=lambda node: (-survival[node], node))
    return draft.only(order[:nodes])
