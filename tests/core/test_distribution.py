"""`distribution` against a slow reference that follows the documented order word by word."""

from math import exp, inf, isclose

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from redline.core.errors import OptionError
from redline.core.sampling import Sampling, distribution
from redline.core.types import History

NOTHING = History([], 0)


def reference(logits, s, history, allowed=None):
    """bias → penalties → allowed → temperature → top-k → top-p → min-p, on Python floats."""
    x = {token: float(value) for token, value in enumerate(logits)}
    for token, bias in s.bias.items():
        x[token] += bias
    seen = list(history.tokens)[-s.penalty_window :] if s.penalty_window else list(history.tokens)
    written = list(history.tokens)[history.prompt :]
    written = written[max(0, len(written) - len(seen)) :]
    for token in x:
        if token in seen:
            x[token] = x[token] / s.repetition_penalty if x[token] > 0 else x[token] * s.repetition_penalty
        if token in written:
            x[token] -= s.presence_penalty + s.frequency_penalty * written.count(token)
    x = {token: v for token, v in x.items() if v > -inf and (allowed is None or allowed[token])}
    ranked = sorted(x, key=lambda token: (-x[token], token))
    if s.temperature == 0:
        return {ranked[0]: 1.0}
    most = x[ranked[0]]
    ranked = ranked[: s.top_k] if s.top_k else ranked
    law = normal({token: exp((x[token] - most) / s.temperature) for token in ranked})
    if s.top_p < 1:
        ranked, mass, nucleus = sorted(law, key=lambda token: (-law[token], token)), 0.0, {}
        for token in ranked:
            assume(not isclose(mass, s.top_p, abs_tol=1e-9))  # rounding decides there
            if mass < s.top_p:
                nucleus[token] = law[token]
            mass += law[token]
        law = normal(nucleus)
    if s.min_p > 0:
        peak = max(law.values())
        for p in law.values():
            assume(p == peak or not isclose(p / peak, s.min_p, abs_tol=1e-9))
        law = normal({token: p for token, p in law.items() if p >= s.min_p * peak})
    return {token: p for token, p in law.items() if p > 0}


def normal(weights):
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def same(dist, law):
    assert dist.ids.tolist() == sorted(law)
    np.testing.assert_allclose(dist.probs, [law[token] for token in sorted(law)], atol=1e-12, rtol=1e-9)


VALUES = st.one_of(st.integers(-24, 24).map(lambda i: i / 4), st.floats(-20, 20).map(lambda v: round(v, 3)))
ROWS = st.lists(st.one_of(VALUES, VALUES, st.just(-inf)), min_size=1, max_size=60)


@st.composite
def cases(draw):
    logits = np.array(draw(ROWS))
    assume(np.isfinite(logits).any())
    token = st.integers(0, len(logits) - 1)
    history = draw(st.lists(token, max_size=12))
    chosen = Sampling(
        temperature=draw(st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0, 1.9, 100.0])),
        top_k=draw(st.sampled_from([0, 0, 1, 2, 5, 59, 60, 1000])),
        top_p=draw(st.one_of(st.just(1.0), st.floats(0.001, 1))),
        min_p=draw(st.sampled_from([0.0, 0.0, 0.05, 0.3, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 1.3, 0.7])),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 1.1, -0.6])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, 0.45, -0.3])),
        penalty_window=draw(st.sampled_from([0, 0, 1, 3, 100])),
        bias=draw(st.dictionaries(token, st.one_of(VALUES, st.just(-inf)), max_size=3)),
    )
    allowed = draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=len(logits), max_size=len(logits))))
    return logits, chosen, History(history, draw(st.integers(0, len(history)))), allowed


