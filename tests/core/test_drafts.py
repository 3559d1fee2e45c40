"""Drafts, verdicts and token trees."""

import numpy as np
import pytest

from redline.core.dist import Dist
from redline.core.topology import ROOT, depths, path
from redline.core.types import Budget, Draft, History, Text, Verdict

#      ROOT
#     0    1
#    2 3   4
#    5
PARENTS = (ROOT, ROOT, 0, 0, 1, 2)


def bush():
    tokens = (10, 11, 12, 13, 14, 15)
    return Draft(tokens, PARENTS, tuple(map(Dist.point, tokens)), ("bush",) * 6, (0.5,) * 6)


def test_paths_and_depths_of_a_tree():
    assert depths(PARENTS) == [1, 1, 2, 2, 2, 3]
    assert [path(PARENTS, node) for node in (ROOT, 0, 4, 5)] == [[], [0], [1, 4], [0, 2, 5]]
    assert depths(()) == []


def test_children_stand_in_the_order_in_which_they_were_drawn():
    assert [bush().children(node) for node in (ROOT, 0, 1, 2, 5)] == [[0, 1], [2, 3], [4], [5], []]


def test_the_path_of_a_draft_is_its_tokens():
    assert bush().path(5) == [10, 12, 15]
    assert bush().path(ROOT) == []


def test_a_chain_follows_itself():
    draft = Draft.chain([4, 5, 6], "n-gram")
    assert draft.parents == (ROOT, 0, 1)
    assert draft.is_chain
    assert len(draft) == 3
    assert [q.prob(token) for token, q in zip(draft.tokens, draft.dists, strict=True)] == [1.0] * 3
    q = Dist.of(np.ones(9))
    assert Draft.chain([4], "model", [q]).dists == (q,)
    assert not bush().is_chain


def test_an_empty_draft_is_a_chain_of_none():
    draft = Draft.empty()
    assert (len(draft), draft.is_chain, draft.children(ROOT), draft.sources) == (0, True, [], ())
    assert Draft.chain([], "n-gram") == Draft.empty()


def test_cutting_keeps_the_shallow_part():
    draft = bush()
    assert draft.cut(3) is draft.cut(9) is draft
    assert draft.cut(0) == Draft.empty()
    two = draft.cut(2)
    assert (two.tokens, two.parents, two.sources) == ((10, 11, 12, 13, 14), PARENTS[:5], ("bush",) * 5)
    assert two.trust == (0.5,) * 5


def test_cutting_renumbers_the_parents():
    dists = tuple(Dist.point(i) for i in range(5))
    draft = Draft((0, 1, 2, 3, 4), (ROOT, 0, 1, ROOT, 3), dists, ("late sibling",) * 5)
    two = draft.cut(2)
    assert (two.tokens, two.parents) == ((0, 1, 3, 4), (ROOT, 0, ROOT, 2))
    assert two.dists == (dists[0], dists[1], dists[3], dists[4])


@pytest.mark.parametrize(
    ("tokens", "parents", "dists", "complaint"),
    [
        ((1, 2), (ROOT,), (1, 2), "one entry per guess"),
        ((1,), (ROOT,), (), "one entry per guess"),
        ((1, 2), (1, ROOT), (1, 2), "parents come before"),
        ((1,), (0,), (1,), "parents come before"),
        ((1,), (-2,), (1,), "parents come before"),
        ((1, 2), (ROOT, 0), (1, 3), "cannot produce"),
    ],
)
def test_a_draft_that_cannot_be_is_refused(tokens, parents, dists, complaint):
    with pytest.raises(ValueError, match=complaint):
        Draft(tokens, parents, tuple(map(Dist.point, dists)), ("broken",) * len(tokens))


def test_trust_is_a_probability_and_multiplies_along_a_path():
    assert Draft.chain([1, 2], "sure").trust == (1.0, 1.0)
    assert bush().survival == [0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    for wrong in ((0.5,), (0.5, 1.1), (0.5, float("nan")), (-0.1, 0.5)):
        with pytest.raises(ValueError, match="trust"):
            Draft.chain([1, 2], "unsure", trust=wrong)


def test_a_guess_of_probability_nan_is_refused():
    with pytest.raises(ValueError, match="cannot produce"):
        Draft.chain([1], "broken", [Dist(np.array([1]), np.array([np.nan]))])


def test_a_text_is_read_and_not_changed():
    tokens = [1, 2, 3]
    text = Text(tokens)
    tokens.append(4)
    assert (list(text), len(text), text[1], text[1:], text[-1]) == ([1, 2, 3, 4], 4, 2, [2, 3, 4], 4)
    text[:].append(5)
    assert not hasattr(text, "append")
    with pytest.raises(TypeError):
        text[0] = 5
    assert tokens == [1, 2, 3, 4]


def test_drafts_verdicts_and_budgets_cannot_be_changed():
    for thing, name in ((bush(), "tokens"), (Verdict((), 1), "token"), (Budget(1, 1), "depth")):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)


def test_history_grows_by_copies():
    text = History([1, 2], prompt=1)
    longer = text.then([3])
    assert (list(text.tokens), list(longer.tokens), longer.prompt) == ([1, 2], [1, 2, 3], 1)
    assert text.then([]) is text
