"""Every exact rule leaves the text's law exactly as the target has it, for any drafter."""

import numpy as np
import pytest
from proof import (
    EXACT,
    GRID,
    WAYS,
    Apart,
    Coupled,
    Grid,
    alternating,
    chain,
    confident,
    law_error,
    problems,
    shapes,
    tree,
)

from redline.core.verify import RULES

# Greedy is exact where the target is certain, which is what temperature 0 makes it.
RANDOM = [rule for rule in RULES.values() if rule.exact and rule.name != "greedy"]
TREES = [rule for rule in RANDOM if rule.trees]
CERTAIN = ("certain target", "filters 5")
ALL_WAYS = pytest.mark.parametrize("way", WAYS)


def rules(those):
    return pytest.mark.parametrize("rule", those, ids=lambda rule: rule.name)


def prove(rule, draw, problem, wrap=Coupled):
    error = law_error(rule, draw, problem, wrap)
    assert error < EXACT, f"{rule.name} on {problem.name}: off by {error}"


def some(shapes_, n, seed):
    return [shapes_[i] for i in np.random.default_rng(seed).permutation(len(shapes_))[:n]]


def test_there_are_rules_to_prove():
    assert {rule.name for rule in RANDOM} >= {"matching", "rejection", "tree", "block"}
    assert {rule.name for rule in TREES} >= {"matching", "tree"}


@rules(RANDOM)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_chains(rule, depth):
    for seed in range(8 if depth < 3 else 4):
        for problem in problems(seed):
            for draw in (chain(depth), chain(depth, "top"), confident(depth), alternating(depth)):
                prove(rule, draw, problem)


@rules(TREES)
@ALL_WAYS
def test_trees_of_up_to_three_guesses_in_every_shape(rule, way):
    for parents in [parents for n in (1, 2, 3) for parents in shapes(n)]:
        for seed in range(2):
            for problem in problems(seed):
                prove(rule, tree(parents, way), problem)


@rules(TREES)
@ALL_WAYS
def test_trees_of_four_guesses_in_every_shape(rule, way):
    for seed, parents in enumerate(shapes(4)):
        for problem in problems(seed):
            prove(rule, tree(parents, way), problem)


@rules(TREES)
@ALL_WAYS
def test_trees_of_five_guesses_in_every_shape(rule, way):
    for seed, parents in enumerate(shapes(5)):
        kinds = problems(seed)
        prove(rule, tree(parents, way), kinds[2 + seed % (len(kinds) - 2)])


@rules(TREES)
@ALL_WAYS
def test_trees_of_six_guesses_in_sampled_shapes(rule, way):
    for seed, parents in enumerate(some(shapes(6), 40, seed=6)):
        kinds = problems(seed)
        prove(rule, tree(parents, way), kinds[2 + seed % (len(kinds) - 2)])
    prove(rule, tree((-1, -1, 0, 0, 1, 1), way), problems(0)[0])


@rules([rule for rule in RANDOM if rule.shared])
@ALL_WAYS
def test_drafters_that_do_not_share_the_noise(rule, way):
    for parents in [parents for n in (1, 2, 3) for parents in shapes(n)]:
        for problem in problems(0):
            prove(rule, tree(parents, way), problem, Apart)


@rules([rule for rule in RANDOM if not rule.shared])
def test_the_production_test_u_below_p_is_strict(rule):
    prove(rule, chain(1), GRID, Grid)
    if rule.name != "block":  # on longer chains its chances are no multiples of a quarter
        prove(rule, chain(2), GRID, Grid)
    if rule.trees:
        prove(rule, tree((-1, -1), "with replacement"), GRID, Grid)


def test_greedy_writes_what_the_target_is_certain_of():
    for parents in [parents for n in range(5) for parents in shapes(n)]:
        for way in WAYS:
            for problem in problems(1):
                if problem.name in CERTAIN:
                    prove(RULES["greedy"], tree(parents, way), problem)
