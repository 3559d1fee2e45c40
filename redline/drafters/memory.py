"""Answers in a folder: for other processes, and for tomorrow."""

from __future__ import annotations

import logging
import os
import re
import struct
from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from filelock import FileLock, Timeout

from redline.core.errors import RedlineError
from redline.core.ports import Tokenizer

MAGIC = b"redline-memory-2"
NAME = "answers-{}.tokens"
PARTIAL = ".partial"
"""What a file is called until it is whole."""
LIMIT_BYTES = 2 << 20
"""Of a file, by default: half a million tokens."""

PATIENCE_S = 2.0
"""How long to wait for another process that has the file; its answers can do without this one."""

BUSY = "another process has them"

_OURS = re.compile(NAME.format("[0-9a-f]{16}").replace(".", r"\.") + rf"(\.lock|\{PARTIAL})?")
_START = len(MAGIC) + 8
"""Where records begin: behind what tells a file from the one whose place it took."""
_MARK = b"\xff\xffRL"
_HEAD = struct.Struct("<4sII")  # the mark, tokens and their checksum; with _USE, an answer's digest as tokens
_USE = 1 << 31
_log = logging.getLogger("redline")


def vocabulary_id(tokenizer: Tokenizer) -> str:
    """A name for what token ids mean: answers of one vocabulary are of no use to another."""
    digest = blake2b(digest_size=8)
    for token in range(tokenizer.size):
        digest.update(tokenizer.label(token).encode(errors="surrogatepass") + b"\0")
    return digest.hexdigest()


class Folder:
    """A file of answers that several processes read and add to.

    It only grows, by records with a mark and a checksum: of what a crash, a full disk or somebody's hand
    damages, only that record is lost. When it is too long, the answers that were used or added last go into a
    new file of half the length, which takes the place of the old one in one step. Everything that is written
    lies in the folder, readable by its owner only; `redline memory FOLDER --clear` removes it.

    Args:
        path: The folder; made if it is not there.
        tokenizer: Whose token ids they are; every vocabulary has a file of its own.
        limit_bytes: Of the file.

    Raises:
        RedlineError: The folder cannot be made or written to.
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, limit_bytes: int = LIMIT_BYTES) -> None:
        self._file, self._limit = path / NAME.format(vocabulary_id(tokenizer)), limit_bytes
        self._size = tokenizer.size
        self._lock = FileLock(f"{self._file}.lock", timeout=PATIENCE_S, mode=0o600)
        self._offset, self._identity = 0, b""
        self._known: set[bytes] = set()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock, _open(self._file):
                pass
        except Timeout:
            self._complain(BUSY)
        except OSError as error:
            raise RedlineError(
                f"{path} cannot keep answers: {error.strerror or error}.", "Name another folder for --memory."
            ) from error

    def news(self) -> list[list[int]]:
        """The answers that were added since the last call, by whomever, oldest first."""
        answers: dict[bytes, list[int]] = {}

        def read(file: BinaryIO) -> None:
            self._offset, found = self._scan(file)
            answers.update(found)

        self._locked(read)
        new = [answer for digest, answer in answers.items() if digest not in self._known]
        self._known |= answers.keys()
        return [answer for answer in new if max(answer, default=0) < self._size]

    def add(self, answer: Sequence[int]) -> None:
        """Keep an answer."""
        data = array("I", answer).tobytes()
        self._known.add(_digest(data))
        self._append(len(answer), data)

    def use(self, answer: Sequence[int]) -> None:
        """An answer has been of use: it is forgotten later."""
        self._append(_USE, _digest(array("I", answer).tobytes()))

    def _append(self, head: int, data: bytes) -> None:
        def write(file: BinaryIO) -> None:
            end, _ = self._scan(file)
            file.truncate(end)  # what was cut short
            file.seek(end)
            file.write(_HEAD.pack(_MARK, head, crc32(data)) + data)
            if end > self._limit:
                self._shorten(self._scan(file, whole=True)[1])

        self._locked(write)

    def _shorten(self, answers: dict[bytes, list[int]]) -> None:
        """A new file with those that were of use last."""
        kept, size = list[bytes](), _START
        for answer in reversed(answers.values()):
            data = array("I", answer).tobytes()
            size += _HEAD.size + len(data)
            if size > self._limit // 2:
                break
            kept.append(_HEAD.pack(_MARK, len(answer), crc32(data)) + data)
        partial = self._file.with_name(self._file.name + PARTIAL)
        partial.unlink(missing_ok=True)
        with _open(partial) as file:
            file.truncate()
            file.write(_beginning() + b"".join(reversed(kept)))
        partial.replace(self._file)

    def _scan(self, file: BinaryIO, whole: bool = False) -> tuple[int, dict[bytes, list[int]]]:
        """Where the last good record ends, and the answers by their digests, the one used last at the end.

        Args:
            file: Open at any place.
            whole: From the beginning, and not from where the last call stopped.
        """
        file.seek(0)
        beginning = file.read(_START)
        if len(beginning) < _START or not beginning.startswith(MAGIC):
            if beginning:
                _log.warning("%s is damaged from its first byte on; it is begun again.", self._file)
            beginning = _beginning()
            file.seek(0)
            file.truncate()
            file.write(beginning)
        if beginning != self._identity:
            self._identity, self._offset = beginning, _START
        at = _START if whole else self._offset
        file.seek(at)
        data, answers, end = file.read(), dict[bytes, list[int]](), 0
        place = data.find(_MARK)
        while place >= 0:
            if record := _record(data, place):
                head, body = record
                place = end = place + _HEAD.size + len(body)
                if head != _USE:
                    answers[_digest(body)] = array("I", body).tolist()
                elif body in answers:
                    answers[body] = answers.pop(body)
            else:
                place += 1
            place = data.find(_MARK, place)
        return at + end, answers

    def _locked(self, act: Callable[[BinaryIO], None]) -> None:
        """Do it while nobody else has the file. A disk that is full or gone costs the memory, and no text."""
        try:
            with self._lock, _open(self._file) as file:
                act(file)
        except Timeout:
            self._complain(BUSY)
        except OSError as error:
            self._complain(error.strerror or str(error))

    def _complain(self, why: str) -> None:
        _log.warning("No answers can be kept in %s now: %s", self._file.parent, why)


def files(folder: Path) -> list[Path]:
    """The files that redline keeps in a folder."""
    return sorted(path for path in folder.iterdir() if _OURS.fullmatch(path.name) and path.is_file())


def _open(path: Path) -> BinaryIO:
    """The file, and not what a link of its name points to, which may be anybody's."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "r+b")


def _beginning() -> bytes:
    return MAGIC + os.urandom(_START - len(MAGIC))


def _record(data: bytes, at: int) -> tuple[int, bytes] | None:
    """The record that begins there, if a whole one does."""
    if at + _HEAD.size > len(data):
        return None
    _, head, check = _HEAD.unpack_from(data, at)
    size = 8 if head == _USE else 4 * head
    body = data[at + _HEAD.size :][:size] if at + _HEAD.size + size <= len(data) else b""
    return (head, body) if len(body) == size and crc32(body) == check else None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
