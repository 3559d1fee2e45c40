"""What llama.cpp remembers of one text."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redline.backends.chunks import Growth, Slots, wanted
from redline.backends.llamacpp.memory import Entry, Memory
from redline.core.errors import ModelError, RewindError
from redline.core.ports import Chunk

if TYPE_CHECKING:
    from redline.backends.llamacpp.backend import LlamaBackend


class LlamaCache(Slots):
    """A sequence of a memory; while it holds a tree, one more sequence for every leaf.

    Args:
        backend: Whose it is.
        memory: Where the text is remembered, alone or beside others.
        sequence: Its number there.

    Attributes:
        lines: For every leaf of the tree, its sequence and the slots on its line, root first.
    """

    def __init__(self, backend: LlamaBackend, memory: Memory, sequence: int) -> None:
        super().__init__(backend)
        self.memory, self.sequence = memory, sequence
        self.lines: list[tuple[int, list[int]]] = []
        self._owner = backend
        self._drop: weakref.finalize[..., LlamaCache] | None = None
        # Where a memory cannot be cut: the states before the last chunk and before the one being read,
        # and these chunks, to come back from a state.
        self._before: Any = None
        self._now: Any = None
        self._tokens: list[int] = []
        self._reading: list[int] = []

    def on_drop(self, dropped: list[int]) -> None:
        """Leave the sequences in `dropped` if nobody refers to this cache any more and nobody closed it."""
        self._drop = weakref.finalize(self, _leave, dropped, self.sequence, self.lines)
        self._drop.atexit = False

    def entries(self, chunk: Chunk, growth: Growth, free: list[int]) -> list[Entry]:
        """A chunk as llama.cpp reads it; the leaves of a tree take sequences from `free`."""
        count = len(chunk.tokens)
        if self.backend.traits.rollback == "snapshot":
            self._now = self.memory.save(self.sequence, partial=True, into=self._now)
            self._reading = list(chunk.tokens)
        owners = [[self.sequence]] * count if growth.parents is None else self._branch(growth.parents, free)
        rows = wanted(chunk)
        places = zip(chunk.tokens, growth.positions, owners, strict=True)
        return [Entry(token, at, who, i in rows) for i, (token, at, who) in enumerate(places)]

    def commit(self, growth: Growth) -> None:
        super().commit(growth)
        self._before, self._now, self._tokens = self._now, self._before, self._reading

    def undo(self) -> None:
        """Forget what a broken pass has left behind; where that cannot be done, the cache closes."""
        self._owner.give_back(self.drop_lines())
        try:
            back = self.memory.back(self.sequence, self.length, self._now)
        except ModelError:
            back = False
        if not back:
            self.close()

    def keep(self, length: int, path: Sequence[int]) -> None:
        if self.parents:
            kept = [slot for slot in (*range(length), *path) if slot >= self.settled]
            self._keep_line(kept, min(length, self.settled) + len(kept))
        elif length < self.length and not self.memory.cut(self.sequence, length):
            self._come_back(length)

    def drop_lines(self) -> list[int]:
        """Forget the tree; the sequences that are free again."""
        dropped = [sequence for sequence, _ in self.lines]
        for sequence in dropped:
            self.memory.cut(sequence, 0)
        self.lines.clear()
        return dropped

    def close(self) -> None:
        if not self.closed:
            if self._drop:
                self._drop.detach()
            self._owner.release(self)
        super().close()

    def _branch(self, parents: Sequence[int], free: list[int]) -> list[list[int]]:
        """Give every leaf of a new tree a sequence that begins with the text; whose each node is."""
        base = self.length
        owners: list[list[int]] = [[] for _ in parents]
        for leaf in (slot for slot in range(base, base + len(parents)) if slot not in parents):
            line = [leaf]
            while (before := parents[line[0] - base]) >= base:
                line.insert(0, before)
            sequence = free.pop(0)
            self.memory.share(self.sequence, sequence)
            self.lines.append((sequence, line))
            for slot in line:
                owners[slot - base].append(sequence)
        return owners

    def _keep_line(self, slots: list[int], length: int) -> None:
        """Keep one line of the tree, `length` entries in all: what its sequence holds becomes the text's."""
        line = next((sequence for sequence, line in self.lines if line[: len(slots)] == slots), None)
        if line is None:
            raise RewindError(
                "llama.cpp keeps one line of a tree, and these slots are on several.",
                "Rewind to the slots of one line, root first.",
            )
        self.memory.cut(line, length)
        self.memory.cut(self.sequence, 0)
        self.memory.share(line, self.sequence)
        self._owner.give_back(self.drop_lines())

    def _come_back(self, length: int) -> None:
        """Restore the state before the last chunk and read again what is kept of it."""
        start = self.chunk_start
        kept = enumerate(self._tokens[: length - start], start)
        try:
            if not self.memory.back(self.sequence, start, self._before):
                raise ModelError(
                    "llama.cpp does not come back to a saved state.", "Report this with --debug."
                )
            self.memory.decode([Entry(token, at, [self.sequence], False) for at, token in kept])
        except BaseException:  # half a state is worse than none
            self.close()
            raise


def _leave(dropped: list[int], sequence: int, lines: list[tuple[int, list[int]]]) -> None:
    dropped += [sequence, *(line for line, _ in lines)]
