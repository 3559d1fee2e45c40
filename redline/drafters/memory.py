"""Answers in a folder: for other processes, and for tomorrow."""

from __future__ import annotations

import logging
import os
import struct
from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from filelock import FileLock

from redline.core.errors import RedlineError
from redline.core.ports import Tokenizer

MAGIC = b"redline-memory-1"
NAME = "answers-{}.tokens"
LIMIT_BYTES = 2 << 20
"""Of a file, by default: half a million tokens."""

PATIENCE_S = 2.0
"""How long to wait for another process that has the file; its answers can do without this one."""

_HEAD = struct.Struct("<II")  # tokens and their checksum; with _USE, an answer's digest instead of tokens
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

    It only grows, by records with a checksum: of what a crash, a full disk or somebody's hand leaves half
    written, only that record is lost. When it is too long, the answers that were used or added last go into a
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
        self._offset, self._inode = 0, -1
        self._known: set[bytes] = set()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock, _open(self._file):
                pass
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
            file.write(_HEAD.pack(head, crc32(data)) + data)
            if end > self._limit:
                self._shorten(self._scan(file, whole=True)[1])

        self._locked(write)

    def _shorten(self, answers: dict[bytes, list[int]]) -> None:
        """A new file with those that were of use last."""
        kept, size = list[bytes](), len(MAGIC)
        for answer in reversed(answers.values()):
            data = array("I", answer).tobytes()
            size += _HEAD.size + len(data)
            if size > self._limit // 2:
                break
            kept.append(_HEAD.pack(len(answer), crc32(data)) + data)
        partial = self._file.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with _open(partial) as file:
            file.truncate()
            file.write(MAGIC + b"".join(reversed(kept)))
        partial.replace(self._file)

    def _scan(self, file: BinaryIO, whole: bool = False) -> tuple[int, dict[bytes, list[int]]]:
        """Where the last good record ends, and the answers by their digests, the one used last at the end.

        Args:
            file: Open at any place.
            whole: From the beginning, and not from where the last call stopped.
        """
        inode = os.fstat(file.fileno()).st_ino
        if inode != self._inode:
            self._inode, self._offset = inode, 0
        at = 0 if whole else self._offset
        file.seek(at)
        data, answers = file.read(), dict[bytes, list[int]]()
        if at == 0 and data[: len(MAGIC)] != MAGIC:
            if data:
                _log.warning("%s is damaged from its first byte on; it is begun again.", self._file)
            file.seek(0)
            file.truncate()
            file.write(MAGIC)
            return len(MAGIC), answers
        end = len(MAGIC) if at == 0 else 0
        while end + _HEAD.size <= len(data):
            head, check = _HEAD.unpack_from(data, end)
            body = data[end + _HEAD.size :][: 8 if head == _USE else 4 * head]
            if crc32(body) != check or len(body) < (8 if head == _USE else 4 * head):
                break
            end += _HEAD.size + len(body)
            if head != _USE:
                answers[_digest(body)] = array("I", body).tolist()
            elif body in answers:
                answers[body] = answers.pop(body)
        return at + end, answers

    def _locked(self, act: Callable[[BinaryIO], None]) -> None:
        """Do it while nobody else has the file. A disk that is full or gone costs the memory, and no text."""
        try:
            with self._lock, _open(self._file) as file:
                act(file)
        except OSError as error:
            _log.warning("No answers can be kept in %s now: %s", self._file.parent, error.strerror or error)


def files(folder: Path) -> list[Path]:
    """The files that redline keeps in a folder."""
    return sorted(path for path in folder.glob(NAME.format("*") + "*") if path.is_file())


def _open(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
