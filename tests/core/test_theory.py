"""The closed forms against enumeration, simulation and a published table."""

import numpy as np
import pytest

from redline.core.theory import best_depth, break_even, expected_tokens, free, speedup


def line(per_row):
    return lambda rows: 1 + per_row * (rows - 1)


def by_enumeration(a, g):
    """Σ over the number of kept guesses."""
    return sum((k + 1) * a**k * (1 - a) for k in range(g)) + (g + 1) * a**g


@pytest.mark.parametrize("a", [0.0, 0.1, 0.5, 0.7, 0.95, 0.999999, 1.0])
@pytest.mark.parametrize("g", [0, 1, 2, 4, 8, 31])
def test_expected_tokens_is_the_sum_over_what_can_happen(a, g):
    assert expected_tokens(a, g) == pytest.approx(by_enumeration(a, g), rel=1e-9)


def test_expected_tokens_by_simulation():
    kept = np.random.default_rng(0).random((200_000, 6)) < 0.7
    length = 1 + np.cumprod(kept, axis=1).sum(axis=1)
    assert expected_tokens(0.7, 6) == pytest.approx(length.mean(), abs=6 * length.std() / 200_000**0.5)


def test_the_textbook_values():
    assert round(expected_tokens(0.7, 4), 2) == 2.77
    assert round(expected_tokens(0.7, 8), 2) == 3.20


@pytest.mark.parametrize(
    ("draft_cost", "per_row", "row"),
    [
        (0.0, 0.02, [(2.17, 6), (2.76, 8), (3.82, 11), (6.37, 19), (9.95, 31)]),
        (0.0, 0.1, [(1.67, 3), (1.98, 4), (2.47, 6), (3.43, 10), (4.48, 15)]),
        (0.05, 0.2, [(1.31, 2), (1.46, 2), (1.69, 3), (2.09, 6), (2.47, 9)]),
        (0.25, 0.1, [(1.19, 1), (1.29, 2), (1.44, 3), (1.71, 4), (1.95, 7)]),
        (0.35, 0.3, [(1.00, 0), (1.03, 1), (1.09, 1), (1.18, 2), (1.26, 3)]),
    ],
)
def test_the_table_of_best_lengths(draft_cost, per_row, row):
    for a, (gain, depth) in zip((0.6, 0.7, 0.8, 0.9, 0.95), row, strict=True):
        best = best_depth(a, draft_cost, line(per_row))
        assert best == depth
        assert round(speedup(a, best, draft_cost, line(per_row)), 2) == gain


def test_plain_decoding_is_speed_one():
    assert speedup(0.5, 0) == speedup(0.0, 0, 0.3, line(0.2)) == 1.0


def test_a_wrong_drafter_costs_what_it_costs():
    assert speedup(0.0, 4, draft_cost=0.25) == pytest.approx(1 / 2)
    assert speedup(1.0, 4, draft_cost=0.25) == pytest.approx(5 / 2)


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_break_even_is_where_the_speedup_is_one(depth):
    a = break_even(depth, 0.1, line(0.05))
    assert speedup(a, depth, 0.1, line(0.05)) == pytest.approx(1, abs=1e-9)
    assert speedup(a - 1e-6, depth, 0.1, line(0.05)) < 1 < speedup(a + 1e-6, depth, 0.1, line(0.05))


def test_break_even_of_one_guess_by_hand():
    assert break_even(1, 0.25, line(0.25)) == pytest.approx(0.5)  # (1 + a) / 1.5 = 1


def test_some_costs_no_acceptance_can_pay():
    assert break_even(1, 0.6, line(0.6)) is None
    assert best_depth(0.95, 0.6, line(0.6)) == 0
    assert break_even(4) == pytest.approx(0, abs=1e-11)


def test_on_a_staircase_the_best_length_ends_on_a_step():
    stairs = lambda rows: 1.0 + 0.6 * ((rows - 1) // 4)  # noqa: E731
    assert {best_depth(a, 0.0, stairs) + 1 for a in (0.5, 0.7, 0.8, 0.9, 0.95)} <= {4, 8, 12, 16}
    assert best_depth(0.8, 0.0, stairs, longest=2) == 2


def test_equal_speeds_take_the_shorter_draft():
    assert best_depth(0.0) == 0
    assert best_depth(0.0, longest=0) == 0


def test_free_verification_is_the_papers():
    assert [free(n) for n in (1, 5, 100)] == [1.0, 1.0, 1.0]
    assert speedup(0.8, 5, 0.05) == pytest.approx((1 - 0.8**6) / 0.2 / 1.25)


@pytest.mark.parametrize(("a", "g"), [(-0.1, 1), (1.1, 1), (0.5, -1), (float("nan"), 1)])
def test_impossible_arguments_are_refused(a, g):
    with pytest.raises(ValueError, match="acceptance must lie"):
        expected_tokens(a, g)


def test_a_step_cannot_cost_nothing():
    with pytest.raises(ValueError, match="cannot cost"):
        speedup(0.5, 2, -0.1)
    with pytest.raises(ValueError, match="cannot cost"):
        speedup(0.5, 2, 0.0, lambda rows: 0.0)
