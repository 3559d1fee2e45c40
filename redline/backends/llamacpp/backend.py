"""`LlamaBackend`: a GGUF model in llama.cpp behind `ports.Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from redline.backends.chunks import Growth, check_chunks
from redline.backends.llamacpp import trial
from redline.backends.llamacpp.cache import LlamaCache
from redline.backends.llamacpp.library import library
from redline.backends.llamacpp.memory import Entry, Memory, Shape, rounded
from redline.backends.llamacpp.model import Model
from redline.core.errors import OptionError, RedlineError
from redline.core.ports import Chunk, Tokenizer, Traits

_CELLS = 256  # to begin with; a memory grows to twice its size at a time
_SEQUENCES = 32  # to begin with where texts share a memory
_IDLE = 4  # memories of texts that have ended, kept since making one takes up to 0.1 s


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
            have them. Without, and where texts share a memory, only single rows count as exact.
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
        # The state of a sliding window's cache cannot be moved whole, so there the memory never grows.
        cells = rounded(context if model.window else min(_CELLS, context))
        shape = Shape(cells, _SEQUENCES if shared else 1, False, threads)
        rollback = trial.rollback(model, shape)
        if shared and rollback != "truncate":
            raise OptionError(f"{name} cannot keep one line of a tree.", "Open it without shared memory.")
        found = trial.NOTHING
        if exact and not shared and model.device == "cpu":
            found = trial.steadiness(model, shape)
        self.traits = Traits(
            vocab_size=model.vocab_size,
            context=context,
            rollback=rollback,
            trees=shared,
            row_invariant=found.invariant,
            exact_widths=found.widths,
            dtype=model.precision,
            device=model.device,
            threads=threads,
        )
        self._model, self._shape = model, replace(shape, steady=found.steady)
        self._caches: list[LlamaCache] = []
        self._memories: list[Memory] = []  # all of them
        self._idle: list[Memory] = []  # those of no text; never one that is shared
        self._free = list(range(shape.sequences))  # sequences of the one that is
        self._closed = False
        if shared:
            self._make(self._shape)

    def open(self) -> LlamaCache:
        self._check_open()
        if self.traits.trees:
            self._provide(1)
            cache = LlamaCache(self, self._memories[0], self._free.pop(0))
        else:
            cache = LlamaCache(self, self._idle.pop() if self._idle else self._make(self._shape), 0)
        self._caches.append(cache)
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
            for cache in caches:  # what a broken pass has left behind is no part of any text
                self.give_back(cache.drop_lines())
                cache.memory.cut(cache.sequence, cache.length)
            raise
        for cache, growth in zip(caches, growths, strict=True):
            cache.commit(growth)
        return np.split(rows[0], np.cumsum(counts)[:-1]) if self.traits.trees and rows else rows

    def close(self) -> None:
        for cache in list(self._caches):
            cache.close()
        for memory in self._memories:
            memory.close()
        self._memories, self._idle, self._closed = [], [], True
        self._model.close()

    def release(self, cache: LlamaCache) -> None:
        """Take back what a cache held that is being closed."""
        cache.memory.cut(cache.sequence, 0)
        self.give_back(cache.drop_lines())
        self._caches.remove(cache)
        if self.traits.trees:
            self.give_back([cache.sequence])
        elif len(self._idle) < _IDLE:
            self._idle.append(cache.memory)
        else:
            self._memories.remove(cache.memory)
            cache.memory.close()

    def give_back(self, sequences: Sequence[int]) -> None:
        """Take back sequences of the shared memory."""
        self._free += sequences

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.name} is closed.")

    def _make(self, shape: Shape) -> Memory:
        self._memories.append(Memory(self._model, shape))
        return self._memories[-1]

    def _provide(self, count: int) -> None:
        """Have so many free sequences in the shared memory.

        Raises:
            RedlineError: llama.cpp cannot tell so many apart.
        """
        memory, most = self._memories[0], int(library().llama_max_parallel_sequences())
        have = memory.shape.sequences
        want = have + count - len(self._free)
        if want > most:
            raise RedlineError(
                f"llama.cpp tells {most} texts apart, and {want} are needed.", "Run fewer texts at once."
            )
        if want > have:
            grown = replace(memory.shape, sequences=min(most, max(want, 2 * have)))
            self._move(memory, grown)
            self._free += range(have, grown.sequences)

    def _reserve(self, caches: Sequence[LlamaCache], growths: Sequence[Growth]) -> None:
        """Make room for what a pass adds."""
        if any(cache.parents for cache in caches):
            raise ValueError("A cache still holds a tree; rewind it to one line first.")
        if not self.traits.trees:
            for cache, growth in zip(caches, growths, strict=True):
                self._enlarge(cache.memory, cache.length + len(growth.positions), self.traits.context)
            return
        self._provide(sum(_leaves(cache, growth) for cache, growth in zip(caches, growths, strict=True)))
        need = sum(cache.length for cache in self._caches) + sum(len(growth.positions) for growth in growths)
        self._enlarge(self._memories[0], need, 2 * need)

    def _enlarge(self, memory: Memory, need: int, most: int) -> None:
        """Give a memory the cells it needs, and twice as many as it had where that is not too many."""
        if need > memory.shape.cells:
            cells = rounded(max(need, min(2 * memory.shape.cells, most)))
            self._move(memory, replace(memory.shape, cells=cells))

    def _move(self, old: Memory, shape: Shape) -> None:
        """Move the texts of a memory into one of another shape."""
        texts = [cache for cache in self._caches if cache.memory is old]
        if any(cache.parents for cache in texts):
            raise ValueError("A cache still holds a tree; rewind it to one line first.")
        new = Memory(self._model, shape)
        try:
            for cache in texts:
                if cache.length:
                    new.restore(cache.sequence, old.save(cache.sequence))
        except BaseException:
            new.close()
            raise
        for cache in texts:
            cache.memory = new
        self._memories[self._memories.index(old)] = new
        old.close()


def _leaves(cache: LlamaCache, growth: Growth) -> int:
    """How many lines of its own a chunk's tree has; none where it is a chain."""
    parents = growth.parents or ()
    return sum(cache.length + i not in parents for i in range(len(parents)))
