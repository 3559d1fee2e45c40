"""Conversions: what is in the new files, when they are made again, and what is left when they fail."""

import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
import small_gguf

from redline import models
from redline.backends import gguf_file
from redline.backends.llamacpp import quantise
from redline.core.errors import ModelError, OptionError, UnknownName
from redline.models import Model
from redline.models.cache import lookup, write_record
from redline.models.convert import adds_nothing, at_hand, convert, converted


@pytest.fixture
def source(cache: Path, tmp_path: Path) -> Path:
    return small_gguf.write(tmp_path / "files" / "My Model.gguf", licence="apache-2.0")


@pytest.fixture
def named(cache: Path) -> str:
    """A model in the cache that has a name and a record, as from a hub."""
    path = small_gguf.write(cache / "small.gguf")
    write_record(
        Model("small", path.stat().st_size, "0" * 64, "MIT", "tiny", "chat", source="hf:a/b/small.gguf")
    )
    return "small"


@pytest.fixture
def made(monkeypatch) -> list[str]:
    """The precisions that the quantiser was asked for."""
    calls, real = [], quantise.quantise

    def note(source, target, to, tick):
        calls.append(to)
        real(source, target, to, tick)

    monkeypatch.setattr(quantise, "quantise", note)
    return calls


def left_behind(cache: Path) -> list[str]:
    return [path.name for path in (cache / "partial").iterdir() if path.suffix != ".lock"]


def weights(path: Path) -> dict[str, np.ndarray]:
    """A file's tensors as numbers, by the reference of the gguf package."""
    return {
        name: gguf.quants.dequantize(each.data, gguf.GGMLQuantizationType(each.kind)).ravel()
        if each.kind not in (0, 1)
        else each.data.view(np.float32 if each.kind == 0 else np.float16).astype(np.float32)
        for name, each in gguf_file.read(path).tensors.items()
    }


def kinds(path: Path) -> dict[str, str]:
    return {
        name: gguf.GGMLQuantizationType(each.kind).name
        for name, each in gguf_file.read(path).tensors.items()
        if len(each.shape) > 1
    }


def test_q8_0_rounds_by_at_most_half_a_step(source):
    before, after = weights(source), weights(converted(source, "q8_0"))
    assert before.keys() == after.keys()
    for name, old in before.items():
        if "norm" in name:
            assert np.array_equal(old, after[name])
        elif small_gguf.SHAPES[name][-1] % 32 == 0:
            old, new = old.reshape(-1, 32), after[name].reshape(-1, 32)
            step = np.abs(old).max(axis=1, keepdims=True) / 127
            assert (np.abs(old - new) <= 0.57 * step).all()  # and the step itself is rounded to float16


def test_f16_and_f32_are_what_numpy_makes(source):
    before = weights(source)
    half = converted(source, "f16")
    for name, after in weights(half).items():
        expected = before[name] if "norm" in name else before[name].astype(np.float16).astype(np.float32)
        assert np.array_equal(after, expected)
    again = weights(converted(half, "f32"))
    assert all(np.array_equal(after, again[name]) for name, after in weights(half).items())


def test_q4_0_is_all_matrices_and_rows_that_do_not_fit_are_wider(source):
    wide = kinds(converted(source, "q4_0"))
    assert wide.pop("blk.0.ffn_down.weight") == "F16"
    assert set(wide.values()) == {"Q4_0"}
    assert kinds(converted(source, "q4_k_m"))["output.weight"] == "Q6_K"


@pytest.mark.parametrize("to", quantise.PRECISIONS)
def test_every_precision_is_made_and_recognised(source, to, monkeypatch):
    seen = []
    path = converted(source, to, progress=lambda *event: seen.append(event))
    estimate = quantise.estimate(gguf_file.read(source), to)
    assert 0.9 < path.stat().st_size / estimate < 1.1
    assert converted(path, to) == at_hand(path, to) == path
    if to == "f32":
        assert path == source
        return
    assert all(done <= total for done, total, _ in seen)
    assert seen[-1][2] == "checking"


