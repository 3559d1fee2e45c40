"""Files that are either the old one or the whole new one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from redline.core.errors import OptionError, RedlineError


def check_place(path: Path, option: str) -> None:
    """Find out before hours of work whether a file can be written there.

    Raises:
        OptionError: Its folder does not exist, or it is a folder itself.
    """
    if not path.parent.is_dir():
        raise OptionError(f"The folder {path.parent} does not exist.", f"Name another file for {option}.")
    if path.is_dir():
        raise OptionError(f"{path} is a folder.", f"Name a file for {option}.")


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a text file; an existing one is replaced only once the new one is whole.

    Raises:
        RedlineError: The file cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    text = "".join(lines)  # made first: what cannot be made leaves no file behind
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise RedlineError(f"Cannot write {path}: {error.strerror}.", "Name another file.") from error
