"""Attention of a few consecutive rows of one text over its cache, in three ways of adding up.

All three give the same numbers up to rounding; `check.attention` finds out which of them give a row the
same *bits* whatever rows stand beside it, on this machine and for this model's head shapes.

Every way takes queries (rows, heads, head_dim), keys and values (kv_heads, capacity, head_dim), and what
its own `prepare` made for these rows; row r sees the cache slots 0 … start + r, and all of them end in
the same span. Results are (rows, heads · head_dim).
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

SPAN = 128
"""Cache lengths are rounded up to this, so that vector kernels have no remainder, and so that the rows
of a pass mostly sum over equally many slots. Caches are zeroed when made: padding is always finite."""


def spanned(length: int) -> int:
    """`length` rounded up to a whole number of spans."""
    return -(-length // SPAN) * SPAN


class Attention(Protocol):
    """One way of computing attention.

    Attributes:
        name: For records.
        floor: Rows it must be given at least; the caller adds rows and drops their results.
    """

    name: str
    floor: int

    def prepare(self, start: int, rows: int) -> Any:
        """What depends only on where the rows stand; made once and used in every layer."""
        ...

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, prepared: Any) -> Tensor: ...


def _mask(start: int, rows: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """0 where a row sees a slot and -inf elsewhere, (rows, span of the first row)."""
    slots = torch.arange(spanned(start + 1), device=device)
    hidden = slots > torch.arange(start, start + rows, device=device).unsqueeze(1)
    return torch.zeros(hidden.shape, device=device, dtype=dtype).masked_fill_(hidden, -math.inf)


class Stacked:
    """All rows and the query heads of a group as the rows of one matrix product a key/value head.

    The fastest for many rows: keys and values are read once for all of them.
    """

    def __init__(self, groups: int, floor: int, device: torch.device, dtype: torch.dtype) -> None:
        self.name, self.floor = f"stacked-{floor}", floor
        self._groups, self._device, self._dtype = groups, device, dtype

    def prepare(self, start: int, rows: int) -> Tensor:
        return _mask(start, rows, self._device, self._dtype).repeat_interleave(self._groups, 0)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, prepared: Tensor) -> Tensor:
        rows, span = len(q), prepared.shape[-1]
        kv_heads, _, width = k.shape
        q = q.view(rows, kv_heads, -1, width).transpose(0, 1).reshape(kv_heads, -1, width)
        scores = torch.baddbmm(prepared, q, k[:, :span].transpose(1, 2), alpha=width**-0.5)
        weights = scores.softmax(-1, dtype=torch.float32).to(q.dtype)
        out = torch.bmm(weights, v[:, :span])
        return out.view(kv_heads, rows, -1).transpose(0, 1).reshape(rows, -1)


class Batched:
    """Rows as the batch of one SDPA call over the same, expanded cache; a group's heads as its queries.

    Args:
        groups: Query heads a key/value head.
        heads: Query rows to fill a group up to; some kernels treat fewer than four differently.
    """

    floor = 1

    def __init__(self, groups: int, heads: int, device: torch.device, dtype: torch.dtype) -> None:
        self.name = f"batched-{max(groups, heads)}"
        self._groups, self._heads, self._device, self._dtype = groups, max(groups, heads), device, dtype

    def prepare(self, start: int, rows: int) -> Tensor:
        return _mask(start, rows, self._device, self._dtype)[:, None, None]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, prepared: Tensor) -> Tensor:
        rows, span = len(q), prepared.shape[-1]
        q = q.view(rows, len(k), -1, k.shape[-1])
        if self._heads > self._groups:
            q = F.pad(q, (0, 0, 0, self._heads - self._groups))
        k, v = (x[None, :, :span].expand(rows, -1, -1, -1) for x in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=prepared)
        return out[:, :, : self._groups].reshape(rows, -1)


class Single:
    """One SDPA call a row, over exactly the slots that it sees: row-invariant by construction."""

    name = "single"
    floor = 1

    def prepare(self, start: int, rows: int) -> range:
        return range(start + 1, start + rows + 1)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, prepared: range) -> Tensor:
        q = q.view(len(q), len(k), -1, k.shape[-1])
        rows = [
            F.scaled_dot_product_attention(q[None, r], k[None, :, :end], v[None, :, :end]).flatten()
            for r, end in enumerate(prepared)
        ]
        return torch.stack(rows)


def candidates(groups: int, device: torch.device, dtype: torch.dtype) -> list[Attention]:
    """Every way, the fastest first. The order is fixed: the same machine must always choose the same."""
    stacked = [Stacked(groups, floor, device, dtype) for floor in (1, 2, 4, 8) if floor * groups <= 16]
    batched = [Batched(groups, heads, device, dtype) for heads in (1, 4, 8) if heads == 1 or heads > groups]
    return [*stacked, *batched, Single()]
