"""Kept caches: a shared beginning is read once, and never trusted further than it is shared."""

import pytest

from redline.backends.pool import Pool, shared_prefix
from redline.core.ports import Chunk
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.drafters import ModelDrafter
from redline.engine import Engine, generate, generate_many
from redline.testing import ToyBackend

TALK = [1, 2, 3, 4, 5, 6, 7, 8]


def filled(backend, tokens):
    cache = backend.open()
    backend.extend([Chunk(cache, tokens, "none")])
    return cache


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [
        ([], [], 0),
        ([1], [], 0),
        ([1, 2], [1, 2], 2),
        ([1, 2], [1, 2, 3], 2),
        ([1, 2, 3], [1, 9, 3], 1),
        ([1], [2], 0),
    ],
)
def test_shared_prefix(a, b, length):
    assert shared_prefix(a, b) == shared_prefix(b, a) == length


def test_the_longest_shared_beginning_is_taken():
    backend = ToyBackend()
    pool = Pool(backend, keep=3)
    caches = [filled(backend, TALK[:n]) for n in (2, 6, 4)]
    for cache, n in zip(caches, (2, 6, 4), strict=True):
        pool.give(cache, TALK[:n])
    assert pool.take([*TALK[:5], 15]) is caches[1]
    assert caches[1].length == 5
    assert pool.take(TALK) is caches[2]
    assert caches[2].length == 4
    assert pool.take([9, 9]).length == 0


def test_one_token_is_always_left_to_read():
    backend = ToyBackend()
    pool = Pool(backend)
    pool.give(filled(backend, TALK), TALK)
    cache = pool.take(TALK[:5])
    assert cache.length == 4
    pool.give(cache, TALK[:4])
    assert pool.take(TALK[:1]) is not cache


def test_a_cache_that_never_forgets_serves_only_what_goes_on_where_it_ends():
    backend = ToyBackend(rollback="none")
    pool = Pool(backend, keep=2)
    long, short = filled(backend, TALK), filled(backend, TALK[:3])
    pool.give(long, TALK)
    pool.give(short, TALK[:3])
    assert pool.take([*TALK[:6], 15]) is short, "the next best one that can be used"
    assert pool.take([*TALK[:6], 15]).length == 0
    assert pool.take([*TALK, 15]) is long


def test_a_cache_with_snapshots_is_used_as_far_as_they_reach():
    backend = ToyBackend(rollback="snapshot")
    pool = Pool(backend, keep=2)
    cache = filled(backend, TALK[:4])
    backend.extend([Chunk(cache, TALK[4:], "none")])
    pool.give(cache, TALK)
    assert pool.take([*TALK[:3], 15]) is not cache
    assert pool.take([*TALK[:6], 15]) is cache
    assert cache.length == 6


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_a_pool_is_bounded_and_closes_the_oldest(keep):
    backend = ToyBackend()
    pool = Pool(backend, keep)
    caches = [filled(backend, TALK[:n]) for n in range(1, 7)]
    for n, cache in enumerate(caches, 1):
        pool.give(cache, TALK[:n])
    assert [cache.closed for cache in caches] == [True] * (6 - keep) + [False] * keep
    pool.close()
    assert all(cache.closed for cache in caches)
    pool.close()


@pytest.mark.parametrize("rollback", ["truncate", "snapshot", "none"])
def test_a_conversation_is_read_once(rollback):
    target = ToyBackend(rollback=rollback)
    engine = Engine(target, prefill=100)
    first = generate(engine, TALK, limits=Limits(5))
    longer = [*TALK, *first.tokens, 9, 9]
    second = generate(engine, longer, limits=Limits(5))
    # The last token of the first answer was never read; the very last one is read by the first step.
    assert second.metrics.prefill_tokens == 2
    assert second.tokens == generate(Engine(ToyBackend()), longer, limits=Limits(5)).tokens
    third = generate(engine, [*TALK[:4], 15, 15], limits=Limits(5))
    assert third.metrics.prefill_tokens == (1 if rollback == "truncate" else 5)
    assert third.tokens == generate(Engine(ToyBackend()), [*TALK[:4], 15, 15], limits=Limits(5)).tokens


@pytest.mark.parametrize("rule_sampling", [Sampling(), Sampling(temperature=1.0)], ids=["greedy", "sampled"])
def test_reuse_never_changes_a_text(rule_sampling):
    target = ToyBackend()
    drafter = ModelDrafter(ToyBackend(seed=1), target)
    engine = Engine(target, drafter, keep=2)
    prompts = [TALK[:n] for n in (8, 3, 5, 8, 1, 2)] + [[*TALK[:4], 0, 0], [7], TALK]
    for prompt in prompts:
        fresh = generate(Engine(ToyBackend()), prompt, rule_sampling, Limits(9), 3)
        assert generate(engine, prompt, rule_sampling, Limits(9), 3).tokens == fresh.tokens
    for result, prompt in zip(
        generate_many(engine, prompts, rule_sampling, Limits(9), 3), prompts, strict=True
    ):
        fresh = generate(Engine(ToyBackend()), prompt, rule_sampling, Limits(9), 3)
        assert result.tokens == fresh.tokens


def test_the_draft_model_does_not_read_a_shared_beginning_again_either():
    target, backend = ToyBackend(), ToyBackend(seed=1)
    engine = Engine(target, ModelDrafter(backend, target))
    generate(engine, TALK, limits=Limits(5))
    before = len(backend.passes)
    generate(engine, [*TALK, 15], limits=Limits(5))
    assert backend.passes[before] == [1]


def test_a_long_cache_is_not_cut_for_a_short_beginning_while_there_is_room():
    backend = ToyBackend()
    for keep, kept in ((1, 0), (2, len(TALK))):
        pool = Pool(backend, keep)
        long = filled(backend, TALK)
        pool.give(long, TALK)
        short = pool.take([1, 9, 9])
        assert (short is long) == (keep == 1)
        assert long.length == (kept or 1)
        if keep == 2:
            pool.give(short, [])
            assert pool.take([*TALK, 9]) is long
