"""The enumerated noise that the proofs stand on."""

import numpy as np
import pytest

from redline.core.dist import Dist
from redline.testing import outcomes

THREE = Dist.of(np.array([1.0, 2, 5]))


def test_every_branch_is_taken_once_with_its_probability():
    def run(noise):
        chance = noise.stream("s", 0)
        return chance.pick(THREE, 0), chance.accept(0.25, 0)

    law = outcomes(run)
    assert law == {
        (i, kept): THREE.probs[i] * (0.25 if kept else 0.75) for i in range(3) for kept in (True, False)
    }


def test_certain_and_impossible_coins_do_not_branch():
    seen = []

    def run(noise):
        chance = noise.stream("s", 0)
        seen.append(1)
        return (
            chance.accept(0.0, 0),
            chance.accept(1.0, 0),
            chance.accept(7.0, 0),
            chance.pick(Dist.point(3), 0),
        )

    assert outcomes(run) == {(False, True, True, 3): 1.0}
    assert len(seen) == 1


def test_tied_noise_answers_alike_and_fresh_noise_anew():
    tied = outcomes(lambda noise: (noise.at(2).pick(THREE, 1), noise.at(0).pick(THREE, 3)))
    assert set(tied) == {(i, i) for i in range(3)}
    fresh = outcomes(lambda noise: (noise.stream("a", 0).pick(THREE, 0), noise.stream("a", 0).pick(THREE, 0)))
    assert len(fresh) == 9


def test_equal_results_add_up():
    law = outcomes(lambda noise: noise.stream("s", 0).pick(THREE, 0) > 0)
    assert law == {False: 0.125, True: 0.875}


def test_two_laws_at_one_tied_position_are_refused():
    with pytest.raises(AssertionError, match="cannot be enumerated"):
        outcomes(lambda noise: (noise.at(0).pick(THREE, 0), noise.at(0).pick(Dist.point(1), 0)))


def test_too_many_branches_are_refused():
    def endless(noise):
        return sum(noise.stream("s", 0).accept(0.5, 0) for _ in range(20))

    with pytest.raises(AssertionError, match="more than 100 branches"):
        outcomes(endless, limit=100)
