"""A file that grows part by part and knows, after any crash, how much of it is right."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

CHUNK_BYTES = 1 << 20


class Partial:
    """The first parts of a file, joined, with a journal of the hash after each part.

    The journal is never trusted: `resume` hashes the bytes again and keeps what agrees.

    Args:
        path: Where the bytes are gathered; the journal lies beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path.with_suffix(".jsonl")
        self.size_bytes = 0
        self._sha = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """SHA-256 of all the bytes so far."""
        return self._sha.hexdigest()

    def resume(self, packages: Sequence[str]) -> int:
        """Keep the leading parts that are whole and right; forget the rest.

        Args:
            packages: The parts that the file should have, in order.

        Returns:
            How many parts are kept.
        """
        lines: list[str] = []
        with self.path.open("a+b") as file:
            file.seek(0)
            for package, (line, record, end) in zip(packages, self._records(), strict=False):
                sha, size = self._sha.copy(), self.size_bytes
                while chunk := file.read(min(CHUNK_BYTES, max(end - size, 0))):
                    sha.update(chunk)
                    size += len(chunk)
                if record != {"package": package, "bytes": size, "sha256": sha.hexdigest()}:
                    break
                self._sha, self.size_bytes = sha, size
                lines.append(line)
            file.truncate(self.size_bytes)
        self.journal.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return len(lines)

    def append(self, package: str, chunks: Iterable[bytes], limit_bytes: int) -> None:
        """Write the next part and note it in the journal.

        Stops soon after the file has grown past `limit_bytes`, so that a wrong part cannot fill the disk.
        """
        with self.path.open("ab") as file:
            for chunk in chunks:
                file.write(chunk)
                self._sha.update(chunk)
                self.size_bytes += len(chunk)
                if self.size_bytes > limit_bytes:
                    return
        record = {"package": package, "bytes": self.size_bytes, "sha256": self.sha256}
        with self.journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(record) + "\n")

    def install(self, target: Path) -> None:
        """Give the file its final name, in one step and only once its bytes are on the disk."""
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
        self.path.replace(target)
        self.journal.unlink()

    def discard(self) -> None:
        """Delete the bytes and the journal."""
        self.path.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    def _records(self) -> Iterator[tuple[str, object, int]]:
        if not self.journal.exists():
            return
        for line in self.journal.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
                end = int(record["bytes"])
            except (ValueError, TypeError, KeyError):  # a line that was being written when the power went
                return
            yield line, record, end
