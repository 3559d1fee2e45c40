"""Models whose memory cannot simply be cut: recurrent, hybrid and with sliding windows, under llama.cpp."""

import hypothesis
import numpy as np
import pytest
from tiny_gguf import CONTEXT, save

from redline.backends import llamacpp
from redline.backends.llamacpp import trial
from redline.core.errors import OptionError, RewindError
from redline.core.pace import Fixed
from redline.core.ports import Chunk
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.drafters import ModelDrafter, Ngram, Replay
from redline.engine import Engine, generate
from redline.testing import BackendContract, backend_machine

ROLLBACKS = {
    "recurrent": "snapshot",
    "hybrid": "snapshot",
    "hybrid window": "snapshot",
    "mixed window": "truncate",
    "all window": "truncate",
}
CLOSE = 0.05  # keys and values are kept in 16 bits, and the order of sums differs by width


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Shape's name → its backend, loaded once."""
    folder, made = tmp_path_factory.mktemp("memories"), {}

    def get(shape):
        if shape not in made:
            made[shape] = llamacpp.load(save(shape, folder / f"{shape}.gguf"), threads=1)
        return made[shape]

    yield get
    for backend in made.values():
        backend.close()


@pytest.fixture(params=ROLLBACKS)
def shape(request):
    return request.param


class TestContract(BackendContract):
    tolerance = CLOSE

    @pytest.fixture
    def backend(self, opened, shape):
        return opened(shape)

    def test_how_it_forgets_is_found_out(self, backend, shape):
        assert backend.traits.rollback == ROLLBACKS[shape]
        assert not backend.traits.trees

    def test_rewinds_again_and_again_within_a_chunk(self, backend):
        tokens = self.tokens(backend, 30)
        expected = self.read(backend, tokens)
        cache = backend.open()
        backend.extend([Chunk(cache, tokens[:8], "none")])
        backend.extend([Chunk(cache, tokens[8:20], "none")])
        for length in (20, 17, 12, 12, 9, 8, 8):
            cache.rewind(length)
        rows = backend.extend([Chunk(cache, tokens[8:])])[0]
        np.testing.assert_allclose(rows, expected[8:], atol=CLOSE)
        cache.rewind(21)
        np.testing.assert_allclose(backend.extend([Chunk(cache, tokens[21:])])[0], expected[21:], atol=CLOSE)

    def test_a_broken_pass_changes_nothing(self, backend, monkeypatch):
        tokens = self.tokens(backend, 330)
        expected = self.read(backend, tokens)
        cache, other = backend.open(), backend.open()
        backend.extend([Chunk(cache, tokens[:10], "none")])
        backend.extend([Chunk(cache, tokens[10:20], "none")])
        decode, calls = llamacpp.backend.Memory.decode, []

        def breaks(memory, entries):
            calls.append(1)
            rows = decode(memory, entries)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return rows

        monkeypatch.setattr(llamacpp.backend.Memory, "decode", breaks)
        with pytest.raises(KeyboardInterrupt):
            backend.extend([Chunk(cache, tokens[50:60]), Chunk(other, tokens[70:300])])
        monkeypatch.undo()
        assert (cache.length, other.length) == (20, 0)
        cache.rewind(15)  # the state before the last whole chunk has survived too
        np.testing.assert_allclose(backend.extend([Chunk(cache, tokens[15:])])[0], expected[15:], atol=CLOSE)
        np.testing.assert_allclose(backend.extend([Chunk(other, tokens[:9])])[0], expected[:9], atol=CLOSE)
        cache.close()
        other.close()


def test_any_history_equals_reading_from_scratch(opened, shape):
    case = backend_machine(lambda: opened(shape), most_tokens=40, tolerance=CLOSE)
    case.settings = hypothesis.settings(max_examples=12, stateful_step_count=15, deadline=None)
    case("runTest").runTest()


