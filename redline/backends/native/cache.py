"""The keys and values of one text, addressed by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from redline.backends.chunks import Slots
from redline.backends.native.attention import spanned
from redline.backends.pool import shared_prefix
from redline.core.ports import Chunk

if TYPE_CHECKING:
    from redline.backends.native.backend import NativeBackend


@dataclass(frozen=True, slots=True)
class Ahead:
    """Tokens that have been through the first layers only. Their keys and values lie behind a cache's end.

    Attributes:
        layers: How many.
        tokens: A chain from the cache's end on.
        states: What these layers left of them, (tokens, hidden).
    """

    layers: int
    tokens: list[int]
    states: Tensor


class NativeCache(Slots):
    """Keys and values in slots, in the order in which their tokens were read. Implements `ports.Cache`.

    Args:
        store: Keys and values, (2, layers, kv_heads, capacity, width).
        block: Keys lie in blocks of so many slots, (capacity / block, width, block).

    Attributes:
        store: The same, grown; None when closed.
        ahead: What has been read part of the way; None where that is nothing.
    """

    backend: NativeBackend

    def __init__(self, backend: NativeBackend, store: Tensor, block: int) -> None:
        super().__init__(backend)
        self.store: Tensor | None = store
        self.ahead: Ahead | None = None
        self._block = block

    def take_ahead(self, chunk: Chunk) -> Ahead | None:
        """What has been read part of the way of a chunk's first tokens, in one line.

        The cache knows nothing of it from then on: whatever comes next writes behind its end.
        """
        ahead, self.ahead = self.ahead, None
        if ahead is None:
            return None
        count = shared_prefix(ahead.tokens, chunk.tokens)
        if chunk.parents is not None:
            count = min(count, shared_prefix(range(-1, count - 1), chunk.parents))
        return Ahead(ahead.layers, ahead.tokens[:count], ahead.states[:count]) if count else None

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
            used = self.length + (len(self.ahead.tokens) if self.ahead else 0)
            kept = -(-used // self._block) * self._block
            grown[:, :, :, :kept] = self.store[:, :, :, :kept]
            self.store = grown
        return self.store

    @torch.inference_mode()
    def keep(self, length: int, path: Sequence[int]) -> None:
        self.ahead = None  # it followed what may be gone
        if path:
            assert self.store is not None
            keys, values = self.store
            old, new = torch.tensor(path), torch.arange(length, length + len(path))
            values[:, :, new] = values[:, :, old]
            blocks = keys.view(*keys.shape[:2], -1, keys.shape[3], self._block)
            blocks[:, :, new // self._block, :, new % self._block] = blocks[
                :, :, old // self._block, :, old % self._block
            ]

    def close(self) -> None:
        super().close()
        self.store = self.ahead = None
