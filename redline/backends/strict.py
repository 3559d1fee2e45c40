"""A target whose passes have exact widths only, so that speculative text is plain decoding's to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import OptionError, RewindError
from redline.core.pace import pieces
from redline.core.ports import Backend, Cache, Chunk


class Strict:
    """Another backend, asked only for passes that give a row the bits of a one-row pass.

    A chunk whose rows are wanted is read in pieces of `traits.exact_widths`, each text by itself; a prompt,
    whose rows nobody wants, is read as it comes, since plain decoding reads it in the same pieces. Where
    only single rows are exact, checking n guesses costs n + 1 passes: right, and no faster than plain.

    Args:
        inner: The backend; closed with this one.

    Raises:
        OptionError: Not even a single row has bits of its own.

    Attributes:
        inner: The backend.
        widths: The widths used, ascending.
    """

    def __init__(self, inner: Backend) -> None:
        self.name, self.tokenizer = inner.name, inner.tokenizer
        self.widths = inner.traits.exact_widths
        self.inner = inner
        if not self.widths:
            raise OptionError(
                f"{self.name} has no exact widths: its texts share a memory, where their places show.",
                "Open it without shared memory.",
            )
        # Pieces leave a snapshot of the last one only, and nodes of a tree do not come in pieces.
        rollback = "none" if inner.traits.rollback == "snapshot" else inner.traits.rollback
        self.traits = replace(inner.traits, row_invariant=True, trees=False, rollback=rollback)

    def open(self) -> Cache:
        return self.inner.open()

    def extend(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        self._check(chunks)
        starts = [chunk.cache.length for chunk in chunks]
        try:
            return [self._read(chunk) for chunk in chunks]
        except BaseException:
            for chunk, start in zip(chunks, starts, strict=True):
                if chunk.cache.length > start:
                    with suppress(RewindError):  # then the cache is longer than it was, and says so
                        chunk.cache.rewind(start)
            raise

    def close(self) -> None:
        self.inner.close()

    def _check(self, chunks: Sequence[Chunk]) -> None:
        """What only shows when the chunks are seen together; the inner backend sees them one by one."""
        if len({id(chunk.cache) for chunk in chunks}) < len(chunks):
            raise ValueError("A cache stands twice in one pass.")
        if any(chunk.parents is not None for chunk in chunks):
            raise ValueError("A tree cannot be read in pieces of exact widths.")

    def _read(self, chunk: Chunk) -> NDArray[np.float32]:
        if chunk.rows == "none" or not chunk.tokens:
            return self.inner.extend([chunk])[0]
        rows, at = [], 0
        for width in pieces(len(chunk.tokens), self.widths):
            part = chunk.tokens[at : at + width]
            at += width
            wanted = "none" if chunk.rows == "last" and at < len(chunk.tokens) else chunk.rows
            rows.append(self.inner.extend([Chunk(chunk.cache, part, wanted)])[0])
        return np.concatenate(rows)
