"""llama.cpp keeps the contract of backends: with a memory for every text, and with one for all."""

import hypothesis
import numpy as np
import pytest
from tiny_models import make_reference, reference_logits, save_gguf

from redline.backends import llamacpp
from redline.core.errors import RewindError
from redline.core.ports import Chunk
from redline.testing import BackendContract, backend_machine


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory):
    made = {}

    def get(shape="llama 3 rope"):
        if shape not in made:
            folder = tmp_path_factory.mktemp("gguf")
            made[shape] = save_gguf(make_reference(shape), folder / "tiny.gguf")
        return made[shape]

    return get


@pytest.fixture(scope="module", params=[False, True], ids=["own", "shared"])
def tiny_backend(request, tiny_gguf):
    backend = llamacpp.load(tiny_gguf("qwen2"), threads=1, shared=request.param)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def smollm2_llamacpp(smollm2_path):
    backend = llamacpp.load(smollm2_path, threads=1)  # threads wait for each other on a busy machine
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def smollm2_shared(smollm2_path):
    backend = llamacpp.load(smollm2_path, threads=1, shared=True)
    yield backend
    backend.close()


class TestTiny(BackendContract):
    tolerance = 0.01  # keys and values are kept in 16 bits, and the order of their sums may differ

    @pytest.fixture
    def backend(self, tiny_backend):
        return tiny_backend

    def test_it_takes_trees_where_memory_is_shared(self, backend, request):
        assert backend.traits.trees == ("shared" in request.node.callspec.id)


@pytest.mark.model
class TestSmolLM2(BackendContract):
    """Bit for bit, since llama.cpp's arithmetic for its quantisation turns out to be row-invariant."""

    @pytest.fixture
    def backend(self, smollm2_llamacpp):
        return smollm2_llamacpp

    def test_every_width_is_exact(self, backend):
        assert backend.traits.row_invariant
        assert backend.traits.exact_widths == tuple(range(1, 17))

    def test_long_caches_keep_their_bits(self, backend):
        """llama.cpp changes its attention kernel at 512 cells; the way around that must hold."""
        tokens = self.tokens(backend, 720, seed=3)
        one, many = backend.open(), backend.open()
        for cache in (one, many):
            backend.extend([Chunk(cache, tokens[:700], "none")])
        rows = [backend.extend([Chunk(one, [token])])[0] for token in tokens[700:]]
        together = [backend.extend([Chunk(many, tokens[at : at + 5])])[0] for at in range(700, 720, 5)]
        np.testing.assert_array_equal(np.concatenate(rows), np.concatenate(together))


@pytest.mark.model
class TestSmolLM2WithTrees(BackendContract):
    tolerance = 3.0  # activations are rounded to 8 bits: a last bit of attention moves logits by 1 or more

    @pytest.fixture
    def backend(self, smollm2_shared):
        return smollm2_shared


@pytest.mark.parametrize("shared", [False, True])
def test_any_history_equals_reading_from_scratch(tiny_gguf, shared):
    backend = llamacpp.load(tiny_gguf("qwen2"), threads=1, shared=shared)
    case = backend_machine(lambda: backend, most_tokens=150, tolerance=0.01)
    case.settings = hypothesis.settings(max_examples=25, stateful_step_count=20, deadline=None)
    case("runTest").runTest()
    backend.close()


@pytest.mark.parametrize("shape", ["llama", "qwen2", "qwen3", "mistral"])
def test_it_is_the_same_model_as_in_transformers(tiny_gguf, shape):
    backend = llamacpp.load(tiny_gguf(shape), threads=1)
    tokens = list(range(3, 40))
    rows = backend.extend([Chunk(backend.open(), tokens)])[0]
    # llama.cpp keeps keys in 16 bits and values in bf16
    np.testing.assert_allclose(rows, reference_logits(make_reference(shape), tokens), atol=0.02)
    backend.close()


def test_texts_move_into_a_larger_memory_unchanged(tiny_gguf):
    backend = llamacpp.load(tiny_gguf("llama 3 rope"), threads=1)
    first = backend.open()
    backend.extend([Chunk(first, [5, 6, 7], "none")])
    others = [backend.open() for _ in range(5)]  # each time the sequences run out, the memory is made anew
    for i, cache in enumerate(others):
        backend.extend([Chunk(cache, [i + 1] * (i + 2), "none")])
    fresh = backend.open()
    backend.extend([Chunk(fresh, [5, 6, 7], "none")])
    np.testing.assert_array_equal(
        backend.extend([Chunk(first, [8])])[0], backend.extend([Chunk(fresh, [8])])[0]
    )
    backend.close()


def test_a_kept_set_that_is_no_line_is_refused(tiny_gguf):
    backend = llamacpp.load(tiny_gguf("qwen2"), threads=1, shared=True)
    cache = backend.open()
    backend.extend([Chunk(cache, [1, 2, 3], "none")])
    backend.extend([Chunk(cache, [10, 20, 30], "none", [-1, 0, 0])])
    with pytest.raises(RewindError, match="one line"):
        cache.rewind(6)
    with pytest.raises(ValueError, match="still holds a tree"):
        backend.extend([Chunk(cache, [1])])
    cache.rewind(3, [3, 5])
    assert cache.length == 5
    backend.close()


def test_a_rewind_may_reach_behind_a_tree(tiny_gguf):
    backend = llamacpp.load(tiny_gguf("qwen2"), threads=1, shared=True)
    for length, path, text in ((2, (), [1, 2]), (2, (2, 3, 4), [1, 2, 3, 10, 20]), (4, (), [1, 2, 3, 10])):
        cache, fresh = backend.open(), backend.open()
        backend.extend([Chunk(cache, [1, 2, 3], "none")])
        backend.extend([Chunk(cache, [10, 20, 30], "none", [-1, 0, 0])])
        cache.rewind(length, path)
        assert cache.length == len(text)
        backend.extend([Chunk(fresh, text, "none")])
        rows = [backend.extend([Chunk(each, [9, 8])])[0] for each in (cache, fresh)]
        np.testing.assert_allclose(*rows, atol=0.01)
    backend.close()
