"""Models from a hub, with a folder in its place."""

import shutil
from pathlib import Path

import huggingface_hub
import pytest

from redline import models
from redline.core.errors import ModelError, OptionError
from redline.models import hub

SOURCE = "hf:owner/repo/sub/Tiny.Q4_K_M.gguf"


@pytest.fixture
def repo(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the downloader takes for the hub; the model's file is in it."""
    root = tmp_path / "hub"

    def download(repo: str, file: str, *, local_dir: Path) -> str:
        target = local_dir / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / repo / file, target)
        return str(target)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    path = root / "owner" / "repo" / "sub" / "Tiny.Q4_K_M.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"tiny model")
    return path


def test_a_pulled_file_gets_a_name_and_a_record(repo, cache):
    path = models.pull(SOURCE)
    assert path == cache / "tiny.q4_k_m.gguf"
    assert path.read_bytes() == b"tiny model"
    assert models.names()[-1] == "tiny.q4_k_m"
    for name in ("tiny.q4_k_m", "Tiny.Q4_K_M", SOURCE):
        assert models.find(name) == models.verify(name) == path
    assert [file.name for file in (cache / "partial").iterdir() if file.suffix != ".lock"] == []


def test_it_is_fetched_again_only_when_needed(repo):
    path = models.pull(SOURCE)
    repo.write_bytes(b"newer")
    assert models.pull(SOURCE).read_bytes() == models.pull("tiny.q4_k_m").read_bytes() == b"tiny model"
    path.unlink()
    assert models.pull("tiny.q4_k_m").read_bytes() == b"newer"
    repo.write_bytes(b"newest")
    assert models.pull(SOURCE, force=True).read_bytes() == b"newest"
    models.verify(SOURCE)


def test_later_damage_is_found(repo):
    path = models.pull(SOURCE)
    path.write_bytes(b"tiny modem")
    with pytest.raises(ModelError, match="damaged"):
        models.verify("tiny.q4_k_m")
    path.write_bytes(b"tiny")
    with pytest.raises(ModelError, match="4 bytes instead of 10"):
        models.find(SOURCE)


@pytest.mark.parametrize("record", ["", "[]", '{"name": "x"}', None])
def test_a_record_that_cannot_be_read_is_no_model(repo, cache, record):
    path = models.pull(SOURCE)
    good = path.with_name("tiny.q4_k_m.json").read_text()
    (cache / "other.json").write_text(good if record is None else record)
    assert models.names()[-1] == "tiny.q4_k_m"
    assert "other" not in models.names()


def test_a_source_that_was_not_pulled_says_how(cache):
    with pytest.raises(
        ModelError, match=r"was not pulled yet\.\n.*redline models pull hf:owner/repo/a\.gguf"
    ):
        models.find("hf:owner/repo/a.gguf")


def test_two_sources_cannot_share_a_name(repo):
    models.pull(SOURCE)
    with pytest.raises(OptionError, match="The name tiny.q4_k_m is taken by " + SOURCE):
        models.pull("hf:somebody/else/Tiny.Q4_K_M.gguf")


@pytest.mark.parametrize(
    "source",
    [
        "hf:",
        "hf:owner/file.gguf",
        "hf:owner/repo/",
        "hf:owner/repo/file.bin",
        "hf:owner/repo/../a.gguf",
        "hf:owner/repo/.gguf",
        "hf:owner//a.gguf",
        "hf:owner/repo/..gguf",
    ],
)
def test_a_malformed_source_shows_the_form(cache, source):
    with pytest.raises(OptionError, match=r"hf:owner/repo/file\.gguf"):
        models.pull(source)


def test_the_catalogues_names_are_not_given_away(cache):
    with pytest.raises(OptionError, match="a name that redline's own list has"):
        models.pull("hf:owner/repo/SmolLM2-135M.gguf")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError("No a.gguf found. Read on.\nMore."), "No a.gguf found"), (ValueError(), "ValueError")],
)
def test_a_hub_out_of_reach_is_one_sentence(cache, monkeypatch, error, reason):
    def refuse(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(ModelError) as caught:
        models.pull(SOURCE)
    assert caught.value.message == f"Could not fetch {SOURCE}: {reason}."


def test_the_downloader_has_the_arguments_that_are_used():
    import inspect

    inspect.signature(huggingface_hub.hf_hub_download).bind("owner/repo", "a.gguf", local_dir="x")
    assert hub.parse("hf:owner/repo/a.gguf").repo == "owner/repo"
