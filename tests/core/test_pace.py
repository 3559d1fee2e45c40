"""Paces: how much is guessed next."""

import pytest

from redline.core.errors import OptionError, UnknownName
from redline.core.pace import DEPTHS, PACES, Confidence, Fixed, Streak, choose_pace, find_pace
from redline.core.types import Budget, Step


def step(accepted, proposed, parents=None):
    parents = tuple(range(-1, proposed - 1)) if parents is None else parents
    emitted = (0,) * accepted + (999,)
    return Step(0, 0, emitted=emitted, proposed=(0,) * proposed, parents=parents, path=tuple(range(accepted)))


def test_fixed_never_changes():
    pace = Fixed(4)
    for accepted in (0, 4, 2):
        assert pace.budget() == Budget(4, 4, 0.0)
        pace.update(step(accepted, 4))
    assert Fixed(3, nodes=10, confidence=0.2).budget() == Budget(3, 10, 0.2)


def test_streak_grows_by_two_and_shrinks_by_one():
    pace, depths = Streak(3), []
    for kept in (True, True, False, False, True):
        depth = pace.budget().depth
        depths.append(depth)
        pace.update(step(depth if kept else depth - 1, depth))
    assert depths == [3, 5, 7, 6, 5]
    assert pace.budget() == Budget(7, 7)


def test_streak_stays_between_one_and_its_longest():
    pace = Streak(2, longest=5)
    for _ in range(4):
        pace.update(step(0, 2))
    assert pace.budget().depth == 1
    for _ in range(9):
        pace.update(step(3, 3))
    assert pace.budget().depth == 5
    assert Streak(40).budget().depth == 40


def test_streak_learns_nothing_from_a_step_without_guesses():
    pace = Streak(3)
    pace.update(step(0, 0))
    assert pace.budget().depth == 3


def test_confidence_is_a_fixed_depth_with_a_threshold():
    assert Confidence(6).budget() == Budget(6, 6, 0.65)
    assert Confidence(6, 0.7).budget() == Budget(6, 6, 0.7)


@pytest.mark.parametrize("name", PACES)
def test_every_pace_carries_nodes(name):
    budget = find_pace(name)(3, nodes=12).budget()
    assert (budget.depth, budget.nodes) == (3, 12)
    alone = find_pace(name)(3).budget()
    assert alone.nodes == alone.depth == 3
    for nodes in (-1, 2.5):
        with pytest.raises(OptionError, match="nodes is"):
            find_pace(name)(3, nodes=nodes)


def test_a_streak_keeps_its_nodes_until_its_depth_needs_more():
    pace = Streak(3, nodes=5)
    budgets = []
    for _ in range(3):
        budgets.append(pace.budget())
        pace.update(step(pace.budget().depth, pace.budget().depth))
    assert budgets == [Budget(3, 5), Budget(5, 5), Budget(7, 7)]
    pace.update(step(0, 7))
    assert pace.budget() == Budget(8, 8)


@pytest.mark.parametrize("name", PACES)
def test_every_pace_is_found_by_name_and_starts_where_told(name):
    assert find_pace(name)(3).budget().depth == 3


def test_an_unknown_pace_suggests_its_neighbours():
    with pytest.raises(UnknownName, match="streak"):
        find_pace("streek")


def test_depths_that_mean_nothing_are_refused():
    for make, depth in ((Fixed, -1), (Confidence, -1), (Streak, 0), (Streak, -2)):
        with pytest.raises(OptionError, match=f"depth is {depth}") as error:
            make(depth)
        assert error.value.hint


def test_a_pace_that_nobody_named_follows_the_drafter():
    class Sure:
        confident = True

    assert choose_pace(None, None, None) == ("fixed", 5)
    assert choose_pace(None, None, Sure()) == ("confidence", 14)
    assert choose_pace(None, 3, Sure()) == ("confidence", 3)
    assert choose_pace("streak", None, Sure()) == ("streak", 5)
    assert DEPTHS.keys() == PACES.keys()
    with pytest.raises(UnknownName, match="Did you mean fixed"):
        choose_pace("fixd", None, None)
