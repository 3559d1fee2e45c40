"""What a constraint leaves of a draft."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.core.dist import Dist
from redline.core.legal import any_left, prune
from redline.core.sampling import Sampling
from redline.core.topology import path
from redline.core.types import Draft
from redline.testing import Automaton

TWINS = Automaton.no_twins(4)
EVEN = Dist.of(np.ones(4))


@st.composite
def drafts(draw):
    n = draw(st.integers(0, 7))
    tokens = [draw(st.integers(0, 3)) for _ in range(n)]
    parents = [draw(st.integers(-1, i - 1)) for i in range(n)]
    dists = [EVEN if draw(st.booleans()) else Dist.point(token) for token in tokens]
    return Draft(tuple(tokens), tuple(parents), tuple(dists), tuple(f"n{i}" for i in range(n)))


@given(drafts(), st.booleans())
def test_what_stays_is_what_the_target_could_keep_or_must_be_asked_about(draft, drawn):
    kept = {int(source[1:]) for source in prune(draft, TWINS, drawn).sources}
    for node in range(len(draft)):
        tokens = draft.path(node)
        legal = TWINS.takes(tokens) == len(tokens)
        reached = TWINS.takes(tokens[:-1]) == len(tokens) - 1
        must_be_asked = drawn and reached and len(draft.dists[node].ids) > 1
        assert (node in kept) == (legal or must_be_asked)


@given(drafts(), st.booleans())
def test_what_stays_is_as_it_was(draft, drawn):
    left = prune(draft, TWINS, drawn)
    for node in range(len(left)):
        old = int(left.sources[node][1:])
        assert left.dists[node] is draft.dists[old]
        assert left.path(node) == draft.path(old)
        assert [left.sources[i] for i in path(left.parents, node)] == [
            draft.sources[i] for i in path(draft.parents, old)
        ]


def test_a_draft_that_is_legal_is_not_touched():
    draft = Draft.chain([0, 1, 0], "x")
    assert prune(draft, TWINS, True) is draft
    assert len(prune(Draft.chain([1, 1, 0], "x"), TWINS, True)) == 1
    assert len(prune(Draft.chain([3], "x"), Automaton.exactly(4, [0, 1]), False)) == 0


@pytest.mark.parametrize(
    ("mask", "bias", "left"),
    [
        (None, {}, True),
        (None, {0: -math.inf}, True),
        ([True, False, True], {}, True),
        ([False, False, False], {}, False),
        ([True, False, False], {0: -math.inf}, False),
        ([True, False, True], {0: -math.inf, 1: -math.inf}, True),
        ([True, False, False], {0: -1e9, 1: -math.inf}, True),
    ],
)
def test_what_a_bias_leaves(mask, bias, left):
    assert any_left(None if mask is None else np.array(mask), Sampling(bias=bias)) is left
