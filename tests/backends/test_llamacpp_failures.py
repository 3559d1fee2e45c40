"""llama.cpp fails well: one sentence and a hint, nothing printed, nothing changed, nothing crashed."""

import logging
import sys

import numpy as np
import pytest
from tiny_gguf import LABELS, TYPES, save

from redline.backends import llamacpp
from redline.backends.llamacpp import model as model_module
from redline.backends.llamacpp.library import library
from redline.core.errors import ContextError, ModelError, OptionError
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


def refused(path, match, error=ModelError, **options):
    with pytest.raises(error, match=match) as raised:
        llamacpp.load(path, **{"threads": 1, **options})
    assert raised.value.hint
    return raised.value


class TestFiles:
    @pytest.mark.parametrize(
        ("data", "match"),
        [
            (b"", "is empty"),
            (b"PK\x03\x04 and more", "is not a GGUF file"),
            (b"GGUF", "header cannot be read"),
            (b"GGUF\x09\x00\x00\x00" + bytes(16), "version 9"),
        ],
    )
    def test_no_gguf(self, tmp_path, data, match):
        (tmp_path / "odd.gguf").write_bytes(data)
        refused(tmp_path / "odd.gguf", match)

    @pytest.mark.parametrize("part", [0.001, 0.01, 0.05, 0.2, 0.5, 0.999])
    def test_cut_short(self, tmp_path, path, part):
        data = path.read_bytes()
        (tmp_path / "cut.gguf").write_bytes(data[: int(len(data) * part)])
        refused(tmp_path / "cut.gguf", "damaged or cut short")

    def test_missing_and_folders(self, tmp_path):
        refused(tmp_path / "none.gguf", "cannot be read: No such file")
        refused(tmp_path, "is a folder, and llama.cpp reads GGUF files")

    @pytest.mark.parametrize(
        ("meta", "tokenizer", "match"),
        [
            ({"architecture": "quux"}, {}, r"cannot load odd.gguf: .*unknown model architecture: 'quux'"),
            ({"context_length": None}, {}, "cannot load odd.gguf: .*context_length"),
            ({"embedding_length": 64}, {}, "cannot load odd.gguf: .*wrong shape"),
            ({"block_count": 0}, {}, "says that it has 0 layers"),
            ({"attention.causal": False}, {}, "reads texts in both directions"),
            ({"architecture": "llada"}, {}, "is not a model that writes on"),
            ({}, {"tokens": None}, "has no vocabulary"),
            ({}, {"model": "no_vocab"}, "has no vocabulary"),
            ({}, {"tokens": ["a", *LABELS[1:]]}, "the same token twice"),
            ({}, {"token_type": TYPES[:9]}, "288 tokens, and 9 entries in token_type"),
            ({}, {"model": "quux"}, "cannot load odd.gguf: .*unknown tokenizer: 'quux'"),
        ],
    )
    def test_odd_models(self, tmp_path, meta, tokenizer, match):
        refused(save("llama", tmp_path / "odd.gguf", meta, tokenizer), match)

    def test_a_tensor_is_missing(self, tmp_path):
        file = save("llama", tmp_path / "odd.gguf", drop=["blk.1.attn_k.weight"])
        refused(file, "cannot load odd.gguf: tensor 'blk.1.attn_k.weight' not found")

    @pytest.mark.parametrize("meta", [{"attention.causal": False}, {}])
    def test_an_encoder(self, tmp_path, meta):
        refused(save("encoder", tmp_path / "bert.gguf", meta), "both directions|keeps no memory")


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "match", "error"),
        [
            ({"context": 1025}, "A context of 1025 was asked for, and the model has 1024", ContextError),
            ({"context": 0}, "A context of 0", ContextError),
            ({"threads": 0}, "threads is 0", OptionError),
            ({"threads": 9999}, "threads is 9999", OptionError),
            ({"threads": True}, "threads is True", OptionError),
            ({"gpu_layers": -1}, "gpu_layers is -1", OptionError),
        ],
    )
    def test_out_of_range(self, path, options, match, error):
        refused(path, match, error, **options)

    def test_layers_without_a_gpu(self, path, monkeypatch):
        monkeypatch.setattr(library(), "llama_supports_gpu_offload", lambda: False)
        error = refused(path, "2 layers cannot go to a GPU", OptionError, gpu_layers=2)
        assert "--gpu-layers" in error.hint
        llamacpp.load(path, threads=1, gpu_layers=0, exact=False).close()

    def test_a_short_context_holds(self, path):
        backend = llamacpp.load(path, threads=1, context=7, exact=False)
        cache = backend.open()
        backend.extend([Chunk(cache, [1] * 7)])
        with pytest.raises(ContextError, match="7 \\+ 1 tokens do not fit"):
            backend.extend([Chunk(cache, [1])])
        backend.close()


