"""Refused guesses are forgotten by target and drafter, and nothing else is."""

import pytest
from setups import Counting, forced, script, silent, tiny, twin, write, wrong

from redline.core.errors import OptionError, RewindError
from redline.core.pace import Fixed
from redline.core.ports import Chunk
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.drafters import ModelDrafter, Ngram, model
from redline.engine import Engine, generate
from redline.testing import ToyBackend

PROMPT = [3, 1, 4]


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8])
def test_32_a_model_that_drafts_for_itself_is_right_to_the_end(depth, monkeypatch):
    """The draft cache lost or kept an entry, so that acceptance decayed while the text stayed right.

    mlxcel #994, PR #1002; vllm PR #5765, PR #9730
    """
    monkeypatch.setattr(model, "AHEAD", 0)  # a pass a guess; test_drafters.py is about reading ahead
    target, backend = tiny(), tiny()
    result = write(target, PROMPT, ModelDrafter(backend, target), depth, limits=512)
    assert result.metrics.acceptance == 1.0
    assert result.metrics.acceptance_at == (1.0,) * depth
    assert result.metrics.steps == -(-512 // (depth + 1))
    assert len(backend.passes) == 1 + result.metrics.proposed, "the prompt, then a pass a guess"
    # Everything is read exactly once, but for the last guess and the target's own last word.
    assert sum(rows for chunks in backend.passes for rows in chunks) == len(PROMPT) + 512 - 2


class Forgetful(ModelDrafter):
    """Reads the whole text anew for every draft."""

    def propose(self, scenes):
        for scene in scenes:
            self.stop(scene.key)
            self._texts._pool.close()
            self.start(scene.key, scene.history.tokens)
        return super().propose(scenes)


def near():
    """A model that is often, but not always, of the target's opinion."""
    hashed = tiny()._hashed
    return ToyBackend(12, order=None, logits=lambda state: hashed(state) + 0.2 * hashed((9, *state)))


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8])
def test_32_drafts_are_those_of_a_drafter_without_a_cache(depth):
    """The draft model forgot its own last guess after all of them were kept. vllm PR #9730; mlxcel #994"""
    kept = write(tiny(), PROMPT, ModelDrafter(near(), tiny()), depth, limits=200)
    anew = write(tiny(), PROMPT, Forgetful(near(), tiny()), depth, limits=200)
    assert [step.proposed for step in kept.steps] == [step.proposed for step in anew.steps]
    assert kept.tokens == anew.tokens
    assert 0.2 < kept.metrics.acceptance < 0.9, "keeps and refusals must both happen"


class Sometimes(ModelDrafter):
    """Guesses only in some rounds."""

    rounds = 0

    def propose(self, scenes):
        self.rounds += 1
        return super().propose(scenes) if self.rounds % 3 else [Draft.empty() for _ in scenes]


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_32_rounds_without_a_guess_leave_no_gap(depth):
    """Rounds without guesses skipped the draft model's update. vllm-metal PR #716"""
    target = tiny()
    result = write(target, PROMPT, Sometimes(tiny(), target), depth, limits=200)
    assert result.metrics.acceptance == 1.0
    assert any(not step.proposed for step in result.steps[1:])


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_32_both_caches_hold_the_text_without_its_pending_tokens(depth):
    """Caches that drift from the committed text. vllm PR #5765"""
    target, backend = Counting(12, seed=5), Counting(12, seed=6)
    engine = Engine(target, ModelDrafter(backend, target), pace=lambda: Fixed(depth))
    key = engine.submit(PROMPT, None, Limits(60))
    while key in engine.live:
        live = engine.live[key]
        engine.step()
        if key in engine.live:
            reference = tiny()
            cache = reference.open()
            reference.extend([Chunk(cache, live.tokens[:-1], "none")])
            assert target.caches[0].length == len(live.tokens) - 1
            assert target.caches[0].states == cache.states
            assert backend.caches[0].length < len(live.tokens) + depth


COUNT = list(range(1, 21))


@pytest.mark.parametrize("rollback", ["truncate", "snapshot"])
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_33_counting_loses_no_number(depth, rollback):
    """Rollback that silently does nothing: 1 to 20 lost 2, 4, 7 and 9.

    mlx-lm #846, PR #1109, #1446; vllm #39273, PR #52942; llama.cpp PR #20080
    """
    text = [0, *COUNT]
    for drafter in (
        None,
        wrong(text, 24),
        silent(text, depth, 24),
        twin(lambda: forced(COUNT, 24), forced(COUNT, 24)),
        *(script(text, rights, depth, 24) for rights in range(depth + 1)),
    ):
        model = forced(COUNT, 24, rollback=rollback)
        assert write(model, [0], drafter, depth, limits=20).tokens == tuple(COUNT)


def test_33_a_target_that_cannot_forget_is_refused_before_the_first_token():
    """State that cannot be trimmed went on with refused guesses in it. mlx-lm #846; vllm #39273"""
    model = forced(COUNT, 24, rollback="none")
    with pytest.raises(OptionError, match="cannot forget refused guesses, so it cannot speculate") as error:
        Engine(model, Ngram())
    assert "Decode plainly" in error.value.hint
    assert model.passes == []
    assert write(model, [0], limits=20).tokens == tuple(COUNT)


@pytest.mark.parametrize("rollback", ["none", "snapshot"])
def test_33_a_draft_model_that_cannot_forget_is_refused(rollback):
    """A recurrent draft model read a stale state after an accepting round. vllm PR #52942"""
    with pytest.raises(OptionError, match="so it cannot draft") as error:
        ModelDrafter(tiny(rollback=rollback), tiny())
    assert error.value.hint


def test_33_a_rewind_that_does_nothing_is_found_out_at_once():
    """An unchecked result of "trim". mlx-lm #846; localvoxtral PR #91"""

    class Stubborn(Counting):
        def open(self):
            cache = super().open()
            cache.rewind = lambda length, path=(): None
            return cache

    target = Stubborn(12, seed=5)
    plain = write(tiny(), PROMPT).tokens
    engine = Engine(target, wrong([*PROMPT, *plain]))
    with pytest.raises(RewindError, match="The cache has 8 entries for 4 tokens"):
        generate(engine, PROMPT, limits=Limits(24))
    assert (engine.live, target.opened) == ({}, 0)


@pytest.mark.parametrize("depth", [1, 5, 20])
def test_35_a_cache_of_fixed_size_is_never_overrun(depth):
    """Capacity that did not cover prompt, output and guesses. transformers #30312, #32946"""
    for context in (5, 9, 24):
        small = lambda c=context: Counting(12, seed=5, context=c)  # noqa: E731
        plain = write(small(), PROMPT, limits=Limits())
        target, backend = small(), small()
        result = write(target, PROMPT, ModelDrafter(backend, target), depth, limits=Limits())
        assert result.tokens == plain.tokens
        assert len(PROMPT) + len(plain.tokens) == context
        assert max(target.furthest, backend.furthest) <= context
