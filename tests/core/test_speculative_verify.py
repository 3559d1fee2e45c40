"""The textbook entry point on plain arrays."""

import numpy as np
import pytest

from redline.core.verify import speculative_verify

TOKENS = [10, 20, 30, 40]


def issue_tables(kind=np.float64):
    """p/q is at least 1 for the first token, then 0.8, then 0.11, then 1."""
    q, p = np.zeros((4, 50)), np.zeros((4, 50))
    for place, (token, mine, its) in enumerate(
        zip(TOKENS, (0.6, 0.4, 0.055, 0.5), (0.3, 0.5, 0.5, 0.5), strict=True)
    ):
        p[place, token], q[place, token] = mine, its
        p[place, 0], q[place, 1] = 1 - mine, 1 - its
    return q.astype(kind), p.astype(kind)


def test_the_example_keeps_exactly_the_first_two():
    q, p = issue_tables()
    assert speculative_verify(q, p, TOKENS, uniforms=[0.9, 0.5, 0.9, 0.1]) == [10, 20]


def test_the_example_by_hand_around_every_threshold():
    q, p = issue_tables()
    assert speculative_verify(q, p, TOKENS, uniforms=[0.9, 0.81, 0.0, 0.0]) == [10]
    assert speculative_verify(q, p, TOKENS, uniforms=[0.9, 0.79, 0.109, 0.9]) == TOKENS
    assert speculative_verify(q, p, TOKENS, uniforms=[0.9, 0.79, 0.111, 0.9]) == [10, 20]
    assert speculative_verify(q, p, TOKENS, uniforms=[0.0, 0.8, 0.0, 0.0]) == [10]  # u < p / q is strict


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2**-53, 1.0])
def test_a_token_the_target_likes_at_least_as_much_is_always_kept(u):
    row = np.array([[0.3, 0.7]])
    assert speculative_verify(row, row, [1], uniforms=[u]) == [1]
    assert speculative_verify(row, row[:, ::-1], [0], uniforms=[u]) == [0]


def test_a_token_the_target_cannot_write_is_never_kept():
    q, p = np.array([[0.5, 0.5]]), np.array([[0.0, 1.0]])
    assert speculative_verify(q, p, [0], uniforms=[0.0]) == []
    assert speculative_verify(q, p, [0], uniforms=[0.0, 0.3], replacement=True) == ([], 1)


def test_the_law_integrated_over_the_uniforms():
    """On a midpoint grid finer than every threshold, drafted token and uniforms summed out, p comes back."""
    q, p = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.125, 0.625])
    grid = (np.arange(40) + 0.5) / 40
    law = np.zeros(3)
    for token in range(3):
        for u in grid:
            for v in grid:
                kept, own = speculative_verify(
                    q[None], np.stack([p, p]), [token], uniforms=[u, v], replacement=True
                )
                law[[*kept, own][0]] += q[token] / 1600
    np.testing.assert_allclose(law, p, atol=1e-12)


def test_the_law_of_the_first_token_by_frequencies():
    rng = np.random.default_rng(0)
    q, p = np.array([0.7, 0.2, 0.1]), np.array([0.3, 0.3, 0.4])
    n, counts = 20_000, np.zeros(3)
    tokens = rng.choice(3, n, p=q)
    for seed, token in enumerate(tokens):
        kept, own = speculative_verify(q[None], np.stack([p, q]), [int(token)], seed=seed, replacement=True)
        counts[[*kept, own][0]] += 1
    assert (((counts - n * p) ** 2) / (n * p)).sum() < 40  # two degrees of freedom: false alarm below 1e-8


def test_the_replacement_comes_from_the_residual_and_the_bonus_from_the_last_row():
    q, p = np.array([[0.5, 0.5, 0.0]]), np.array([[0.1, 0.6, 0.3], [0.2, 0.3, 0.5]])
    refused = [
        speculative_verify(q, p, [0], uniforms=[0.9, v], replacement=True) for v in (0.0, 0.2, 0.3, 0.99)
    ]
    assert refused == [([], 1), ([], 1), ([], 2), ([], 2)]  # max(p − q, 0) is [0, .1, .3]
    kept = [speculative_verify(q, p, [1], uniforms=[0.9, v], replacement=True) for v in (0.1, 0.4, 0.99)]
    assert kept == [([1], 0), ([1], 1), ([1], 2)]


def test_without_tokens_there_is_only_the_bonus():
    assert speculative_verify(np.empty((0, 3)), np.empty((0, 3)), []) == []
    bonus = speculative_verify(np.empty((0, 3)), np.array([[0.0, 1.0, 0.0]]), [], replacement=True)
    assert bonus == ([], 1)


def test_a_seed_repeats_and_no_seed_does_not():
    q, p = np.full((1, 2), 0.5), np.array([[0.25, 0.75]])
    runs = lambda seeds: [speculative_verify(q, p, [0], seed=seed) for seed in seeds]  # noqa: E731
    assert runs(range(50)) == runs(range(50))
    assert 5 < sum(map(len, runs(range(50)))) < 45
    assert 0 < sum(map(len, runs([None] * 80))) < 80
    assert runs([2**100]) == runs([2**100])


