"""What the backends' `extend` and `rewind` have in common: what is checked, and which slot follows which.

A backend's cache inherits from `Slots` and adds where its entries lie; its `extend` begins with
`check_chunks`, computes, and ends with `commit`. Nothing here knows torch or any other engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from redline.core.errors import ContextError, RewindError
from redline.core.ports import Backend, Chunk

AnyCache = TypeVar("AnyCache", bound="Slots")


@dataclass(frozen=True, slots=True)
class Growth:
    """What one chunk adds to its cache.

    Attributes:
        parents: The slot before each token's, or None for a chain on a settled cache.
        positions: Of every token.
    """

    parents: list[int] | None
    positions: list[int]


class Slots:
    """Which tokens a cache holds, in the order in which they were read. Implements `ports.Cache`.

    The first `settled` slots are a chain: slot i is position i. Behind them may stand a tree, each slot
    with the slot before it in its own line. A backend's cache overrides `keep` and, where there is memory
    to free, `close`.

    Args:
        backend: Whose cache this is; its traits say what can be rewound.

    Attributes:
        length: Slots in use.
        settled: How many of them are a chain from the beginning.
        parents: The slot before each of the others, shape (length - settled,); -1 before the first.
        chunk_start: Where the last chunk began.
        closed: Whether it has been given back.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.length = self.settled = self.chunk_start = 0
        self.parents: list[int] = []
        self.closed = False

    def keep(self, length: int, path: Sequence[int]) -> None:
        """Move the entries at the slots `path` to the slots from `length` on, and forget all that follow.

        Called by `rewind` before it counts, with a request that makes sense: `path` is not simply the slots
        that follow, and is empty where nothing moves.

        Raises:
            RewindError: The entries cannot be had; nothing has changed.
        """

    def growth(self, chunk: Chunk) -> Growth:
        """Where a chunk's tokens would stand; nothing changes.

        Raises:
            ValueError: The parents do not fit the tokens.
        """
        count, base = len(chunk.tokens), self.length
        chain = range(-1, count - 1)
        inner = chain if chunk.parents is None else chunk.parents
        if len(inner) != count or not all(-1 <= parent < i for i, parent in enumerate(inner)):
            raise ValueError(
                "A chunk needs one parent a token, each -1 or smaller than the token's own index."
            )
        if not self.parents and list(inner) == list(chain):
            return Growth(None, list(range(base, base + count)))
        parents = [base + parent for parent in inner]
        places: list[int] = []
        for before in (*self.parents, *parents):
            places.append(places[before - self.settled] + 1 if before >= self.settled else self.settled)
        return Growth(parents, places[len(self.parents) :])

    def commit(self, growth: Growth) -> None:
        """Count in the slots that a pass has filled."""
        self.chunk_start = self.length
        if growth.parents is None:
            self.settled += len(growth.positions)
        else:
            self.parents.extend(growth.parents)
        self.length += len(growth.positions)
        self._settle()

    def rewind(self, length: int, path: Sequence[int] = ()) -> None:
        path = list(path)
        slots = [*range(length), *path]
        self._check(length, path, slots)
        kept = min(length, self.settled)
        place = {slot: i for i, slot in enumerate(slots[kept:], kept)} | {kept - 1: kept - 1}
        parents = []
        for slot in slots[kept:]:
            before = self.parents[slot - self.settled] if slot >= self.settled else slot - 1
            if before not in place:
                raise RewindError(
                    f"Slot {slot} follows slot {before}, which is not kept.", "Keep whole lines, root first."
                )
            parents.append(place[before])
        if path == list(range(length, len(slots))):
            self.keep(len(slots), ())
        else:
            self.keep(length, path)
        self.settled, self.parents, self.length = kept, parents, len(slots)
        self._settle()

    def close(self) -> None:
        self.length = self.settled = self.chunk_start = 0
        self.parents = []
        self.closed = True

    def _check(self, length: int, path: Sequence[int], slots: Sequence[int]) -> None:
        if self.closed:
            raise RewindError("This cache is closed.", "Open a new one.")
        if not 0 <= length <= self.length:
            raise RewindError(f"Cannot keep {length} of {self.length} entries.", "Keep at most all of them.")
        if not all(a < b for a, b in pairwise([length - 1, *path, self.length])):
            raise RewindError(
                f"{list(path)} are not ascending slots from {length} below {self.length}.",
                "Give the slots of one line of the tree, root first.",
            )
        changes = len(slots) < self.length
        if changes and self.backend.traits.rollback == "none":
            raise RewindError(
                f"{self.backend.name} cannot forget what it has read.",
                "Read the text again from its beginning.",
            )
        if changes and self.backend.traits.rollback == "snapshot" and length < self.chunk_start:
            raise RewindError(
                f"{self.backend.name} remembers no state before slot {self.chunk_start}.",
                "Rewind to within the last chunk, or read the text again.",
            )

    def _settle(self) -> None:
        """Count the tree in as a chain where it has become one."""
        if all(before == self.settled + i - 1 for i, before in enumerate(self.parents)):
            self.settled, self.parents = self.length, []


def wanted(chunk: Chunk) -> range:
    """Which rows a chunk asks for."""
    count = len(chunk.tokens)
    return {"all": range(count), "last": range(count - 1, count), "none": range(0)}[chunk.rows]


def check_chunks(backend: Backend, chunks: Sequence[Chunk], kind: type[AnyCache]) -> list[Growth]:
    """Check all that `Backend.extend` promises to check, before anything changes.

    Args:
        backend: Who was asked.
        chunks: What it was asked for.
        kind: The class of its caches.

    Returns:
        What each chunk will add to its cache; hand it to `Slots.commit` after the pass.

    Raises:
        ContextError, ValueError: See `ports.Backend.extend`.
    """
    vocab, context = backend.traits.vocab_size, backend.traits.context
    if len({id(chunk.cache) for chunk in chunks}) < len(chunks):
        raise ValueError("A cache stands twice in one pass.")
    growths = []
    for chunk in chunks:
        cache, count = chunk.cache, len(chunk.tokens)
        if not isinstance(cache, kind) or cache.backend is not backend:
            raise ValueError(f"A chunk's cache does not belong to {backend.name}.")
        if cache.closed:
            raise ValueError("A chunk's cache is closed.")
        if not count:
            raise ValueError("A chunk is empty.")
        if not 0 <= min(chunk.tokens) <= max(chunk.tokens) < vocab:
            raise ValueError(f"A chunk has an id outside the vocabulary of {vocab}.")
        if cache.length + count > context:
            raise ContextError(
                f"{cache.length} + {count} tokens do not fit {backend.name}'s context of {context}.",
                "Shorten the prompt, ask for fewer tokens, or open the model with a longer context.",
            )
        growths.append(cache.growth(chunk))
        if growths[-1].parents is not None and not backend.traits.trees:
            raise ValueError(f"{backend.name} takes no trees.")
    return growths