@settings(max_examples=1500, deadline=None)
@given(cases())
def test_the_pipeline_is_the_reference(case):
    logits, chosen, history, allowed = case
    mask = None if allowed is None else np.array(allowed)
    before = logits.copy(), list(history.tokens), None if mask is None else mask.copy()
    try:
        dist = distribution(logits, chosen, history, mask)
    except ValueError:
        left = [v + chosen.bias.get(i, 0.0) for i, v in enumerate(logits) if allowed is None or allowed[i]]
        assert all(v == -inf for v in left)
        return
    finally:
        np.testing.assert_array_equal(logits, before[0])
        assert history.tokens == before[1]
        assert mask is None or (mask == before[2]).all()
    same(dist, reference(logits, chosen, history, allowed))


def test_the_order_of_the_filters_shows():
    """Each pair in the other order would give another set."""
    row = np.log(np.array([0.4, 0.3, 0.2, 0.1]))

    def kept(**chosen):
        return distribution(row, Sampling(**chosen), NOTHING).ids.tolist()

    assert kept(temperature=1, top_k=3, top_p=0.75) == [0, 1]  # .4 / .9 + .3 / .9 is enough; .7 is not
    assert kept(temperature=1, top_p=0.75) == [0, 1, 2]
    assert kept(temperature=2, top_p=0.75) == [0, 1, 2]
    assert kept(temperature=0.25, top_p=0.75) == [0, 1]  # temperature before the nucleus
    assert kept(temperature=1, min_p=0.6) == [0, 1]
    assert kept(temperature=2, min_p=0.6) == [0, 1, 2]  # and before min-p


def test_greedy_is_one_token_whatever_the_filters():
    row = np.array([1.0, 5, 5, 2])
    for chosen in (
        Sampling(),
        Sampling(top_p=0.9),
        Sampling(top_k=3),
        Sampling(min_p=0.5),
        Sampling(temperature=1, top_k=1),
        Sampling(temperature=0.0, top_p=1e-9),
    ):
        dist = distribution(row, chosen, NOTHING)
        assert (dist.ids.tolist(), dist.probs.tolist()) == ([1], [1.0])


def test_ties_at_the_edge_of_a_filter_go_to_the_lowest_ids():
    row = np.array([0.0, 1, 1, 1, 0])
    kept = lambda **chosen: distribution(row, Sampling(temperature=1, **chosen), NOTHING).ids.tolist()  # noqa: E731
    assert kept(top_k=2) == [1, 2]
    assert kept(top_k=4) == [0, 1, 2, 3]
    assert kept(top_p=1e-9) == [1]
    assert kept(top_p=0.5) == [1, 2]
    assert kept(min_p=1.0) == [1, 2, 3]


def test_a_nucleus_that_is_exactly_met_takes_no_more():
    assert distribution(np.zeros(4), Sampling(temperature=1, top_p=0.5), NOTHING).ids.tolist() == [0, 1]
    assert distribution(np.zeros(4), Sampling(temperature=1, top_p=0.51), NOTHING).ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 6.0])
@pytest.mark.parametrize("top_p", [1e-6, 0.3, 0.9, 0.999])
def test_a_nucleus_of_any_size_in_a_large_vocabulary_is_that_of_a_full_sort(spread, top_p):
    rng = np.random.default_rng(0)
    row = rng.normal(0, 1, 5000).round(1).astype(np.float32) * spread  # with ties
    weights = np.exp(row.astype(np.float64) - row.max())
    order = np.lexsort((np.arange(5000), -weights))
    size = int((np.cumsum(weights[order] / weights.sum()) < top_p).sum()) + 1
    dist = distribution(row, Sampling(temperature=1, top_p=top_p), NOTHING)
    assert dist.ids.tolist() == sorted(order[:size].tolist())


def test_the_lowest_temperatures_are_greedy_and_finite():
    row = np.array([3.0, 3.5, -inf, 3.4999], np.float32)
    for temperature in (1e-4, 1e-9, 1e-310):
        dist = distribution(row, Sampling(temperature=temperature), NOTHING)
        assert dist.top == 1
        assert np.isfinite(dist.probs).all()
    tie = distribution(np.array([2.0, 2.0, 1.0]), Sampling(temperature=1e-4), NOTHING)
    assert tie.probs.tolist() == [0.5, 0.5]


