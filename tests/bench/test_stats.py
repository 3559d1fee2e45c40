"""Ratios of paired seconds, on numbers whose answers are known."""

import numpy as np
import pytest

from redline.bench.stats import geometric_mean, interval, pooled, ratios


def arms(plain_s, fast_s, tokens=10):
    return [np.array([(s, tokens) for s in seconds], float) for seconds in (plain_s, fast_s)]


def noisy(n, seed=0):
    """Answers whose difficulty varies tenfold and whose true ratio is 2, give or take a tenth."""
    rng = np.random.default_rng(seed)
    hard = np.exp(rng.uniform(0, np.log(10), n))
    return arms(hard, hard / 2 * np.exp(rng.normal(0, 0.1, n)))


def test_the_ratio_is_of_sums():
    plain, fast = arms([1, 9], [1, 3])
    assert pooled(plain, fast) == 2.5
    assert ratios(plain, fast).tolist() == [1, 3]


def test_answers_of_unequal_length_count_by_the_token():
    plain, fast = np.array([(1.0, 10)]), np.array([(1.0, 20)])
    assert pooled(plain, fast) == 2.0
    assert ratios(plain, fast).tolist() == [2.0]


def test_pairs_are_drawn_together():
    plain, fast = noisy(30)
    low, high = interval(plain, fast)
    assert low < pooled(plain, fast) < high
    apart = interval(plain, fast[::-1])
    assert high - low < 0.3 < apart[1] - apart[0], "what is hard for both arms cancels"


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    held = 0
    for seed in range(200):
        low, high = interval(*noisy(40, seed), draws=400, level=0.9)
        held += low < 2 / np.exp(0.1**2 / 2) < high
    assert 160 < held < 195


def test_more_answers_make_it_narrower_and_a_higher_level_wider():
    def width(n, level=0.95):
        low, high = interval(*noisy(n), level=level)
        return high - low

    assert width(400) < 0.5 * width(40)
    assert width(40, 0.5) < width(40, 0.95)


def test_the_same_seed_gives_the_same_interval():
    assert interval(*noisy(10), seed=3) == interval(*noisy(10), seed=3) != interval(*noisy(10), seed=4)


def test_groups_keep_their_size():
    """Two kinds of answers, each without spread of its own: then there is no doubt about the whole."""
    plain, fast = arms([1] * 8, [1] * 4 + [0.25] * 4)
    kinds = ["story"] * 4 + ["edit"] * 4
    assert interval(plain, fast, kinds) == pytest.approx((1.6, 1.6))
    low, high = interval(plain, fast)
    assert low < 1.4
    assert high > 1.8


def test_a_group_of_one_hides_no_doubt():
    plain, fast = arms([1, 1], [1, 0.25])
    assert interval(plain, fast, ["story", "edit"]) == interval(plain, fast)


def test_one_answer_says_nothing_of_its_spread():
    assert interval(*arms([1], [1])) is None


def test_twice_and_half_cancel():
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