def test_a_known_model_gets_a_known_conversion(named, cache):
    path = convert("Small", "Q4_0")
    assert path == cache / "small-q4_0.gguf"
    assert models.find("Small-Q4_0") == models.verify("small-q4_0") == models.pull("small-q4_0") == path
    model = lookup("small-q4_0")
    assert (model.licence, model.kind, model.source) == ("MIT", "chat", "")
    assert model.about == "small as q4_0"
    assert model.size_bytes == path.stat().st_size
    assert converted(cache / "small.gguf", "q4_0") == path
    assert convert("small-q4_0", "f16").name == "small-q4_0-f16.gguf"
    assert left_behind(cache) == []


def test_a_cache_of_links_keeps_its_names(named, cache, tmp_path):
    (cache / "small.gguf").rename(tmp_path / "elsewhere.gguf")
    (cache / "small.gguf").symlink_to(tmp_path / "elsewhere.gguf")
    assert convert("small", "q4_0").name == "small-q4_0.gguf"


def test_files_of_one_name_in_two_folders_are_two_models(cache, tmp_path, source):
    one, two = (small_gguf.write(tmp_path / each / "model.gguf", seed=i) for i, each in enumerate("ab"))
    first, second = converted(one, "q8_0"), converted(two, "q8_0")
    assert first != second
    assert first.read_bytes() != second.read_bytes()
    third = convert(str(source), "q8_0")
    assert third.name.startswith("my_model-")
    assert lookup(third.stem).licence == "apache-2.0"
    assert models.verify(third.stem) == models.find(third.stem) == third
    assert lookup(third.stem).made_from == str(source)


def test_the_second_time_makes_nothing(named, cache, source, made):
    for path in (cache / "small.gguf", source):
        first = converted(path, "q8_0")
        then = first.stat().st_mtime_ns
        assert converted(path, "q8_0") == convert(str(path), "Q8_0") == at_hand(path, "q8_0") == first
        assert first.stat().st_mtime_ns == then
    assert made == ["q8_0"] * 2
    convert("small", "q8_0", force=True)
    assert made == ["q8_0"] * 3


def test_a_source_that_changed_is_converted_again(source, made):
    old = converted(source, "q8_0").read_bytes()
    small_gguf.write(source, seed=1, licence="apache-2.0")
    assert at_hand(source, "q8_0") is None
    new = converted(source, "q8_0")
    assert new.read_bytes() != old
    models.verify(new.stem)
    assert made == ["q8_0"] * 2


def test_a_conversion_that_was_damaged_or_deleted_is_made_again(named, made):
    path = convert("small", "q8_0")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ModelError, match=r"damaged.*\n.*`redline models convert small --to q8_0`"):
        models.find("small-q8_0")
    assert convert("small", "q8_0").read_bytes() == whole
    path.write_bytes(whole[:-1] + b"x")
    with pytest.raises(ModelError, match=r"`redline models convert --force small --to q8_0`"):
        models.verify("small-q8_0")
    assert convert("small", "q8_0", force=True).read_bytes() == whole
    path.unlink()
    with pytest.raises(OptionError, match="cannot be pulled: it is made here, from small"):
        models.pull("small-q8_0")
    assert convert("small", "q8_0").read_bytes() == whole


def test_two_at_once_make_it_once(source, made):
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: converted(source, "q8_0"), range(2))
    assert one == two
    assert made == ["q8_0"]


def test_the_same_precision_copies_nothing(source, cache):
    assert convert(str(source), "f32", force=True) == converted(source, "f32") == source
    assert models.names() == [name for name in models.names() if "my_model" not in name]


def test_going_up_is_known_to_add_nothing(source):
    small = converted(source, "q4_0")
    assert adds_nothing(small, "f16")
    assert not adds_nothing(source, "f16")


def test_names_that_are_taken_are_not_written_over(named, cache):
    (cache / "small-q4_0.gguf").write_bytes(b"mine")
    with pytest.raises(OptionError, match="small-q4_0 is taken by a file that redline did not make"):
        convert("small", "q4_0")
    write_record(Model("small-q4_0", 4, "0", "", "", "base", source="hf:a/b/small-q4_0.gguf"))
    with pytest.raises(OptionError, match=r"is taken by hf:a/b/small-q4_0\.gguf"):
        convert("small", "q4_0")
    convert("small", "q8_0")
    with pytest.raises(OptionError, match="small-q8_0 is taken by a conversion of small"):
        models.pull("hf:a/b/small-q8_0.gguf")
    assert (cache / "small-q4_0.gguf").read_bytes() == b"mine"


