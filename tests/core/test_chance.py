"""The production noise, by frequencies: enumeration cannot see a number that is used twice.

Every statistic is compared with a bound that true noise passes with probability above 1 − 1e-6; seeds are
fixed, so a test that passes once passes always. Each kind of test also fails on noise with a fault.
"""

from math import log, sqrt

import numpy as np
import pytest

from redline.core.chance import Fresh, Keyed, Tied, derive, mix, race, uniforms
from redline.core.dist import Dist

N = 20_000
P = Dist.of(np.array([0.5, 0.2, 0.05, 0.25]), np.array([1, 4, 5, 9]))
Q = Dist.of(np.array([0.1, 0.3, 0.4, 0.2]), np.array([1, 2, 4, 9]))
COIN = Dist.of(np.ones(2))
THREE = Dist.of(np.array([0.2, 0.3, 0.5]))


def bound(freedom: int) -> float:
    """A chi-square value passed with probability at most 1e-6 (Laurent and Massart 2000, lemma 1)."""
    x = log(1e6)
    return freedom + 2 * sqrt(freedom * x) + 2 * x


def misfit(draws, law: Dist) -> float:
    """Chi-square of draws against a law, over its bound: above 1 is a fault."""
    counts = np.bincount(law.ids.searchsorted(draws), minlength=len(law.ids))
    expected = law.probs * len(draws)
    return float(((counts - expected) ** 2 / expected).sum()) / bound(len(law.ids) - 1)


def dependence(a, b, law: Dist) -> float:
    """Chi-square of pairs against independent draws from one law, over its bound."""
    n = int(law.ids.max()) + 1
    pairs = Dist.of(np.outer(law.on(np.arange(n)), law.on(np.arange(n))).ravel())
    return misfit(np.array(a) * n + np.array(b), pairs)


# --- laws -------------------------------------------------------------------------------------------


def test_a_tied_pick_has_the_law_of_its_distribution():
    tied = Keyed(1).at(0)
    assert misfit([tied.pick(P, at) for at in range(N)], P) < 1


def test_a_fresh_pick_has_the_law_of_its_distribution():
    fresh = Keyed(2).stream("verify", 0)
    assert misfit([fresh.pick(P, 0) for _ in range(N)], P) < 1


def test_the_first_draws_of_many_seeds_have_the_law():
    assert misfit([Keyed(seed).at(3).pick(P, 0) for seed in range(N)], P) < 1
    assert misfit([Keyed(seed).stream("verify", 0).pick(P, 0) for seed in range(N)], P) < 1


@pytest.mark.parametrize("p", [0.03, 0.5, 0.9])
def test_a_coin_falls_as_often_as_it_should(p):
    fresh = Keyed(3).stream("verify", 0)
    falls = [int(fresh.accept(p, 0)) for _ in range(N)]
    assert misfit(falls, Dist.of(np.array([1 - p, p]))) < 1


def test_a_wrong_law_is_seen():
    tied = Keyed(1).at(0)
    assert misfit([tied.pick(Q, at) if at % 8 == 0 else tied.pick(P, at) for at in range(N)], P) > 1


def test_impossible_and_certain_are_what_they_say():
    fresh = Keyed(4).stream("verify", 0)
    assert not any(fresh.accept(0.0, 0) for _ in range(1000))
    assert all(fresh.accept(1.0, 0) and fresh.accept(float("inf"), 0) for _ in range(1000))
    assert {Keyed(4).at(0).pick(Dist.point(7), at) for at in range(100)} == {7}


# --- independence -----------------------------------------------------------------------------------


class Reused(Fresh):
    """Noise with the classic fault: it depends on where it is used, not on how often."""

    def _next(self):
        return float(uniforms(self._key, np.array([1]))[0])


