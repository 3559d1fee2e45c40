"""The keys and values of one text, addressed by position."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from redline.backends.native.attention import spanned
from redline.core.errors import RewindError

if TYPE_CHECKING:
    from redline.backends.native.backend import NativeBackend


class NativeCache:
    """Keys and values in slots, in the order in which their tokens were read. Implements `ports.Cache`.

    The first `settled` slots are a chain: slot i is position i. Behind them may stand a tree, each slot
    with the slot before it in its own line.

    Attributes:
        length: Slots in use.
        settled: How many of them are a chain from the beginning.
        parents: The slot before each of the others, shape (length - settled,).
        store: Keys and values, (2, layers, kv_heads, capacity, head_dim); None when closed.
    """

    def __init__(self, backend: NativeBackend, store: Tensor) -> None:
        self.backend = backend
        self.length = 0
        self.settled = 0
        self.parents: list[int] = []
        self.store: Tensor | None = store

    def reserve(self, length: int) -> Tensor:
        """The store, with room for `length` slots; it grows to twice its size at a time.

        Zeros are what makes padding harmless, and pages of zeros cost nothing until they are written.
        """
        assert self.store is not None
        capacity = self.store.shape[3]
        if length > capacity:
            shape = list(self.store.shape)
            shape[3] = spanned(max(length, min(2 * capacity, self.backend.traits.context)))
            grown = torch.zeros(shape, dtype=self.store.dtype, device=self.store.device)
            grown[:, :, :, : self.length] = self.store[:, :, :, : self.length]
            self.store = grown
        return self.store

    def commit(self, parents: Sequence[int] | None, count: int) -> None:
        """Count in slots that a pass has written; `parents` are slots, or None for a plain chain."""
        if parents is None:
            self.settled += count
        else:
            self.parents.extend(parents)
        self.length += count
        self._settle()

    @torch.inference_mode()
    def rewind(self, length: int, path: Sequence[int] = ()) -> None:
        slots = [*range(length), *path]
        if self.store is None:
            raise RewindError("This cache is closed.", "Open a new one.")
        if not 0 <= length <= self.length:
            raise RewindError(f"Cannot keep {length} of {self.length} entries.", "Keep at most all of them.")
        if not all(a < b for a, b in pairwise([length - 1, *path, self.length])):
            raise RewindError(
                f"{list(path)} are not ascending slots from {length} below {self.length}.",
                "Give the slots of one line of the tree, root first.",
            )
        keep = min(length, self.settled)
        place = {slot: i for i, slot in enumerate(slots[keep:], keep)} | {keep - 1: keep - 1}
        parents = []
        for slot in slots[keep:]:
            before = self.parents[slot - self.settled] if slot >= self.settled else slot - 1
            if before not in place:
                raise RewindError(
                    f"Slot {slot} follows slot {before}, which is not kept.", "Keep whole lines, root first."
                )
            parents.append(place[before])
        if list(path) != list(range(length, length + len(path))):
            self.store[:, :, :, length : len(slots)] = self.store[:, :, :, list(path)]
        self.settled, self.parents, self.length = keep, parents, len(slots)
        self._settle()

    def close(self) -> None:
        self.store = None
        self.length = self.settled = 0
        self.parents = []

    def _settle(self) -> None:
        """Count the tree in as a chain where it has become one."""
        if all(before == self.settled + i - 1 for i, before in enumerate(self.parents)):
            self.settled, self.parents = self.length, []