def test_only_top_k_given_with_a_temperature_of_one_is_random():
    assert len(distribution(np.zeros(9), Sampling(temperature=1, top_k=5), NOTHING).ids) == 5


def test_broken_rows_are_refused():
    for row in ([1, np.nan, 3], [-inf, -inf], [1, inf], [np.nan, np.nan]):
        for temperature in (0, 1):
            with pytest.raises(OptionError, match="No token can be chosen"):
                distribution(np.array(row), Sampling(temperature=temperature), NOTHING)
    with pytest.raises(OptionError, match="No token can be chosen"):
        distribution(np.zeros(3), Sampling(), NOTHING, np.zeros(3, bool))


def test_a_bias_outside_the_vocabulary_is_refused():
    with pytest.raises(OptionError, match="token 3, but the vocabulary has 3"):
        distribution(np.zeros(3), Sampling(bias={3: 1.0}), NOTHING)


def test_a_bias_forces_and_bans():
    row = np.random.default_rng(0).normal(0, 3, 20).astype(np.float32)
    assert distribution(row, Sampling(bias={7: 100.0}), NOTHING).top == 7
    banned = distribution(row, Sampling(temperature=1, bias={7: -inf}), NOTHING)
    assert banned.prob(7) == 0


def test_presence_and_frequency_count_the_output_only_and_repetition_the_prompt_too():
    row, history = np.array([2.0, 2.0, 2.0, -2.0]), History([0, 1, 1, 3], prompt=1)
    logp = lambda **chosen: np.log(  # noqa: E731
        distribution(row, Sampling(temperature=1, **chosen), history).on(np.arange(4))
    )
    presence, frequency = logp(presence_penalty=0.5), logp(frequency_penalty=0.5)
    assert (presence - presence[0]).tolist() == pytest.approx([0, -0.5, 0, -4.5])
    assert (frequency - frequency[0]).tolist() == pytest.approx([0, -1.0, 0, -4.5])
    repetition = logp(repetition_penalty=2.0)
    assert (repetition - repetition[2]).tolist() == pytest.approx([-1, -1, 0, -6])


def test_a_window_forgets_what_is_behind_it():
    row, text = np.zeros(3), History([0, 1, 2, 2], prompt=1)
    chosen = Sampling(temperature=1, presence_penalty=1.0, penalty_window=2)
    assert distribution(row, chosen, text).on(np.arange(2)).tolist() == pytest.approx([1 / (2 + exp(-1))] * 2)


def test_history_is_read_only_where_a_penalty_is_on():
    assert not Sampling(temperature=1, top_k=3, bias={1: 1.0}, penalty_window=4).reads_history
    for penalty in ("repetition_penalty", "presence_penalty", "frequency_penalty"):
        assert Sampling(**{penalty: 0.5}).reads_history


def test_half_precision_rows_are_read_for_what_they_are():
    """The values of bfloat16 in float32, and float16 itself: the same law as the same numbers in float64."""
    exact = np.random.default_rng(1).normal(0, 4, 64).astype(np.float32)
    rounded = (exact.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    for row in (rounded, exact.astype(np.float16)):
        for chosen in (Sampling(), Sampling(temperature=0.8, top_k=20, top_p=0.9, min_p=0.01)):
            ours, wide = (
                distribution(row, chosen, NOTHING),
                distribution(row.astype(np.float64), chosen, NOTHING),
            )
            assert ours.ids.tolist() == wide.ids.tolist()
            assert ours.probs.tolist() == wide.probs.tolist()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("temperature", -0.1),
        ("temperature", inf),
        ("temperature", np.nan),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", np.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", inf),
        ("presence_penalty", inf),
        ("presence_penalty", np.nan),
        ("frequency_penalty", -inf),
        ("penalty_window", -1),
        ("bias", {-1: 1.0}),
        ("bias", {1: inf}),
        ("bias", {1: np.nan}),
    ],
)
def test_values_out_of_range_are_refused_by_name(option, value):
    with pytest.raises(OptionError, match=option):
        Sampling(**{option: value})