def siblings(stream):
    chances = [stream("draft", step) for step in range(N // 2)]
    return [c.pick(THREE, 0) for c in chances], [c.pick(THREE, 0) for c in chances]


def drafting_and_verifying(stream):
    steps = range(N // 2)
    return [stream("draft", s).pick(THREE, 0) for s in steps], [
        stream("verify", s).pick(THREE, 0) for s in steps
    ]


def consecutive_steps(stream):
    picks = [stream("verify", step).pick(THREE, 0) for step in range(N // 2 + 1)]
    return picks[:-1], picks[1:]


def coins_and_replacements(stream):
    """The coin that refuses a guess and the draw that replaces it."""
    chances = [stream("verify", step) for step in range(N // 2)]
    return [int(c.accept(0.5, 0)) for c in chances], [c.pick(COIN, 0) for c in chances]


PAIRS = [siblings, drafting_and_verifying, consecutive_steps, coins_and_replacements]


@pytest.mark.parametrize("pairs", PAIRS)
def test_fresh_numbers_are_independent(pairs):
    law = COIN if pairs is coins_and_replacements else THREE
    assert dependence(*pairs(Keyed(5).stream), law) < 1


@pytest.mark.parametrize(
    ("pairs", "stream"),
    [
        (siblings, lambda name, step: Reused(5, name, step)),
        (coins_and_replacements, lambda name, step: Reused(5, name, step)),
        (drafting_and_verifying, lambda name, step: Fresh(5, "both", step)),
        (consecutive_steps, lambda name, step: Fresh(5, name, step // 2)),
    ],
)
def test_a_reused_number_is_seen(pairs, stream):
    law = COIN if pairs is coins_and_replacements else THREE
    assert dependence(*pairs(stream), law) > 1


def test_a_guess_drawn_again_after_a_refusal_is_independent_of_the_first():
    """The same place in the text, guessed at two consecutive steps."""
    first, second = [], []
    for step in range(0, N, 2):
        old, new = Keyed(6).stream("draft", step), Keyed(6).stream("draft", step + 1)
        old.pick(THREE, 0)
        first.append(old.pick(THREE, 1))
        second.append(new.pick(THREE, 0))
    assert dependence(first, second, THREE) < 1


def test_tied_draws_at_neighbouring_positions_and_seeds_are_independent():
    picks = [Keyed(7).at(position).pick(THREE, 0) for position in range(N // 2 + 1)]
    assert dependence(picks[:-1], picks[1:], THREE) < 1
    seeds = [Keyed(seed).at(5).pick(THREE, 0) for seed in range(N // 2 + 1)]
    assert dependence(seeds[:-1], seeds[1:], THREE) < 1


def test_tied_and_fresh_noise_of_one_seed_are_independent():
    tied = [Keyed(8).at(step).pick(THREE, 0) for step in range(N // 2)]
    fresh = [Keyed(8).stream("verify", step).pick(THREE, 0) for step in range(N // 2)]
    assert dependence(tied, fresh, THREE) < 1


# --- keys -------------------------------------------------------------------------------------------


def test_uniforms_lie_strictly_between_zero_and_one():
    u = uniforms(derive(9), np.arange(1_000_000))
    assert 0 < u.min() < 1e-5
    assert 1 - 1e-5 < u.max() < 1
    extremes = (np.array([0, 2**52 - 1], np.uint64).astype(np.float64) + 0.5) * 2.0**-52
    assert extremes[0] > 0
    assert extremes[1] < 1


def test_uniforms_are_uniform_and_without_a_pattern_in_the_counter():
    u = uniforms(derive(10), np.arange(200_000))
    cells = Dist.of(np.ones(100))
    assert misfit((u * 100).astype(int), cells) < 1
    assert misfit((u[:-1] * 10).astype(int) * 10 + (u[1:] * 10).astype(int), cells) < 1


def test_a_number_depends_on_its_key_alone():
    ids = np.arange(1000)
    order = np.random.default_rng(0).permutation(1000)
    np.testing.assert_array_equal(uniforms(11, ids)[order], uniforms(11, ids[order]))
    np.testing.assert_array_equal(uniforms(11, ids)[500:], uniforms(11, ids[500:]))
    assert uniforms(11, np.array([7]))[0] == uniforms(11, ids)[7]


def test_the_numbers_are_those_of_splitmix64():
    """The published generator, in unbounded integers."""

    def reference(key, counter):
        x = (key + counter * 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    for key in (0, 1, 2**63 + 12345, 2**64 - 1):
        assert mix(key, np.arange(50)).tolist() == [reference(key, i) for i in range(50)]
    assert mix(0, np.array([1]))[0] == 0xE220A8397B1DCDAF  # first output of the generator seeded with 0


def test_a_tied_draw_is_always_the_same_in_any_order():
    places = [(position, at) for position in range(5) for at in range(5)]
    once = {place: Keyed(12).at(place[0]).pick(P, place[1]) for place in places}
    again = {place: Keyed(12).at(place[0]).pick(P, place[1]) for place in reversed(places)}
    assert once == again
    tied = Tied(12, 3)
    assert [tied.pick(P, 1) for _ in range(3)] == [once[3, 1]] * 3
    assert all(once[place] == Keyed(12).at(0).pick(P, sum(place)) for place in places)


def test_what_cannot_win_does_not_change_who_wins():
    """A tied draw from a part of the support is the old one wherever that is in the part."""
    wide = Dist.of(np.ones(50))
    part = Dist.of(np.ones(25), np.arange(0, 50, 2))
    for position in range(300):
        token = Keyed(13).at(position).pick(wide, 0)
        if token % 2 == 0:
            assert Keyed(13).at(position).pick(part, 0) == token


def test_fresh_noise_repeats_from_its_key():
    def draws(seed, name, step):
        stream = Keyed(seed).stream(name, step)
        return tuple(stream.pick(Dist.of(np.ones(1000)), 0) for _ in range(5))

    assert draws(14, "draft", 3) == draws(14, "draft", 3)
    others = [draws(14, "draft", 4), draws(14, "verify", 3), draws(15, "draft", 3)]
    assert len({draws(14, "draft", 3), *others}) == 4


def test_every_seed_is_another_text():
    wide = Dist.of(np.ones(50_000))
    seeds = [0, 1, 2, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**128, 2**128 + 1, 2**200, 10**100]
    tied = [tuple(Keyed(seed).at(0).pick(wide, at) for at in range(3)) for seed in seeds]
    fresh = [Keyed(seed).stream("verify", 0).pick(wide, 0) for seed in seeds]
    assert len(set(tied)) == len(set(fresh)) == len(seeds)


def test_keys_depend_on_the_order_of_their_parts():
    keys = [
        derive(),
        derive(0),
        derive(0, 0),
        derive(1),
        derive(1, 0),
        derive(0, 1),
        derive(1, 2),
        derive(2, 1),
    ]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key < 2**64 for key in keys)


def test_tied_noise_has_no_coins():
    with pytest.raises(TypeError, match="shared"):
        Keyed(0).at(0).accept(0.5, 0)


# --- coupling ---------------------------------------------------------------------------------------


def test_two_distributions_agree_at_one_position_as_often_as_the_theorem_promises():
    """At least (1 − TV) / (1 + TV), and as often as the race says: Σ 1 / Σ max(p_j / p_i, q_j / q_i)."""
    ids = np.arange(10)
    p, q = P.on(ids), Q.on(ids)
    both = np.flatnonzero((p > 0) & (q > 0))
    exact = sum(1 / np.maximum(p / p[i], q / q[i]).sum() for i in both)
    tv = np.abs(p - q).sum() / 2
    assert exact >= (1 - tv) / (1 + tv)
    agree = [int(Keyed(16).at(i).pick(P, 0) == Keyed(16).at(i).pick(Q, 0)) for i in range(N)]
    assert misfit(agree, Dist.of(np.array([1 - exact, exact]))) < 1


def test_unshared_noise_agrees_less():
    agree = [int(Keyed(16).at(i).pick(P, 0) == Keyed(17).at(i).pick(P, 0)) for i in range(N)]
    assert misfit(agree, Dist.of(np.array([1 - (P.probs**2).sum(), (P.probs**2).sum()]))) < 1


def test_the_race_is_gumbel_argmax():
    rng = np.random.default_rng(0)
    for _ in range(500):
        law = Dist.of(rng.dirichlet(np.ones(20)))
        u = rng.random(20)
        gumbel = np.log(law.probs) - np.log(-np.log(u))
        assert race(law, u) == law.ids[gumbel.argmax()]


def test_probabilities_near_the_smallest_float_lose_the_race_quietly():
    law = Dist(np.arange(3), np.array([5e-324, 1.0, 1e-310]))
    assert race(law, np.array([0.3, 1e-16, 0.3])) == 1
