"""`Dist`: its invariants and every question that can be put to it."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redline.core.dist import Dist

WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e3)), min_size=1, max_size=12)


@st.composite
def dists(draw):
    weights = np.array(draw(WEIGHTS))
    assume(weights.sum() > 0)
    return Dist.of(weights)


def check(dist):
    assert dist.ids.dtype == np.int64
    assert dist.probs.dtype == np.float64
    assert (np.diff(dist.ids) > 0).all()
    assert (dist.probs > 0).all()
    assert dist.probs.sum() == pytest.approx(1, abs=1e-12)


@given(WEIGHTS)
def test_of_normalises_and_drops_zeros(weights):
    weights = np.array(weights)
    assume(weights.sum() > 0)
    dist = Dist.of(weights)
    check(dist)
    assert dist.ids.tolist() == np.flatnonzero(weights).tolist()
    np.testing.assert_allclose(dist.probs, weights[weights > 0] / weights.sum(), rtol=1e-12)


def test_of_takes_ids_and_any_float():
    dist = Dist.of(np.array([1, 0, 3], np.float16), np.array([2, 5, 9]))
    check(dist)
    assert dist.ids.tolist() == [2, 9]
    assert dist.probs.tolist() == [0.25, 0.75]


def test_of_drops_what_the_division_rounds_to_zero():
    dist = Dist.of(np.array([3.0, 5e-324, 1.0]))
    check(dist)
    assert dist.ids.tolist() == [0, 2]


@pytest.mark.parametrize(
    "weights", [[], [0.0], [0.0, 0.0], [1.0, -0.1], [np.nan, 1.0], [np.inf, 1.0], [1e308, 1e308], [2.0, -3.0]]
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_of_refuses_what_is_no_weighting(weights):
    with pytest.raises(ValueError, match="finite, non-negative"):
        Dist.of(np.array(weights))


def test_a_point_is_certain():
    point = Dist.point(7)
    check(point)
    assert (point.top, point.prob(7), point.prob(6), point.prob(8)) == (7, 1.0, 0.0, 0.0)
    assert point.quantile(0.0) == point.quantile(0.999) == 7


def test_top_is_the_lowest_id_on_a_tie():
    assert Dist.of(np.array([1, 3, 3, 1.0]), np.array([2, 4, 6, 8])).top == 4


@given(dists())
def test_prob_and_on_agree(dist):
    ids = np.arange(-1, 14)
    assert dist.on(ids).tolist() == [dist.prob(int(token)) for token in ids]
    assert dist.on(ids).sum() == pytest.approx(1)
    assert dist.on(dist.ids).tolist() == dist.probs.tolist()
    assert dist.on(np.array([], np.int64)).shape == (0,)


@given(dists(), st.floats(0, 1, exclude_max=True))
def test_quantile_inverts_the_distribution_function(dist, u):
    token = dist.quantile(u)
    below = sum(p for i, p in zip(dist.ids, dist.probs, strict=True) if i < token)
    assert below - 1e-12 <= u <= below + dist.prob(token) + 1e-12


def test_quantile_has_half_open_cells_and_no_gap_at_one():
    dist = Dist.of(np.array([1.0, 1, 2]), np.array([3, 5, 7]))
    assert [dist.quantile(u) for u in (0, 0.2499, 0.25, 0.4999, 0.5, 0.9999)] == [3, 3, 5, 5, 7, 7]
    assert Dist(np.arange(3), np.full(3, 0.333)).quantile(1 - 2**-53) == 2


@given(dists(), dists(), st.floats(0, 1))
def test_excess_and_minus_are_their_definitions(p, q, weight):
    ids = np.arange(12)
    expected = np.maximum(weight * p.on(ids) - q.on(ids), 0)
    np.testing.assert_allclose(p.excess(q, weight), expected[p.ids], atol=1e-15)
    rest = p.minus(q, weight)
    check(rest)
    if expected.sum() > 1e-9:
        np.testing.assert_allclose(rest.on(ids), expected / expected.sum(), atol=1e-9)


@given(dists())
def test_where_nothing_is_owed_p_stands_for_itself(p):
    assert p.minus(p) is p
    assert p.minus(p, 0.5) is p
    twin = Dist.of(p.on(np.arange(12)) * (1 + 1e-16))
    check(p.minus(twin))


def test_what_p_and_q_do_not_share_is_owed_whole():
    p, q = Dist.of(np.array([1.0, 3]), np.array([0, 1])), Dist.of(np.ones(2), np.array([2, 3]))
    assert p.minus(q).probs.tolist() == p.probs.tolist()
    assert p.minus(Dist.point(1)).ids.tolist() == [0]


def test_without_a_token():
    dist = Dist.of(np.array([1.0, 1, 2]))
    assert dist.without(2).probs.tolist() == [0.5, 0.5]
    assert dist.without(9).probs.tolist() == dist.probs.tolist()
    with pytest.raises(ValueError, match="weights"):
        Dist.point(3).without(3)


@given(dists(), dists())
def test_questions_change_nothing(p, q):
    before = p.ids.copy(), p.probs.copy(), q.probs.copy()
    p.minus(q), p.excess(q), p.on(q.ids), p.quantile(0.3), p.prob(1)
    for array, copy in zip((p.ids, p.probs, q.probs), before, strict=True):
        np.testing.assert_array_equal(array, copy)
