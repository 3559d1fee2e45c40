"""The keys and values of one text, addressed by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from redline.backends.chunks import Slots
from redline.backends.native.attention import spanned

if TYPE_CHECKING:
    from redline.backends.native.backend import NativeBackend


class NativeCache(Slots):
    """Keys and values in slots, in the order in which their tokens were read. Implements `ports.Cache`.

    Attributes:
        store: Keys and values, (2, layers, kv_heads, capacity, head_dim); None when closed.
    """

    backend: NativeBackend

    def __init__(self, backend: NativeBackend, store: Tensor) -> None:
        super().__init__(backend)
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

    @torch.inference_mode()
    def keep(self, length: int, path: Sequence[int]) -> None:
        if path:
            assert self.store is not None
            self.store[:, :, :, length : length + len(path)] = self.store[:, :, :, list(path)]

    def close(self) -> None:
        super().close()
        self.store = None
