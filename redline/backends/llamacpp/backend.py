"""`LlamaBackend`: a GGUF model in llama.cpp behind `ports.Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from redline.backends.chunks import Growth, check_chunks
from redline.backends.llamacpp import trial
from redline.backends.llamacpp.cache import LlamaCache
from redline.backends.llamacpp.library import library
from redline.backends.llamacpp.memory import Entry, Memory, Shape, rounded
from redline.backends.llamacpp.model import Model, check_room
from redline.core.errors import OptionError, RedlineError
from redline.core.ports import Chunk, Tokenizer, Traits

_CELLS = 256  # to begin with; a memory grows to twice its size at a time
_SEQUENCES = 32  # to begin with where texts share a memory
_IDLE = 4  # memories of texts that have ended, kept since making one takes up to 0.1 s,
_IDLE_CELLS = 2048  # but not large ones


class LlamaBackend:
    """Any model that llama.cpp runs, reading any number of texts. Implements `ports.Backend`.

    Either every text has a memory of its own: then nothing depends on what else is being written, and a
    pass over several texts reads one after the other. Or all texts share one: a pass reads them together
    and takes trees, and the last bits of a row may depend on where in memory its text lies.

    Args:
        name: For records.
        model: Weights; closed with the backend.
        tokenizer: Text to ids and back.
        context: Positions of a text.
        threads: CPU threads.
        shared: All texts in one memory.
        exact: Prefer arithmetic that gives a row the same bits in every pass, and measure which widths
            have them. Without, only single rows count as exact, and where texts share a memory nothing does.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        tokenizer: Tokenizer,
        *,
        context: int,
        threads: int,
        shared: bool = False,
        exact: bool = True,
    ) -> None:
        self.name, self.tokenizer = name, tokenizer
        own = 2 if model.window else 1  # see `Memory.take`
        shape = Shape(rounded(min(_CELLS, context)), _SEQUENCES if shared else own, False, threads)
        recall = trial.recall(model, shape)
        if shared and recall.rollback != "truncate":
            raise OptionError(f"{name} cannot keep one line of a tree.", "Open it without shared memory.")
        if shared and model.window:  # a pass over one text takes cells that another may come back to
            raise OptionError(
                f"{name} has a sliding window, so texts share no memory.", "Open it without shared memory."
            )
        found = trial.NOTHING
        if exact and not shared and model.device == "cpu":
            found = trial.steadiness(model, shape)
        self.traits = Traits(
            vocab_size=model.vocab_size,
            context=context,
            rollback=recall.rollback,
            trees=shared,
            row_invariant=found.invariant,
            exact_widths=() if shared else found.widths,
            dtype=model.precision,
            device=model.device,
            threads=threads,
        )
        self._model, self._shape = model, replace(shape, steady=found.steady)
        self._cell_bytes = recall.cell_bytes if model.device == "cpu" else 0
        # Weak, so that a cache that is dropped without being closed takes its memory with it.
        self._caches: WeakSet[LlamaCache] = WeakSet()
        self._memories: WeakSet[Memory] = WeakSet()
        self._idle: list[Memory] = []  # those of no text
        self._shared: Memory | None = None
        self._free = list(range(shape.sequences))  # sequences of the one that is shared
        self._dropped: list[int] = []  # and those of texts that were dropped without being closed
        self._closed = False
        if shared:
            self._shared = self._make(self._shape)

    def open(self) -> LlamaCache:
        self._check_open()
        if self._shared:
            cache = LlamaCache(self, self._provide(self._shared, 1), self._free.pop(0))
            cache.on_drop(self._dropped)
        else:
            cache = LlamaCache(self, self._idle.pop() if self._idle else self._make(self._shape), 0)
        self._caches.add(cache)
        return cache

    def extend(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        self._check_open()
        growths = check_chunks(self, chunks, LlamaCache)
        caches = [chunk.cache for chunk in chunks if isinstance(chunk.cache, LlamaCache)]
        self._reserve(caches, growths)
        passes: dict[Memory, list[Entry]] = {}
        counts: list[int] = []
        try:
            for chunk, cache, growth in zip(chunks, caches, growths, strict=True):
                new = cache.entries(chunk, growth, self._free)
                counts.append(sum(entry.wanted for entry in new))
                passes.setdefault(cache.memory, []).extend(new)
            rows = [memory.decode(entries) for memory, entries in passes.items()]
        except BaseException:
            for cache in caches:
                cache.undo()  # never raises, or it would hide what happened
            raise
        for cache, growth in zip(caches, growths, strict=True):
            cache.commit(growth)
        return np.split(rows[0], np.cumsum(counts)[:-1]) if self._shared and rows else rows

    def close(self) -> None:
        for cache in list(self._caches):
            cache.close()
        for memory in list(self._memories):
            memory.close()
        self._idle, self._shared, self._closed = [], None, True
        self._model.close()

    def release(self, cache: LlamaCache) -> None:
        """Take back what a cache held that is being closed."""
        cache.memory.cut(cache.sequence, 0)
        self.give_back(cache.drop_lines())
        self._caches.discard(cache)
        if self._shared:
            self.give_back([cache.sequence])
        elif len(self._idle) < _IDLE and cache.memory.shape.cells <= _IDLE_CELLS:
            self._idle.append(cache.memory)
        else:
            cache.memory.close()

    def give_back(self, sequences: Sequence[int]) -> None:
        """Take back sequences of the shared memory."""
        self._free += sequences

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.name} is closed.")
        while self._dropped and self._shared:
            sequence = self._dropped.pop()
            self._shared.cut(sequence, 0)
            self._free.append(sequence)

    def _make(self, shape: Shape, beside: int = 0) -> Memory:
        """A memory, beside that many cells that are in use meanwhile."""
        check_room(f"A text of {shape.cells} tokens needs", (shape.cells + beside) * self._cell_bytes)
        memory = Memory(self._model, shape)
        self._memories.add(memory)
        return memory

    def _provide(self, shared: Memory, count: int) -> Memory:
        """The shared memory, with so many free sequences.

        Raises:
            RedlineError: llama.cpp cannot tell so many apart.
        """
        have, most = shared.shape.sequences, int(library().llama_max_parallel_sequences())
        want = have + count - len(self._free)
        if want > most:
            raise RedlineError(
                f"llama.cpp tells {most} texts apart, and {want} are needed.", "Run fewer texts at once."
            )
        if want <= have:
            return shared
        grown = self._move(shared, replace(shared.shape, sequences=min(most, max(want, 2 * have))))
        self._free += range(have, grown.shape.sequences)
        return grown

    def _reserve(self, caches: Sequence[LlamaCache], growths: Sequence[Growth]) -> None:
        """Make room for what a pass adds."""
        if any(cache.parents for cache in caches):
            raise ValueError("A cache still holds a tree; rewind it to one line first.")
        if self._shared is None:
            for cache, growth in zip(caches, growths, strict=True):
                self._enlarge(cache.memory, cache.length + len(growth.positions), self.traits.context)
            return
        leaves = sum(_leaves(cache, growth) for cache, growth in zip(caches, growths, strict=True))
        need = sum(cache.length for cache in self._caches) + sum(len(growth.positions) for growth in growths)
        self._enlarge(self._provide(self._shared, leaves), need, 2 * need)

    def _enlarge(self, memory: Memory, need: int, most: int) -> None:
        """Give a memory the cells it needs, and twice as many as it had where that is not too many."""
        if need > memory.shape.cells:
            cells = rounded(max(need, min(2 * memory.shape.cells, most)))
            self._move(memory, replace(memory.shape, cells=cells))

    def _move(self, old: Memory, shape: Shape) -> Memory:
        """Move the texts of a memory into one of another shape."""
        texts = [cache for cache in self._caches if cache.memory is old]
        if any(cache.parents for cache in texts):
            raise ValueError("A cache still holds a tree; rewind it to one line first.")
        new = self._make(shape, beside=old.shape.cells)
        try:
            new.take(old)
        except BaseException:
            new.close()
            raise
        for cache in texts:
            cache.memory = new
        if old is self._shared:
            self._shared = new
        old.close()
        return new


def _leaves(cache: LlamaCache, growth: Growth) -> int:
    """How many lines of its own a chunk's tree has; none where it is a chain."""
    parents = growth.parents or ()
    return sum(cache.length + i not in parents for i in range(len(parents)))
