"""Files that cannot be run are refused in one sentence and a hint, whatever is wrong with them."""

import contextlib
import json
import shutil
from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_models import make_reference, save_gguf

from redline import backends
from redline.backends.gguf_file import read, weights_type
from redline.backends.native import kernels
from redline.core.errors import ContextError, ModelError, OptionError
from redline.core.ports import Chunk


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return save_gguf(make_reference("llama"), tmp_path_factory.mktemp("gguf") / "good.gguf")


@pytest.fixture
def folder(tiny, tmp_path):
    return shutil.copytree(tiny("llama"), tmp_path / "model")


def refused(path, match, **options):
    with pytest.raises(ModelError, match=match) as caught:
        backends.open(path, backend="native", **options)
    assert caught.value.hint


def edited(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_no_such_file(tmp_path):
    refused(tmp_path / "absent.gguf", "There is no")


def test_another_kind_of_file(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"x")
    refused(path, "neither a .gguf file nor a model folder")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"GGML and more", "not a GGUF file"),
        (b"GG", "not a GGUF file"),
        (b"GGUF\1\0\0\0", "version 1"),
    ],
)
def test_no_gguf(tmp_path, content, match):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    refused(path, match)


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0.0, 0.999))
def test_every_cut_is_noticed(good, tmp_path_factory, share):
    data = good.read_bytes()
    path = tmp_path_factory.mktemp("cut") / "cut.gguf"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelError):
        backends.open(path, backend="native")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_header_is_an_error_or_a_header(good, tmp_path_factory, data):
    content = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, 9000))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("bad") / "bad.gguf"
    path.write_bytes(content)
    with contextlib.suppress(ModelError):
        read(path)


def test_the_header_is_what_the_gguf_package_reads(good):
    ours, theirs = read(good), gguf.GGUFReader(good)
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            assert ours.metadata[key] == field.contents()
    for tensor in theirs.tensors:
        stored = ours.tensors[tensor.name]
        assert stored.shape == tuple(int(n) for n in tensor.shape)[::-1]
        assert stored.data.tobytes() == tensor.data.tobytes()


