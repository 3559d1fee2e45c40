"""The native engine keeps the contract of backends bit for bit, for all architectures and a real model."""

import itertools

import hypothesis
import numpy as np
import pytest
import torch
from tiny_models import SHAPES, make_reference, save_gguf

from redline import backends
from redline.backends.native import kernels
from redline.backends.native.cache import NativeCache
from redline.core.errors import ContextError, RewindError
from redline.core.ports import Chunk
from redline.testing import BackendContract, backend_machine


@pytest.fixture(scope="module")
def opened(tiny):
    made = {}

    def get(shape):
        if shape not in made:
            made[shape] = backends.open(tiny(shape), context=192)
        return made[shape]

    return get


@pytest.fixture(scope="module")
def opened_files(tmp_path_factory):
    place, made = tmp_path_factory.mktemp("files"), {}

    def get(shape):
        if shape not in made:
            file = save_gguf(make_reference(shape), place / f"{shape}.gguf")
            made[shape] = backends.open(file, precision="file", context=192)
        return made[shape]

    return get


class TestTiny(BackendContract):
    chunk_sizes = (1, 2, 3, 5, 8, 16, 24)

    @pytest.fixture(params=SHAPES)
    def backend(self, request, opened):
        return opened(request.param)

    def test_it_is_row_invariant(self, backend):
        """Any machine that runs these tests has oneDNN; without it the engine works and says so."""
        assert backend.traits.row_invariant


@pytest.mark.skipif(kernels.find() is None, reason="the kernels were not built: no C compiler")
class TestTinyInTheKernels(BackendContract):
    """Sizes that are no multiple of anything."""

    chunk_sizes = (1, 2, 3, 5, 8, 16, 24)

    @pytest.fixture(params=[shape for shape in SHAPES if shape != "llama 3 rope"])  # GGUF has it in a tensor
    def backend(self, request, opened_files):
        return opened_files(request.param)

    def test_it_is_row_invariant(self, backend):
        assert backend.attention == "kernels"
        assert backend.traits.row_invariant

    def test_rows_behind_a_refused_guess_are_not_computed(self, backend, monkeypatch):
        model, computed = backend._model, []
        logits = type(model).logits
        monkeypatch.setattr(model, "logits", lambda x, *_: computed.append(len(x)) or logits(model, x))
        tokens, parents = self.tokens(backend, 20), [-1, 0, *[1] * 9, 2, 11, 12, *range(13, 19)]

        def asking(rows, parents=None, texts=1):
            computed.clear()
            chunks = [Chunk(backend.open(), tokens, "all", parents) for _ in range(texts)]
            found = backend.extend_deferred(chunks)[0]
            assert all(found[row].shape == (backend.traits.vocab_size,) for row in rows)
            return list(computed)

        assert asking([0, 1, 2]) == [4]
        assert asking([0, 1, 2, 3, 4]) == [4, 8]
        assert asking(range(20)) == [4, 8, 8]
        assert asking([0, 1, 2, 11], parents) == [4]
        assert asking([0, 1, 5], parents) == [4, 1]  # a second child that has none
        assert asking([0], texts=2) == [40]  # which read the head's weights once

    def test_tokens_that_nobody_reads_are_not_computed(self, backend):
        chunk = Chunk(backend.open(), self.tokens(backend, 4), vocabulary=100)
        assert backend.extend([chunk])[0].shape == (4, 100)


@pytest.mark.model
class TestSmolLM2(BackendContract):
    chunk_sizes = (2, 3, 5, 8, 16, 24)

    @pytest.fixture(params=["smollm2", "smollm2_in_floats"])
    def backend(self, request):
        return request.getfixturevalue(request.param)

    def test_it_is_row_invariant(self, backend):
        assert backend.traits.row_invariant

    def test_long_caches_keep_their_bits(self, backend):
        tokens = self.tokens(backend, 1600, seed=3)
        caches = []
        for size in (1600, 96, 37):
            cache = backend.open()
            for i in range(0, 1560, size):
                backend.extend([Chunk(cache, tokens[i : min(i + size, 1560)], "none")])
            caches.append(cache)
        ways = ([1] * 40, [40], [3, 13, 24])
        rows = []
        for cache, sizes in zip(caches, ways, strict=True):
            found = []
            for size in sizes:
                at = cache.length
                found.append(backend.extend([Chunk(cache, tokens[at : at + size])])[0])
            rows.append(np.concatenate(found))
            assert torch.equal(cache.store[:, :, :, :1600], caches[0].store[:, :, :, :1600])
        np.testing.assert_array_equal(rows[0], rows[1])
        np.testing.assert_array_equal(rows[0], rows[2])


