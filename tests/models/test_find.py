"""Names and paths, and whether the files behind them are whole."""

import errno
from pathlib import Path

import platformdirs
import pytest

from redline import models
from redline.core.errors import ModelError, UnknownName
from redline.models.catalogue import CATALOGUE


def test_the_catalogue_is_complete():
    for name, model in CATALOGUE.items():
        assert name == model.name == name.lower()
        assert len(model.sha256) == 64
        assert model.parts
        assert all("==" in part.package for part in model.parts)
    assert len(CATALOGUE["qwen2.5-coder-1.5b"].parts) == 22
    assert models.DEFAULT in CATALOGUE
    assert models.names() == [*CATALOGUE, *(name for name in models.names() if name not in CATALOGUE)]


def test_the_cache_is_the_users_unless_the_environment_says_otherwise(cache, monkeypatch):
    assert models.folder() == cache
    monkeypatch.setenv("REDLINE_CACHE", "~/elsewhere")
    assert models.folder() == Path.home() / "elsewhere" / "models"
    monkeypatch.setenv("REDLINE_CACHE", "")
    assert models.folder() == Path(platformdirs.user_cache_dir("redline", appauthor=False)) / "models"


def test_a_known_model_that_is_not_here_says_how_to_get_it(cache):
    with pytest.raises(ModelError) as caught:
        models.find("smollm2-135m")
    assert caught.value.hint == "Get it with `redline models pull smollm2-135m` (98 MB)."


@pytest.mark.parametrize("name", ["SmolLM2-135M", "SMOLLM2-135M", "smollm2-135m"])
def test_names_are_found_in_any_case(index, cache, name):
    index.add("smollm2-135m", [b"abc"])
    path = models.pull(name)
    assert models.find(name) == models.verify(name) == path == cache / "smollm2-135m.gguf"


def test_verify_reads_every_byte(index):
    index.add("tiny", [b"abc"])
    path = models.pull("tiny")
    path.write_bytes(b"abd")
    assert models.find("tiny") == path
    with pytest.raises(ModelError, match=r"damaged: its SHA-256 is .*\n.*pull --force tiny"):
        models.verify("tiny")
    assert models.pull("tiny", force=True).read_bytes() == b"abc"


@pytest.mark.parametrize("kind", [str, Path])
def test_files_and_folders_are_themselves(cache, tmp_path, kind):
    file = tmp_path / "My Model.GGUF"
    file.write_bytes(b"GGUF")
    assert models.find(kind(file)) == file
    assert models.find(kind(tmp_path)) == tmp_path


def test_a_known_name_wins_over_a_folder_and_a_path_does_not(index, tmp_path, monkeypatch):
    index.add("tiny", [b"abc"])
    pulled = models.pull("tiny")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert models.find("tiny") == pulled
    assert models.find(Path("tiny")) == Path("tiny")
    assert models.find("./tiny") == Path("tiny")


@pytest.mark.parametrize("path", ["./none", "no/such", "none.gguf", "~/none", Path("none")])
def test_a_path_to_nothing_is_not_taken_for_a_name(cache, path):
    with pytest.raises(ModelError, match="There is no file or folder at"):
        models.find(path)


def test_a_file_of_another_kind_is_refused(cache, tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    with pytest.raises(ModelError, match=r"neither a \.gguf file nor a folder"):
        models.find(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smolm2-135m", "Did you mean smollm2-135m?"),
        ("qwen2.5-coder", "Did you mean qwen2.5-coder-1.5b or qwen2.5-coder-0.5b?"),
        ("", "Known: qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, smollm2-135m."),
    ],
)
@pytest.mark.parametrize("use", [models.find, models.verify, models.pull])
def test_an_unknown_name_suggests_its_neighbours(cache, use, name, hint):
    with pytest.raises(UnknownName) as caught:
        use(name)
    assert caught.value.hint == hint


def test_the_sentence_for_an_unknown_error_of_the_disk_names_the_place(cache, monkeypatch):
    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ModelError, match=r"Cannot write to .*models: Read-only file system\."):
        models.pull("smollm2-135m")


@pytest.mark.model
def test_the_real_default_model_is_right():
    try:
        models.find(models.DEFAULT)
    except ModelError as error:
        pytest.skip(error.message)
    models.verify(models.DEFAULT)