def with_metadata(path, change, arch="llama"):
    """A GGUF file of metadata alone."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(48)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda w: w.add_expert_count(8), "mixture of experts"),
        (lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN), "'yarn'"),
        (lambda w: w.add_rope_dimension_count(8), "rotates 8 of 16"),
        (lambda w: w.add_sliding_window(16), "sliding window of 16"),
        (lambda w: w.add_key_length(15), "shape"),
        (lambda w: w.add_value_length(8), "shape"),
        (lambda w: w.add_head_count_kv(3), "shape"),
        (lambda w: w.add_head_count([2, 2]), "different shapes"),
    ],
)
def test_variants_are_refused_by_name(tmp_path, change, match):
    path = tmp_path / "model.gguf"

    def add(writer):
        change(writer)
        writer.add_tensor("token_embd.weight", torch.zeros(10, 32).numpy())

    refused(with_metadata(path, add), match)


def test_other_architectures_are_refused_by_name(tmp_path):
    refused(with_metadata(tmp_path / "m.gguf", lambda writer: None, arch="gemma2"), "'gemma2'")


def test_missing_metadata_is_named(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    refused(tmp_path / "m.gguf", r"qwen2\.attention\.head_count")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel"),
        ({"architectures": None}, "unknown"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "'yarn'"),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "rotates",
        ),
        ({"sliding_window": 100}, "sliding window of 100"),
        ({"num_attention_heads": "many"}, "lacks a usable"),
        ({"num_hidden_layers": 4}, "has no tensor blk.3"),
        ({"num_hidden_layers": 2}, "tensors that a llama model does not use"),
        ({"vocab_size": 300}, r"in shape \(288, 36\)"),
    ],
)
def test_folders_are_refused_by_name(folder, changes, match):
    refused(edited(folder, **changes), match)


def test_within_its_window_a_sliding_model_is_an_ordinary_one(folder):
    assert backends.open(edited(folder, sliding_window=100), context=100).traits.context == 100
    assert backends.open(edited(folder, use_sliding_window=False)).traits.context == 256


def test_incomplete_folders(folder):
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    for name, match in (("tokenizer.json", "tokenizer.json"), ("model.safetensors", "no .safetensors file")):
        (folder / name).rename(folder / "aside")
        refused(folder, match)
        (folder / "aside").rename(folder / name)
    whole = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text("{")
    refused(folder, "tokenizer.json is damaged")
    (folder / "tokenizer.json").write_text(whole)
    (folder / "model.safetensors").write_bytes(b"not safetensors at all")
    refused(folder, "cannot be read")
    (folder / "model.safetensors.index.json").write_text("[]")
    refused(folder, "index.json is damaged")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "missing.safetensors"}}')
    refused(folder, "cannot be read")
    (folder / "model.safetensors.index.json").unlink()
    save_file({**tensors, "model.extra.weight": torch.zeros(1)}, folder / "model.safetensors")
    refused(folder, r"model\.extra\.weight for one")
    (folder / "config.json").unlink()
    refused(folder, "no readable config.json")


def test_old_checkpoints_store_rotary_frequencies_which_are_ignored(folder):
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(2)
    save_file(tensors, folder / "model.safetensors")
    assert backends.open(folder).traits.vocab_size == 288


def test_unknown_tensor_types_are_refused(good, tmp_path):
    content = bytearray(good.read_bytes())
    name = b"output_norm.weight"
    at = content.index(name) + len(name) + 4 + 8
    content[at : at + 4] = (250).to_bytes(4, "little")
    path = tmp_path / "odd.gguf"
    path.write_bytes(content)
    refused(path, "type 250")


def test_quantisations_that_gguf_cannot_undo_are_refused(good, tmp_path):
    content = bytearray(good.read_bytes())
    name = b"output_norm.weight"
    at = content.index(name) + len(name) + 4 + 8
    content[at : at + 4] = int(gguf.GGMLQuantizationType.I32).to_bytes(4, "little")
    path = tmp_path / "odd.gguf"
    path.write_bytes(content)
    refused(path, "cannot undo")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"threads": 0}, OptionError),
        ({"precision": "int8"}, OptionError),
        ({"device": "abacus"}, OptionError),
        ({"context": 257}, ContextError),
        ({"context": 0}, ContextError),
    ],
)
def test_options_that_cannot_be_honoured(good, options, error):
    with pytest.raises(error) as caught:
        backends.open(good, **options)
    assert caught.value.hint


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_cuda_is_named(good):
    with pytest.raises(OptionError, match="no CUDA device"):
        backends.open(good, device="cuda")


def test_options_are_honoured(good):
    threads = torch.get_num_threads()
    try:
        backend = backends.open(good, threads=1, context=100, device="cpu")
        assert torch.get_num_threads() == 1
        assert (backend.traits.context, backend.traits.device) == (100, "cpu")
        assert backends.open(good, precision="float32").traits.dtype == "float32"
        half = backends.open(good, precision="bfloat16")
        assert half.traits.dtype == "bfloat16"
        assert half.extend([Chunk(half.open(), [1, 2, 3])])[0].shape == (3, 288)
    finally:
        torch.set_num_threads(threads)


@pytest.fixture
def no_kernels(monkeypatch):
    """As where redline was installed without a C compiler."""
    monkeypatch.setattr(kernels.c, "is_built", lambda: False)


def test_without_kernels_that_is_said(good, no_kernels, caplog):
    with pytest.raises(OptionError, match="Only redline's kernels keep") as caught:
        backends.open(good, precision="file")
    assert "C compiler" in caught.value.hint
    assert not caplog.messages
    assert backends.open(good, device="cpu").traits.dtype == "float32"
    (said,) = caplog.messages
    assert said.startswith("Weights are held in float32")
    assert "C compiler" in said


@pytest.mark.parametrize("content", [b"", b"no library at all"])
def test_a_damaged_library_is_as_good_as_none(good, tmp_path, monkeypatch, caplog, content):
    (tmp_path / "_kernels.so").write_bytes(content)
    monkeypatch.setattr(kernels.c, "_HERE", tmp_path)
    kernels.c.load.cache_clear()
    try:
        assert backends.open(good, device="cpu").traits.dtype == "float32"
    finally:
        kernels.c.load.cache_clear()
    assert ["install redline again" in message for message in caplog.messages] == [True]


@pytest.mark.parametrize(("variant", "said"), [("none", "REDLINE_KERNELS is none."), ("portable", None)])
def test_the_environment_chooses_the_kernels(good, variant, said, monkeypatch, caplog):
    if variant == "portable" and not kernels.c.is_built():
        pytest.skip("the kernels were not built: no C compiler")
    monkeypatch.setenv(kernels.VARIANT, variant)
    assert (backends.open(good, device="cpu").attention == "kernels") == (said is None)
    assert [said in message for message in caplog.messages] == ([] if said is None else [True])


def test_a_processor_with_neither_avx2_nor_neon_is_better_off_with_floats(good, monkeypatch, caplog):
    only = [each for each in kernels.variants() if each[1] == "portable"]
    monkeypatch.setattr(kernels, "variants", lambda: iter(only))
    backend = backends.open(good, device="cpu")
    assert backend.traits.dtype == "float32"
    assert "neither AVX2 nor NEON" in caplog.text
    assert backends.open(good, precision="file").attention == "kernels"


@pytest.mark.skipif(kernels.find() is None, reason="the kernels were not built: no C compiler")
def test_a_files_own_numbers_and_the_same_in_float32(good):
    own, plain = backends.open(good, precision="file"), backends.open(good, precision="float32")
    assert own.traits.dtype == weights_type(read(good))
    assert own.traits.row_invariant
    assert own.attention == "kernels"
    tokens = list(range(40))
    one, other = (backend.extend([Chunk(backend.open(), tokens)])[0] for backend in (own, plain))
    np.testing.assert_allclose(one, other, atol=2e-5 * np.abs(other).max())


def test_only_a_file_has_numbers_of_its_own(tiny):
    with pytest.raises(OptionError, match="no numbers of its own"):
        backends.open(tiny("llama"), precision="file")


def test_a_file_that_does_not_name_its_precision(good):
    file = read(good)
    assert weights_type(replace(file, metadata={})) in gguf.GGMLQuantizationType.__members__
    assert weights_type(replace(file, metadata={"general.file_type": 15})) == "Q4_K_M"
    assert weights_type(replace(file, metadata={"general.file_type": 0})) == "F32"


def test_pages_that_were_given_back_are_read_again(good):
    file = read(good)
    before = {name: stored.data.tobytes() for name, stored in file.tensors.items()}
    for stored in file.tensors.values():
        file.release(stored)
    assert {name: stored.data.tobytes() for name, stored in file.tensors.items()} == before
