"""Where unfinished files are made: one maker at a time, on the disk of the finished ones."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from redline.core.errors import ModelError
from redline.models.cache import folder
from redline.models.catalogue import format_size

Progress = Callable[[int, int, str], None]
"""Called with the bytes done, the bytes in all (0 when unknown), and what is happening."""

FULL = (errno.ENOSPC, errno.EDQUOT)
_ROOM = "Free some space, or set REDLINE_CACHE to a folder on a larger disk."


def workshop() -> Path:
    """The folder for unfinished files: on the same disk as the finished ones, so that a rename is atomic."""
    path = folder() / "partial"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def alone(name: str, report: Progress) -> Iterator[None]:
    """Keep two makers of one file apart; the operating system frees the lock of a process that dies."""
    lock = FileLock(workshop() / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report(0, 0, "waiting for another process")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def check_room(doing: str, need_bytes: int) -> None:
    """Refuse to begin what cannot end.

    Args:
        doing: What needs the room, such as "Pulling qwen2.5-coder-0.5b".
        need_bytes: How much of it.

    Raises:
        ModelError: The disk of the cache has less.
    """
    free = shutil.disk_usage(folder()).free
    if free < need_bytes:
        raise ModelError(
            f"{doing} needs {format_size(need_bytes)} on the disk of {folder()}, "
            f"which has {format_size(free)} free.",
            _ROOM,
        )


@contextmanager
def disk_errors() -> Iterator[None]:
    """Say in one sentence what the disk refused."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise ModelError(
                f"The disk of {folder()} is full; the unfinished file was deleted.", _ROOM
            ) from error
        raise ModelError(
            f"Cannot write to {error.filename or folder()}: {error.strerror or error}.",
            "Mend that, or set REDLINE_CACHE to a folder that can be written.",
        ) from error


def ignore(done: int, total: int, what: str) -> None:
    """Progress that nobody asked for."""