@pytest.mark.skipif(kernels.find() is None, reason="the kernels were not built: no C compiler")
@pytest.mark.parametrize("shape", ["qwen3", "qwen2"])
def test_all_variants_and_threads_give_a_model_the_same_bits(shape, tmp_path, monkeypatch):
    """Attention and what else lies between the products, for chains, trees, and two texts in a pass."""
    file = save_gguf(make_reference(shape), tmp_path / "tiny.gguf")
    tokens = [(i * 37 + 5) % 200 for i in range(60)]
    parents = [-1, 0, 0, 2, 1, 4, -1, 6]
    found = []
    threads = torch.get_num_threads()
    try:
        for (_, name, runs), count in itertools.product(kernels.variants(), (1, 2, 5)):
            if not runs:
                continue
            monkeypatch.setenv(kernels.VARIANT, name)
            backend = backends.open(file, precision="file", context=192)
            torch.set_num_threads(count)
            one, two = backend.open(), backend.open()
            backend.extend([Chunk(one, tokens[:33])])
            chunks = [Chunk(one, tokens[:8], "all", parents), Chunk(two, tokens[20:45])]
            rows = [*backend.extend(chunks), *backend.extend([Chunk(two, tokens[:3])])]
            found.append((name, count, np.concatenate(rows)))
    finally:
        torch.set_num_threads(threads)
    for name, count, rows in found[1:]:
        np.testing.assert_array_equal(rows, found[0][2], err_msg=f"{name}, {count} threads")


def test_any_history_equals_reading_from_scratch(opened):
    case = backend_machine(lambda: opened("qwen3"), most_tokens=150)
    case.settings = hypothesis.settings(max_examples=25, stateful_step_count=20, deadline=None)
    case("runTest").runTest()


def filled(backend, count):
    cache = backend.open()
    backend.extend([Chunk(cache, list(range(count)), "none")])
    return cache


def rows_after(cache, tokens):
    return cache.backend.extend([Chunk(cache, tokens)])[0]


@pytest.mark.parametrize("start", [1, 100, 120])
def test_large_trees_keep_their_bits_across_passes_and_spans(opened, start):
    backend = opened("qwen2")
    rng = np.random.default_rng(start)
    nodes = rng.integers(0, 258, 70).tolist()
    parents = [i - 1 if i % 9 else int(rng.integers(-1, i)) if i else -1 for i in range(70)]
    cache = filled(backend, start)
    rows = backend.extend([Chunk(cache, nodes, "all", parents)])[0]
    for leaf in (8, 35, 66, 69):
        line, node = [], leaf
        while node >= 0:
            line.insert(0, node)
            node = parents[node]
        np.testing.assert_array_equal(
            rows[line], rows_after(filled(backend, start), [nodes[i] for i in line])
        )


def test_a_tree_may_be_left_standing_and_grown(opened):
    """New tokens follow the last slot's own line, whatever else is in the cache."""
    backend = opened("llama")
    cache = filled(backend, 6)
    backend.extend([Chunk(cache, [10, 20, 30, 40], "none", [-1, 0, 0, 2])])
    rows = rows_after(cache, [50, 60])
    chain = filled(backend, 6)
    np.testing.assert_array_equal(rows, rows_after(chain, [10, 30, 40, 50, 60])[3:])
    cache.rewind(6, [6, 8, 9, 10, 11])
    assert cache.settled == cache.length == 11
    np.testing.assert_array_equal(rows_after(cache, [70]), rows_after(chain, [70]))


def test_a_rewind_refuses_what_is_no_line(opened):
    cache = filled(opened("llama"), 6)
    cache.backend.extend([Chunk(cache, [10, 20, 30, 40], "none", [-1, 0, 0, 2])])
    for length, path in ((6, [7]), (6, [6, 9]), (3, [5]), (0, [0, 0]), (0, [10]), (11, [])):
        with pytest.raises(RewindError):
            cache.rewind(length, path)
    assert cache.length == 10
    cache.close()
    with pytest.raises(RewindError, match="closed"):
        cache.rewind(0)


def test_a_cache_grows_up_to_the_context_and_not_beyond(opened):
    cache = filled(opened("llama"), 150)
    assert isinstance(cache, NativeCache)
    assert cache.store.shape[3] == 256
    with pytest.raises(ContextError, match=r"150 \+ 43 tokens do not fit model's context of 192"):
        rows_after(cache, [1] * 43)
    assert len(rows_after(cache, [1] * 42)) == 42


def test_nothing_to_read_is_no_pass(opened):
    assert opened("llama").extend([]) == []


def test_a_cache_of_another_backend_is_refused(opened):
    with pytest.raises(ValueError, match="does not belong"):
        opened("llama").extend([Chunk(opened("qwen2").open(), [1])])


def test_a_closed_backend_says_so(tiny):
    backend = backends.open(tiny("llama"))
    backend.close()
    with pytest.raises(ValueError, match="closed"):
        backend.open()