class TestMemory:
    def test_too_little_for_the_weights(self, path, monkeypatch):
        monkeypatch.setattr(model_module, "free_memory", lambda: 1000)
        refused(path, r"tiny.gguf needs 0.1 MB of memory, and 0.0 MB are free")

    def test_all_parts_of_a_model_count(self, tmp_path, path, monkeypatch):
        size = path.stat().st_size
        for i in (1, 2, 3):
            (tmp_path / f"big-0000{i}-of-00003.gguf").write_bytes(path.read_bytes())
        monkeypatch.setattr(model_module, "free_memory", lambda: 2 * size)
        refused(tmp_path / "big-00001-of-00003.gguf", "needs")

    def test_too_little_for_a_text(self, backend, monkeypatch):
        cache = backend.open()
        before = backend.extend([Chunk(cache, [5, 6])])[0]
        monkeypatch.setattr(model_module, "free_memory", lambda: 30_000)
        with pytest.raises(ModelError, match=r"A text of \d+ tokens needs .* are free"):
            backend.extend([Chunk(cache, [7] * 600)])
        assert cache.length == 2
        cache.rewind(0)
        np.testing.assert_allclose(backend.extend([Chunk(cache, [5, 6])])[0], before, atol=0.01)

    def test_no_context_to_be_had(self, path, backend, monkeypatch):
        monkeypatch.setattr(library(), "llama_init_from_model", lambda model, params: None)
        with pytest.raises(ModelError, match=r"llama.cpp has no memory for \d+ tokens"):
            backend.extend([Chunk(opened(backend), [7] * 600)])
        refused(path, "has no memory for 256 tokens")

    def test_what_is_free_is_known_here(self):
        assert model_module.free_memory() > 1e6


def opened(backend):
    cache = backend.open() if not backend._caches else next(iter(backend._caches))
    cache.kept = cache  # a cycle: until the garbage collector runs, it stays
    return cache


class TestTheExtra:
    @pytest.fixture(autouse=True)
    def first_use(self):
        library()
        library.cache_clear()
        yield
        library.cache_clear()

    def test_missing(self, path, monkeypatch):
        monkeypatch.setitem(sys.modules, "llama_cpp", None)
        error = refused(path, "llama.cpp is not installed here", OptionError)
        assert error.hint == "Install it: pip install 'redline[llama]'"
        assert not llamacpp.is_installed()

    @pytest.mark.parametrize(
        "fault",
        [
            RuntimeError("Failed to load shared library 'libllama.so'."),
            FileNotFoundError("Shared library with base name 'llama' not found"),
            ModuleNotFoundError("No module named 'diskcache'", name="diskcache"),
        ],
    )
    def test_broken(self, path, monkeypatch, fault):
        class Finder:
            def find_spec(self, name, *_):
                if name == "llama_cpp":
                    raise fault

        monkeypatch.delitem(sys.modules, "llama_cpp")
        monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
        error = refused(path, "does not load: ", OptionError)
        assert ".." not in error.message
        assert "--force-reinstall" in error.hint


def test_messages_go_to_the_log(path, caplog):
    with caplog.at_level(logging.DEBUG, "redline.llamacpp"):
        llamacpp.load(path, threads=1, exact=False).close()
    ours = [record for record in caplog.records if record.name == "redline.llamacpp"]
    assert ours
    assert {record.levelno for record in ours} == {logging.DEBUG}
    assert any("llama_context" in record.message for record in ours)
