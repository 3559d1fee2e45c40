"""`redline models convert`: what it prints where, and what the other sub-commands make of its files."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from redline import models
from redline.backends.llamacpp import quantise
from redline.cli.models import app
from redline.core.errors import ModelError, OptionError, RedlineError, UnknownName
from redline.models import convert as conversion


def run(*args: str) -> Result:
    result = CliRunner().invoke(app, args, standalone_mode=False)
    if isinstance(result.exception, RedlineError):
        raise result.exception
    return result


def write(path: Path, dtype: type) -> Path:
    """A GGUF file of one matrix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", np.ones((64, 256), dtype))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in float16, and a quantiser that only writes another matrix."""

    def make(source: Path, target: Path, to: str, tick: object) -> None:
        write(target, np.float32 if to == "f32" else np.float16)
        tick(target.stat().st_size)

    monkeypatch.setenv("REDLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(quantise, "quantise", make)
    return write(tmp_path / "tiny.gguf", np.float16)


def made(source: Path, to: str) -> Path:
    path = conversion.at_hand(source, to)
    assert path
    return path


def test_it_prints_paths_and_nothing_else_on_stdout(source):
    result = run("convert", str(source), "--to", "Q8_0", "--to", "f32")
    assert result.stdout == f"{made(source, 'q8_0')}\n{made(source, 'f32')}\n"
    assert f"Converting {source} to q8_0 ..." in result.stderr
    assert "its SHA-256 is noted" in result.stderr
    assert result.stderr.count("and makes it no more exact") == 1
    again = run("convert", str(source), "--to", "f32")
    assert again.stdout == f"{made(source, 'f32')}\n"
    assert "has not changed since" in again.stderr
    assert "Converting" in run("convert", "--force", str(source), "--to", "f32").stderr


def test_the_same_precision_says_so(source):
    result = run("convert", str(source), "--to", "f16", "--force")
    assert result.stdout == f"{source}\n"
    assert "is in f16 already: nothing to convert." in result.stderr


def test_the_new_file_is_a_model_like_others(source):
    file = run("convert", str(source), "--to", "f32").stdout.strip()
    name = Path(file).stem
    assert run("path", name.upper()).stdout == f"{file}\n"
    (row,) = [row for row in json.loads(run("list", "--json").stdout) if row["name"] == name]
    assert (row["here"], row["about"]) == ("yes", "tiny.gguf as f32")
    assert json.loads(run("verify", name, "--json").stdout)[0]["ok"]
    pulled = run("pull", name)
    assert pulled.stdout == f"{file}\n"
    with pytest.raises(OptionError, match=r"made here, from .*\n.*models convert --force .* --to f32"):
        run("pull", "--force", name)


def test_damage_says_which_command_mends_it(source):
    one, two = (Path(run("convert", str(source), "--to", to).stdout.strip()) for to in ("f32", "q8_0"))
    for file in (one, two):
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match=r"2 of 2 .*\n.*--to f32` and `.*--to q8_0`\."):
        run("verify")
    with pytest.raises(
        ModelError, match=r"`redline models pull --force smollm2-135m` and `redline models conv"
    ):
        run("verify", "smollm2-135m", one.stem)


def test_all_precisions_are_checked_before_the_first_is_made(source):
    with pytest.raises(UnknownName, match=r"no precision named 'q8'.*\n.*q8_0"):
        run("convert", str(source), "--to", "f32", "--to", "q8")
    assert conversion.at_hand(source, "f32") is None


def test_an_interrupted_conversion_exits_with_130(source, monkeypatch):
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(quantise, "quantise", interrupt)
    result = CliRunner().invoke(app, ["convert", str(source), "--to", "f32"])
    assert result.exit_code == 130
    assert "Nothing is left of" in result.stderr
    assert result.stdout == ""
    assert list(models.folder().glob("*.*")) == []


def test_a_terminal_sees_a_bar(source, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    assert "checking" in run("convert", str(source), "--to", "f32").stderr
