"""Strict passes: whatever the width of a draft, the bits are those of one-row passes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.backends.strict import Strict
from redline.core.errors import ContextError, OptionError
from redline.core.metrics import inexact_widths
from redline.core.pace import Fixed, Whole, pieces
from redline.core.ports import Chunk
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Budget, Step
from redline.drafters import Ngram, Replay
from redline.engine import Engine, generate, generate_many
from redline.engine.load import load
from redline.testing import BackendContract, ToyBackend


class Rounding(ToyBackend):
    """A toy whose rows change in passes of other than 1, 2 or 5 rows, far more than rounding would.

    So does everything that follows, as it does with a real cache that was filled by such a pass.
    """

    def __init__(self, **options):
        super().__init__(**options)
        self.traits = type(self.traits)(
            self.traits.vocab_size,
            self.traits.context,
            self.traits.rollback,
            row_invariant=False,
            exact_widths=(1, 2, 5),
        )

    def extend(self, chunks):
        rows = super().extend(chunks)
        width = sum(len(chunk.tokens) for chunk in chunks if chunk.rows != "none")
        if width not in (0, 1, 2, 5):
            for chunk in chunks:
                chunk.cache.states[-1] = (width, *chunk.cache.states[-1])[-1:]
            return [np.roll(row, width, axis=-1) for row in rows]
        return rows


class TestContract(BackendContract):
    @pytest.fixture
    def backend(self):
        return Strict(Rounding(vocab_size=12, context=200))


@given(st.integers(0, 60), st.sets(st.integers(2, 9)))
def test_pieces_are_exact_widths_that_add_up(rows, widths):
    found = pieces(rows, (1, *sorted(widths)))
    assert sum(found) == rows
    assert set(found) <= {1, *widths}
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 9])
def test_text_is_plain_decodings_with_one_row_passes(depth, temperature):
    sampling, limits = Sampling(temperature=temperature), Limits(40)
    plain = generate(Engine(Rounding(vocab_size=12)), [1, 2, 3], sampling, limits, seed=3)
    text = [1, 2, 3, *plain.tokens]
    right = Replay([text], 12)
    engine = Engine(Strict(Rounding(vocab_size=12)), right, pace=lambda: Fixed(depth), keep=0)
    assert generate(engine, [1, 2, 3], sampling, limits, seed=3).tokens == plain.tokens


def test_without_strict_the_same_target_writes_something_else():
    """Else the test above proves nothing."""
    plain = generate(Engine(Rounding(vocab_size=12)), [1, 2, 3], limits=Limits(40))
    drafter = Replay([[1, 2, 3, *plain.tokens]], 12)
    loose = generate(
        Engine(Rounding(vocab_size=12), drafter, pace=lambda: Fixed(3)), [1, 2, 3], limits=Limits(40)
    )
    assert loose.tokens != plain.tokens


def test_a_batch_is_its_texts_alone():
    prompts = [[i, i + 1, i] for i in range(6)]
    engine = Engine(Strict(Rounding(vocab_size=12)), Ngram(), keep=0)
    alone = [generate(Engine(Rounding(vocab_size=12)), p, limits=Limits(20)).tokens for p in prompts]
    assert [result.tokens for result in generate_many(engine, prompts, limits=Limits(20))] == alone


def test_passes_have_exact_widths_only_and_prompts_come_whole():
    target = Rounding(vocab_size=12)
    engine = Engine(Strict(target), Replay([[1] * 60], 12), pace=lambda: Fixed(8), keep=0)
    generate(engine, [1] * 30, limits=Limits(12))
    assert target.passes[0] == [29]
    assert {width for (width,) in target.passes[1:]} <= {1, 2, 5}


def test_a_pass_that_fails_half_way_leaves_no_trace():
    target = Strict(Rounding(vocab_size=12, context=10))
    cache = target.open()
    target.extend([Chunk(cache, [1] * 8, "none")])
    with pytest.raises(ContextError):
        target.extend([Chunk(cache, [1, 2, 3])])
    assert cache.length == 8


class Single(Rounding):
    """Only single rows are exact, and the memory comes back from a snapshot."""

    def __init__(self):
        super().__init__(vocab_size=12, rollback="snapshot")
        self.traits = replace(self.traits, exact_widths=(1,))


@pytest.mark.parametrize("make", [Single, lambda: Rounding(vocab_size=12, rollback="snapshot")])
def test_pieces_of_a_snapshot_memory_cannot_be_taken_back(make):
    with pytest.raises(OptionError, match="cannot forget"):
        Engine(Strict(make()), Ngram())
    with pytest.raises(OptionError, match="strict passes are several") as error:
        load(make(), "ngram", strict=True)
    assert "strict" in error.value.hint
    plain = generate(Engine(make()), [1, 2, 3], limits=Limits(9)).tokens
    assert generate(load(make(), "none", strict=True), [1, 2, 3], limits=Limits(9)).tokens == plain


def test_a_target_without_any_exact_width_cannot_be_strict():
    target = Rounding(vocab_size=12)
    target.traits = replace(target.traits, exact_widths=())
    with pytest.raises(OptionError, match="no exact widths"):
        Strict(target)


def test_a_result_names_the_widths_that_were_not_exact():
    def widths(target, depth):
        engine = Engine(target, Replay([[1] * 60], 12), pace=lambda: Fixed(depth), keep=0)
        return generate(engine, [1] * 30, limits=Limits(12)).inexact_widths

    assert set(widths(Rounding(vocab_size=12), 3)) <= {3, 4}
    assert 4 in widths(Rounding(vocab_size=12), 3)
    assert widths(Rounding(vocab_size=12), 1) == ()
    assert widths(Strict(Rounding(vocab_size=12)), 3) == ()
    assert widths(ToyBackend(vocab_size=12), 3) == ()


def test_reading_again_behind_a_snapshot_is_a_pass_too():
    traits = replace(Single().traits, exact_widths=(1, 5))
    step = Step(0, 9, emitted=(1, 2, 3), proposed=(1, 2, 7, 7), parents=(-1, 0, 1, 2), path=(0, 1))
    assert inexact_widths(traits, [step]) == (3,)
    assert inexact_widths(replace(traits, rollback="truncate"), [step]) == ()


@pytest.mark.parametrize("widths", [(1,), (1, 2), (1, 2, 3), (1, 2, 5), (*range(1, 10), 12, 16)])
def test_whole_asks_for_the_most_rows_a_pass(widths):
    for depth in range(20):
        got = Whole(Fixed(depth), widths).budget().depth
        assert got <= depth
        worth = {n: n / len(pieces(n, widths)) for n in range(1, depth + 2)}
        assert worth[got + 1] == max(worth.values())
        assert all(worth[n] < worth[got + 1] for n in range(got + 2, depth + 2))
        assert got > 0 or depth == 0
    assert Whole(Fixed(7, nodes=7, confidence=0.3), (1, 2, 3)).budget() == Budget(5, 5, 0.3)


def test_load_makes_a_target_strict_and_keeps_no_cache():
    engine = load(Rounding(vocab_size=12), "ngram", strict=True, depth=6)
    assert isinstance(engine.target, Strict)
    generate(engine, [1, 2] * 5, limits=Limits(6))
    assert engine._pool._idle == []
    assert engine._pace().budget().depth == 4  # of 1, 2 and 5 rows a pass
    exact = ToyBackend()
    assert load(exact, "ngram", strict=True).target is exact