def test_a_text_that_grows_keeps_what_its_window_has_left(opened, shape):
    """Larger memories take over the cells outside the window too: a rewind makes them matter again."""
    backend = opened(shape)
    tokens = [i * 7 % 250 for i in range(700)]
    cache, fresh = backend.open(), backend.open()
    for at in range(0, 700, 100):  # past 256 and 512 cells
        backend.extend([Chunk(cache, tokens[at : at + 100], "none")])
    length = 80 if backend.traits.rollback == "truncate" else 603
    cache.rewind(length)
    backend.extend([Chunk(fresh, tokens[:length], "none")])
    rows = [backend.extend([Chunk(text, [9, 10, 11])])[0] for text in (cache, fresh)]
    np.testing.assert_allclose(*rows, atol=CLOSE)
    if backend.traits.rollback == "snapshot":
        with pytest.raises(RewindError, match="remembers no state before"):
            cache.rewind(80)
    cache.close()
    fresh.close()


def write(target, prompt, drafter=None, limits=40, sampling=None):
    engine = Engine(target, drafter, pace=lambda: Fixed(4), prefill=50, keep=0)
    try:
        return generate(engine, prompt, sampling, Limits(limits, stop_tokens=frozenset()), seed=3)
    finally:
        engine.close()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8)])
@pytest.mark.parametrize("length", [3, 60, 240])
def test_speculation_writes_what_plain_decoding_writes(opened, shape, length, sampling):
    """Across the window's edge, and at 240 across a memory's: 40 more tokens need a larger one."""
    target = opened(shape)
    prompt = [i * i % 90 for i in range(length)]
    plain = write(target, prompt, sampling=sampling)
    assert len(plain.tokens) == 40
    text, width = [*prompt, *plain.tokens], target.traits.vocab_size
    half = [Replay([text], width, script=lambda at, n=n: (n, 4 - n)) for n in range(5)]
    for drafter in (Ngram(), *half):
        assert write(target, prompt, drafter, sampling=sampling).tokens == plain.tokens


def test_a_model_that_forgets_by_snapshots_cannot_draft(opened):
    with pytest.raises(OptionError, match="recurrent cannot forget refused guesses, so it cannot draft"):
        ModelDrafter(opened("recurrent"), opened("mixed window"))
    drafter = ModelDrafter(opened("all window"), opened("recurrent"))
    plain = write(opened("recurrent"), [1, 2, 3])
    assert write(opened("recurrent"), [1, 2, 3], drafter).tokens == plain.tokens


def test_a_model_that_cannot_forget_decodes_plainly(tmp_path, monkeypatch, opened):
    monkeypatch.setattr(trial.Memory, "back", lambda memory, sequence, position, state: False)
    target = llamacpp.load(save("recurrent", tmp_path / "never.gguf"), threads=1, exact=False)
    assert target.traits.rollback == "none"
    with pytest.raises(OptionError, match="never cannot forget refused guesses, so it cannot speculate"):
        Engine(target, Ngram())
    assert write(target, [1, 2, 3]).tokens == write(opened("recurrent"), [1, 2, 3]).tokens
    cache = target.open()
    target.extend([Chunk(cache, [1, 2, 3])])
    with pytest.raises(RewindError, match="cannot forget"):
        cache.rewind(2)
    target.close()


@pytest.mark.parametrize("kind", ROLLBACKS)
def test_what_cannot_share_a_memory_says_so(tmp_path, kind):
    why = "cannot keep one line of a tree" if ROLLBACKS[kind] == "snapshot" else "has a sliding window"
    with pytest.raises(OptionError, match=why):
        llamacpp.load(save(kind, tmp_path / "own.gguf"), threads=1, shared=True)


def test_no_memory_begins_with_the_whole_context(opened, shape):
    backend = opened(shape)
    backend._idle.clear()
    cache = backend.open()
    assert cache.memory.shape.cells < CONTEXT
    cache.close()