def test_unknown_names(source, cache):
    with pytest.raises(UnknownName, match=r"no precision named 'q4_k'.*\n.*q4_k_m"):
        converted(source, "q4_k")
    with pytest.raises(UnknownName, match="no model named 'smal'"):
        convert("smal", "f16")
    with pytest.raises(ModelError, match="is a folder, and only GGUF files"):
        convert(str(source.parent), "f16")
    with pytest.raises(ModelError, match="There is no file at"):
        converted(source.with_name("none.gguf"), "f16")


@pytest.mark.parametrize("spoil", [lambda data: b"no model", lambda data: data[: len(data) // 2]])
def test_what_is_no_whole_gguf_file_is_refused(source, cache, spoil):
    source.write_bytes(spoil(source.read_bytes()))
    with pytest.raises(ModelError, match=r"is not a GGUF file|is damaged or cut short"):
        converted(source, "f16")


def test_what_llamacpp_does_not_know_is_said_in_its_words(tmp_path, cache):
    path = small_gguf.write(tmp_path / "odd.gguf", arch="nonsense")
    with pytest.raises(ModelError, match=r"cannot convert odd\.gguf to f16: .*nonsense"):
        converted(path, "f16")
    assert list(cache.glob("odd*")) == left_behind(cache) == []


def test_a_crash_of_llamacpp_is_an_error_and_not_ours(source, cache, monkeypatch):
    monkeypatch.setattr(quantise, "_CHILD", "import os; os.abort()")
    with pytest.raises(ModelError, match=r"to f16: it ended with -6\."):
        converted(source, "f16")


def test_without_llamacpp_it_says_how_to_install_it(source, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llama_cpp", None)
    monkeypatch.setattr(quantise, "library", quantise.library.__wrapped__)
    with pytest.raises(OptionError, match="pip install"):
        converted(source, "f16")


def test_a_full_disk_is_seen_beforehand(source, cache, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5))
    with pytest.raises(ModelError, match=r"Converting .* needs 1 MB on the disk of .*\n.*REDLINE_CACHE"):
        converted(source, "f16")
    assert left_behind(cache) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_disk_that_fills_up_is_known_by_its_number(source):
    with pytest.raises(OSError, match="No space") as caught:
        quantise.quantise(source, Path("/dev/full"), "f16", lambda done: None)
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_what_did_not_end(source, cache, monkeypatch, error):
    def stop(source, target, to, tick):
        target.write_bytes(b"half")
        raise error

    with monkeypatch.context() as context:
        context.setattr(quantise, "quantise", stop)
        with pytest.raises((ModelError, KeyboardInterrupt)) as caught:
            converted(source, "f16")
    assert isinstance(error, KeyboardInterrupt) or "is full" in caught.value.message
    assert left_behind(cache) == [*cache.glob("*.gguf")] == [*cache.glob("*.json")] == []
    old = cache / "partial" / f"{converted(source, 'f16').stem}.convert-old"
    old.mkdir()
    os.utime(source)
    converted(source, "f16")
    assert not old.exists()


def test_a_record_of_an_unreadable_origin_is_no_model(named, cache):
    convert("small", "q8_0")
    record = cache / "small-q8_0.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"origin": {"model": "small"}}))
    assert "small-q8_0" not in models.names()


@pytest.mark.parametrize(
    ("kinds", "slow"),
    [((6, 12), False), ((6, 7, 12), True), ((3,), False), ((12, 12, 6), False), ((6, 6, 8), True)],
)
def test_a_file_reads_slowly_where_most_of_its_layers_are_in_5_bits(kinds, slow):
    """The embedding, which is 5 bits in all of them, and the norms do not count."""
    data = np.zeros(100, np.uint8)
    tensors = {
        f"blk.{i}.ffn_up.weight": gguf_file.Stored((8, 32), kind, data) for i, kind in enumerate(kinds)
    }
    tensors["token_embd.weight"] = gguf_file.Stored((8, 32), 6, np.zeros(1000, np.uint8))
    tensors["blk.0.attn_norm.weight"] = gguf_file.Stored((32,), 6, np.zeros(1000, np.uint8))
    assert quantise.reads_slowly(gguf_file.GGUFFile(Path("x.gguf"), {}, tensors)) == slow
