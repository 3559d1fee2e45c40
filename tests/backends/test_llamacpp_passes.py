"""llama.cpp's broken passes change nothing, and what is closed or dropped is given back."""

import ctypes
import gc

import numpy as np
import pytest
from tiny_gguf import save

from redline.backends import llamacpp
from redline.backends.llamacpp.library import library
from redline.core.errors import ModelError, RewindError
from redline.core.ports import Chunk


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save("llama", tmp_path_factory.mktemp("failures") / "tiny.gguf")


@pytest.fixture(params=["own", "shared"])
def backend(request, path):
    backend = llamacpp.load(path, threads=1, shared=request.param == "shared", exact=False)
    yield backend
    backend.close()


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd):
    yield
    assert capfd.readouterr() == ("", "")


class TestPasses:
    @pytest.mark.parametrize(
        ("code", "match"),
        [
            (1, "there is no room for the tokens"),
            (2, "the pass was aborted"),
            (-1, "it refused the tokens"),
            (-3, "code -3"),
        ],
    )
    @pytest.mark.parametrize("failing", [1, 2])
    def test_a_failed_pass_changes_nothing(self, backend, monkeypatch, code, match, failing):
        caches = [backend.open(), backend.open()]
        tokens = [[i % 97 for i in range(n)] for n in (600, 40)]
        backend.extend([Chunk(cache, text[:9], "none") for cache, text in zip(caches, tokens, strict=True)])
        decode, calls = library().llama_decode, []

        def fails(context, batch):
            calls.append(1)
            return code if len(calls) == failing else decode(context, batch)

        monkeypatch.setattr(library(), "llama_decode", fails)
        with pytest.raises(ModelError, match=match) as raised:
            backend.extend([Chunk(cache, text[9:]) for cache, text in zip(caches, tokens, strict=True)])
        assert raised.value.hint
        monkeypatch.undo()
        assert [cache.length for cache in caches] == [9, 9]
        for cache, text in zip(caches, tokens, strict=True):
            fresh = backend.open()
            expected = backend.extend([Chunk(fresh, text[:20])])[0][9:]
            np.testing.assert_allclose(backend.extend([Chunk(cache, text[9:20])])[0], expected, atol=0.05)

    def test_a_failed_tree_leaves_no_branches(self, path, monkeypatch):
        backend = llamacpp.load(path, threads=1, shared=True)
        cache = backend.open()
        backend.extend([Chunk(cache, [1, 2, 3], "none")])
        free = len(backend._free)
        monkeypatch.setattr(library(), "llama_decode", lambda context, batch: -3)
        with pytest.raises(ModelError, match="code -3"):
            backend.extend([Chunk(cache, [4, 5, 6], "all", [-1, 0, 0])])
        monkeypatch.undo()
        assert (len(backend._free), cache.lines) == (free, [])
        backend.extend([Chunk(cache, [4, 5, 6], "all", [-1, 0, 0])])
        backend.close()

    def test_rows_that_do_not_come(self, backend, monkeypatch):
        monkeypatch.setattr(library(), "llama_get_logits", lambda context: ctypes.POINTER(ctypes.c_float)())
        with pytest.raises(ModelError, match="gave no logits"):
            backend.extend([Chunk(backend.open(), [1])])

    @pytest.mark.parametrize("name", ["llama_state_get_data", "llama_state_set_data"])
    def test_a_text_that_cannot_move(self, backend, monkeypatch, name):
        cache = backend.open()
        expected = backend.extend([Chunk(cache, [1, 2, 3])])[0]
        monkeypatch.setattr(library(), name, lambda *arguments: 0)
        with pytest.raises(ModelError, match=r"cannot (save|restore) its texts"):
            backend.extend([Chunk(cache, [4] * 600)])
        monkeypatch.undo()
        cache.rewind(0)
        np.testing.assert_allclose(backend.extend([Chunk(cache, [1, 2, 3])])[0], expected, atol=0.01)

    def test_a_state_that_does_not_come_back(self, tmp_path, monkeypatch):
        backend = llamacpp.load(save("recurrent", tmp_path / "recurrent.gguf"), threads=1, exact=False)
        cache = backend.open()
        backend.extend([Chunk(cache, [1, 2, 3], "none")])
        backend.extend([Chunk(cache, [4, 5, 6], "none")])
        monkeypatch.setattr(library(), "llama_state_seq_set_data_ext", lambda *arguments: 0)
        with pytest.raises(ModelError, match="cannot restore a text"):
            cache.rewind(4)
        assert cache.closed
        monkeypatch.undo()
        backend.extend([Chunk(backend.open(), [1, 2, 3])])
        backend.close()


class TestClosing:
    def test_use_after_close(self, backend):
        cache, other = backend.open(), backend.open()
        backend.extend([Chunk(cache, [1, 2, 3])])
        other.close()
        other.close()
        backend.close()
        backend.close()
        assert cache.closed
        for use in (backend.open, lambda: backend.extend([Chunk(cache, [1])])):
            with pytest.raises(ValueError, match="is closed"):
                use()
        with pytest.raises(RewindError, match="closed"):
            cache.rewind(0)
        cache.close()

    def test_a_cache_that_is_dropped(self, backend):
        memories, free = len(backend._memories), len(backend._free)
        for i in range(20):
            cache = backend.open()
            backend.extend([Chunk(cache, [i, 2, 3], "none")])
            if backend.traits.trees:
                backend.extend([Chunk(cache, [4, 5], "all", [-1, -1])])
        del cache
        kept = backend.open()
        assert len(backend._memories) <= memories + 1
        assert len(backend._free) >= free - 1 or not backend.traits.trees
        backend.extend([Chunk(kept, [1, 2, 3])])

    def test_a_backend_that_is_dropped(self, path, monkeypatch):
        freed = []
        for name in ("llama_free", "llama_model_free"):
            free = getattr(library(), name)
            monkeypatch.setattr(
                library(), name, lambda handle, free=free, name=name: (freed.append(name), free(handle))
            )
        backend = llamacpp.load(path, threads=1, exact=False)
        cache = backend.open()
        backend.extend([Chunk(cache, [1])])
        freed.clear()
        backend.me = backend
        del backend, cache
        gc.collect()
        assert freed == ["llama_free", "llama_model_free"]


def test_ours_is_the_only_copy_of_the_rows(backend):
    cache = backend.open()
    rows = backend.extend([Chunk(cache, [1, 2, 3], "last")])[0]
    assert rows.shape == (1, backend.traits.vocab_size)
    assert rows.base is None or rows.base.nbytes == rows.nbytes
