"""What a single rule says about itself and decides on a single draft."""

import numpy as np
import pytest

from redline.core.chance import Keyed
from redline.core.dist import Dist
from redline.core.errors import UnknownName
from redline.core.topology import ROOT
from redline.core.types import Draft, Verdict
from redline.core.verify import RULES, Block, Greedy, Matching, Rejection, Tree, Typical, find_rule
from redline.testing import outcomes


def every(rule, draft, rows):
    return outcomes(lambda noise: rule(draft, rows, noise.stream("verify", 0)))


def flat(*weights):
    return Dist.of(np.array(weights, float))


@pytest.mark.parametrize("name", RULES)
def test_rules_are_found_by_name_and_say_what_they_do(name):
    rule = find_rule(name)
    assert rule.name == name
    assert rule.summary
    assert rule.exact == ("LOSSY" not in rule.summary)


def test_an_unknown_rule_suggests_its_neighbours():
    with pytest.raises(UnknownName, match="Did you mean matching"):
        find_rule("matchin")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_without_a_guess_every_rule_is_plain_decoding(rule):
    row = flat(1, 2, 5) if rule.name != "greedy" else Dist.point(2)
    law = every(rule, Draft.empty(), {ROOT: row})
    assert law == {Verdict((), int(t)): pytest.approx(p) for t, p in zip(row.ids, row.probs, strict=True)}


def test_greedy_and_matching_follow_a_tree_down_to_a_leaf():
    draft = Draft((1, 2, 5, 6), (ROOT, ROOT, 1, 2), tuple(map(Dist.point, (1, 2, 5, 6))), ("",) * 4)
    rows = {ROOT: Dist.point(2), 0: Dist.point(9), 1: Dist.point(5), 2: Dist.point(6), 3: Dist.point(7)}
    for rule in (Greedy(), Matching(), Tree()):
        assert every(rule, draft, rows) == {Verdict((1, 2, 3), 7): 1.0}


def test_greedy_breaks_ties_to_the_lowest_id():
    assert Greedy()(Draft.empty(), {ROOT: flat(1, 3, 3)}, None) == Verdict((), 1)


def test_rows_behind_a_refusal_are_never_read():
    draft = Draft.chain([0, 1, 2], "")
    for rule in (Greedy(), Matching(), Rejection(), Tree()):
        assert every(rule, draft, {ROOT: Dist.point(5)}) == {Verdict((), 5): 1.0}
    assert every(Block(), draft, {ROOT: Dist.point(5)}) == {Verdict((), 5): 1.0}


def test_block_lets_a_likely_token_pay_for_an_unlikely_one():
    """p/q is 2 and then 1/2: clamped as a product both are kept for certain, but 1 · 1/2 by rejection."""
    draft = Draft((0, 0), (ROOT, 0), (flat(1, 3), flat(2, 2)), ("",) * 2)
    rows = {ROOT: flat(2, 2), 0: flat(1, 3), 1: flat(1, 1)}
    kept = lambda rule: sum(  # noqa: E731
        weight for verdict, weight in every(rule, draft, rows).items() if len(verdict.accepted) == 2
    )
    assert kept(Rejection()) == pytest.approx(0.5)
    assert kept(Block()) == pytest.approx(0.5)
    rows[ROOT], rows[0] = flat(1, 15), flat(3, 1)
    draft = Draft((0, 0), (ROOT, 0), (flat(1, 7), flat(1, 1)), ("",) * 2)
    assert kept(Rejection()) == pytest.approx(1 / 2)
    assert kept(Block()) == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES.values() if rule.samples], ids=lambda rule: rule.name
)
@pytest.mark.parametrize("less", [1e-15, 1e-17, 1e-20, 1e-300])
def test_laws_that_are_almost_the_same_keep_the_guess(rule, less):
    """As at a low temperature: what is left over of one of them is next to nothing."""
    p, q = flat(1, less), flat(1, less / 1000)
    for draft, rows in ((q, p), (p, q)):
        made = Draft.chain([0, 0], "made", [draft, draft])
        for seed in range(5):
            verdict = rule(made, {-1: rows, 0: rows, 1: rows}, Keyed(seed).stream("verify", 0))
            assert verdict == Verdict((0, 1), 0)


def test_a_ratio_over_the_smallest_float_is_kept():
    q = Dist(np.arange(2), np.array([5e-324, 1.0]))
    draft = Draft((0,), (ROOT,), (q,), ("",) * 1)
    for rule in (Rejection(), Block(), Tree()):
        assert {v.accepted for v in every(rule, draft, {ROOT: flat(1, 1), 0: flat(1, 1)})} == {(0,)}


def test_typical_keeps_what_does_not_surprise():
    draft = Draft((0, 1, 0), (ROOT, ROOT, 1), tuple(map(Dist.point, (0, 1, 0))), ("",) * 3)
    sharp = flat(0.001, 0.998, 0.001)
    rows = {ROOT: sharp, 0: sharp, 1: flat(0.3, 0.3, 0.4), 2: Dist.point(2)}
    assert every(Typical(), draft, rows) == {Verdict((1, 2), 2): 1.0}


def test_typical_prefers_the_longest_path_and_then_the_likeliest():
    draft = Draft((0, 1, 2, 0), (ROOT, ROOT, ROOT, 1), tuple(map(Dist.point, (0, 1, 2, 0))), ("",) * 4)
    even = flat(0.5, 0.2, 0.3)
    rows = dict.fromkeys(range(ROOT, 4), even)
    assert {v.accepted for v in every(Typical(), draft, rows)} == {(1, 3)}
    assert {v.accepted for v in every(Typical(), draft.cut(1), rows)} == {(0,)}


def test_typical_judges_nothing_below_a_refusal():
    draft = Draft.chain([0, 1], "")
    rows = {ROOT: flat(0.001, 0.999), 0: Dist.point(1), 1: Dist.point(1)}
    assert {v.accepted for v in every(Typical(), draft, rows)} == {()}


def test_one_seed_gives_one_verdict():
    draft = Draft((0, 1, 0), (ROOT, ROOT, 0), (flat(1, 1, 1), flat(0, 1, 1), flat(1, 2, 1)), ("",) * 3)
    rows = dict.fromkeys(range(ROOT, 3), flat(1, 2, 3))
    for seed in range(20):
        assert Tree()(draft, rows, Keyed(seed).stream("v", 0)) == Tree()(
            draft, rows, Keyed(seed).stream("v", 0)
        )
        assert Matching()(draft, rows, Keyed(seed).at(4)) == Matching()(draft, rows, Keyed(seed).at(4))