def test_small_seeds_are_as_random_as_any():
    """The first uniform of a seed is no extreme number, for seed 0 neither."""
    q, p = np.array([[0.5, 0.5]]), np.array([[0.005, 0.995]])
    assert [speculative_verify(q, p, [0], seed=seed) for seed in range(5)] == [[]] * 5


@pytest.mark.parametrize(
    ("q", "p", "tokens", "options", "complaint"),
    [
        (np.ones(2) / 2, np.ones((1, 2)) / 2, [0], {}, "shape"),
        (np.ones((2, 2)) / 2, np.ones((1, 2)) / 2, [0], {}, "1 tokens need"),
        (np.ones((1, 2)) / 2, np.ones((3, 2)) / 2, [0], {}, "1 tokens need"),
        (np.ones((1, 2)) / 2, np.ones((1, 4)) / 4, [0], {}, "1 tokens need"),
        (np.ones((1, 2)), np.ones((1, 2)) / 2, [0], {}, "draft_probs must be non-negative"),
        (np.ones((1, 2)) / 2, np.array([[1.5, -0.5]]), [0], {}, "target_probs must be non-negative"),
        (np.array([[np.nan, 1.0]]), np.ones((1, 2)) / 2, [0], {}, "draft_probs must be non-negative"),
        (np.array([[0.0, 1.0]]), np.ones((1, 2)) / 2, [0], {}, "token 0 at place 0 has draft probability 0"),
        (np.ones((1, 2)) / 2, np.ones((1, 2)) / 2, [2], {}, "token 2 at place 0"),
        (np.ones((1, 2)) / 2, np.ones((1, 2)) / 2, [-1], {}, "token -1 at place 0"),
        (np.ones((2, 2)) / 2, np.ones((2, 2)) / 2, [0, 1], {"uniforms": [0.5]}, "at least 2 uniforms, not 1"),
        (np.ones((1, 2)) / 2, np.ones((1, 2)) / 2, [0], {"replacement": True}, "bonus token needs"),
    ],
)
def test_what_makes_no_sense_is_refused(q, p, tokens, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        speculative_verify(q, p, tokens, **options)


def test_an_impossible_token_behind_a_refusal_is_refused_too():
    q, p = np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([[0.0, 1.0], [0.5, 0.5]])
    with pytest.raises(ValueError, match="place 1"):
        speculative_verify(q, p, [0, 0], uniforms=[0.5, 0.5])


@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16"])
def test_torch_tensors_in_any_precision_with_or_without_gradient(precision):
    import torch

    q, p = issue_tables()
    for gradient in (False, True):
        tensors = [
            torch.tensor(rows, dtype=getattr(torch, precision), requires_grad=gradient) for rows in (q, p)
        ]
        assert speculative_verify(*tensors, TOKENS, uniforms=[0.9, 0.5, 0.9, 0.1]) == [10, 20]
        assert speculative_verify(*tensors, torch.tensor(TOKENS), uniforms=[0.9, 0.5, 0.9, 0.1]) == [10, 20]


def test_lists_and_single_precision_arrays():
    q, p = issue_tables(np.float32)
    assert speculative_verify(q, p, TOKENS, uniforms=[0.9, 0.5, 0.9, 0.1]) == [10, 20]
    assert speculative_verify(q.tolist(), p.tolist(), np.array(TOKENS), uniforms=[0.9, 0.5, 0.9, 0.1]) == [
        10,
        20,
    ]


def test_the_kept_ids_are_plain_integers_and_nothing_is_changed():
    q, p = issue_tables()
    before = q.copy(), p.copy()
    kept, own = speculative_verify(
        q, np.vstack([p, p[:1]]), np.array(TOKENS), uniforms=[0.9, 0.5, 0.9, 0.1, 0.3], replacement=True
    )
    assert {type(token) for token in [*kept, own]} == {int}
    np.testing.assert_array_equal(q, before[0])
    np.testing.assert_array_equal(p, before[1])


def test_rows_that_do_not_sum_to_one_are_one_law_in_test_and_residual():
    """Half-precision rows: the same law must decide what is kept and what replaces it."""
    p, q = np.array([[0.495, 0.495]]), np.array([[0.6, 0.4]])
    law = np.zeros(2)
    us = (np.arange(400) + 0.5) / 400
    for token, chance in enumerate(q[0]):
        for u in us:
            kept, own = speculative_verify(q, np.vstack([p, p]), [token], uniforms=[u, 0.5], replacement=True)
            law[kept[0] if kept else own] += chance / len(us)
    assert law == pytest.approx([0.5, 0.5], abs=2e-3)


@pytest.mark.parametrize("options", [{"uniforms": [float("nan")]}, {"uniforms": [5.0]}, {"uniforms": [-0.1]}])
def test_uniforms_must_be_uniforms(options):
    with pytest.raises(ValueError, match="between 0 and 1"):
        speculative_verify([[0.5, 0.5]], [[0.5, 0.5]], [0], **options)


def test_tokens_must_be_ids_and_may_be_none_at_all():
    for odd in ([0.0], ["a"], "a"):
        with pytest.raises(ValueError, match="token ids"):
            speculative_verify([[0.5, 0.5]], [[0.5, 0.5]], odd)
    assert speculative_verify([], [[0.0, 1.0]], [], replacement=True) == ([], 1)
