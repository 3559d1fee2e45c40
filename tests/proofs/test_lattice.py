"""Where two rules must agree, and which of two must keep more."""

import numpy as np
import pytest
from proof import (
    EXACT,
    VOCAB,
    Problem,
    chain,
    dense,
    distance,
    emitted,
    mean_length,
    problems,
    shapes,
    sparse,
    table,
    tree,
)

from redline.core.chance import Keyed
from redline.core.topology import ROOT
from redline.core.verify import RULES, Block, Greedy, Matching, Rejection, Tree
from redline.testing import outcomes

EXACT_RULES = [rule for rule in RULES.values() if rule.exact]
CASES = [problem for seed in range(4) for problem in problems(seed)]


def drafted(draw, problem, seed):
    draft = draw(problem.q, Keyed(seed).stream("draft", 0))
    return draft, {node: problem.p(tuple(draft.path(node))) for node in range(ROOT, len(draft))}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_tree_on_chains_is_rejection_with_the_same_chance(depth):
    for problem in CASES:
        assert (
            distance(emitted(Tree(), chain(depth), problem), emitted(Rejection(), chain(depth), problem)) == 0
        )
        for seed in range(20):
            draft, rows = drafted(chain(depth), problem, seed)
            verdicts = [rule(draft, rows, Keyed(seed).stream("verify", 0)) for rule in (Tree(), Rejection())]
            assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("rule", EXACT_RULES, ids=lambda rule: rule.name)
def test_every_exact_rule_is_greedy_where_the_target_is_certain(rule):
    all_shapes = [parents for n in range(5) for parents in shapes(n)]
    for seed, parents in enumerate(all_shapes if rule.trees else [(), (-1,), (-1, 0), (-1, 0, 1)]):
        for problem in problems(seed):
            if problem.name not in ("certain target", "filters 5"):
                continue
            for way in ("with replacement", "without replacement", "top"):
                draft, rows = drafted(tree(parents, way), problem, seed)
                greedy = Greedy()(draft, rows, None)
                verdicts = outcomes(
                    lambda noise, draft=draft, rows=rows: rule(
                        draft, rows, noise.at(0) if rule.shared else noise.stream("verify", 0)
                    )
                )
                assert {v: pytest.approx(1) for v in verdicts} == {greedy: 1}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rejection_of_certain_guesses_is_matching_in_law(depth):
    for problem in CASES:
        draw = chain(depth, "top")
        assert distance(emitted(Rejection(), draw, problem), emitted(Matching(), draw, problem)) < EXACT


def test_tree_of_certain_guesses_is_matching_in_law():
    for parents in shapes(4):
        for problem in problems(1):
            draw = tree(parents, "top")
            assert distance(emitted(Tree(), draw, problem), emitted(Matching(), draw, problem)) < EXACT


def test_block_keeps_at_least_as_much_as_rejection_and_sometimes_more():
    more = 0
    for seed in range(40):
        for make in (dense, sparse):
            problem = Problem("", table(make, seed, 20), table(make, seed, 21))
            for depth in (1, 2, 3):
                block, token = (mean_length(emitted(r(), chain(depth), problem)) for r in (Block, Rejection))
                assert block >= token - EXACT
                more += block > token + 1e-3
    assert more > 100


def test_block_gains_nothing_on_certain_guesses():
    for problem in CASES:
        for depth in (1, 2, 3):
            block, token = (
                mean_length(emitted(r(), chain(depth, "top"), problem)) for r in (Block, Rejection)
            )
            assert block == pytest.approx(token, abs=EXACT)


def test_a_single_guess_is_kept_with_probability_one_minus_tv():
    for problem in CASES:
        p, q = (law(()).on(np.arange(VOCAB)) for law in (problem.p, problem.q))
        for rule in (Rejection(), Tree(), Block()):
            kept = mean_length(emitted(rule, chain(1), problem)) - 1
            assert kept == pytest.approx(np.minimum(p, q).sum(), abs=EXACT)


@pytest.mark.parametrize("siblings", [2, 3])
def test_siblings_without_replacement_are_kept_at_least_as_often_as_with(siblings):
    more = 0
    for seed in range(60):
        problem = Problem("", table(dense, seed, 30), table(dense, seed, 31))
        without, repeated = (
            mean_length(emitted(Tree(), tree((ROOT,) * siblings, way), problem))
            for way in ("without replacement", "with replacement")
        )
        assert without >= repeated - EXACT
        more += without > repeated + 1e-3
    assert more > 30


def test_certain_siblings_are_kept_with_the_probability_of_their_set():
    for problem in CASES:
        best = problem.q(()).ids[np.argsort(-problem.q(()).probs, kind="stable")][:2]
        expected = problem.p(()).on(best).sum()
        for rule in (Tree(), Matching()):
            kept = mean_length(emitted(rule, tree((ROOT, ROOT), "top"), problem)) - 1
            assert kept == pytest.approx(expected, abs=EXACT)
