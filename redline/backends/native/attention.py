"""Attention of a few consecutive rows of one text over its cache, in two ways of adding up.

Both give the same numbers up to rounding; `check.attention` finds out whether the fast one gives a row
the same *bits* whatever rows stand beside it, on this machine and for this model's head shapes.

Both take queries (rows, heads, head_dim), keys and values (kv_heads, capacity, head_dim), and what their
own `prepare` made for these rows; row r sees the cache slots 0 … start + r, and all of them end in the
same span. Results are (rows, heads · head_dim).
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

_BLOCK = 32
"""Query rows that torch's CPU kernel puts into one matrix product; its other block sizes are multiples."""


def spanned(length: int) -> int:
    """`length` rounded up to a whole number of spans."""
    return -(-length // SPAN) * SPAN


class Attention(Protocol):
    """One way of computing attention. `name` is for records."""

    name: str

    def given(self, rows: int) -> int:
        """How many rows it must be given for so many; the caller borrows rows and drops their results."""
        ...

    def prepare(self, start: int, rows: int) -> Any:
        """What depends only on where the rows stand; made once and used in every layer."""
        ...

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, prepared: Any) -> Tensor: ...


class Blocked:
    """One SDPA call for all rows: the query heads of a key/value head, row after row, are its queries.

    torch's CPU kernel cuts the queries into blocks and computes each block on one thread, so a row's
    sums do not depend on the number of threads, and on its block's size only where a block has fewer
    than four rows: the matrix products under it treat those differently. Such blocks are avoided.
    Larger kernels for the same purpose (`baddbmm`, softmax, `bmm`) are no faster, and their bits change
    with the way in which MKL spreads a product over threads.
    """

    name = "blocked"

    def __init__(self, groups: int, device: torch.device, dtype: torch.dtype) -> None:
        self._groups, self._device, self._dtype = groups, device, dtype

    def given(self, rows: int) -> int:
        while rows * self._groups % _BLOCK in (1, 2, 3):
            rows += 1
        return rows

    def prepare(self, start: int, rows: int) -> Tensor:
        slots = torch.arange(spanned(start + 1), device=self._device)
        hidden = slots > torch.arange(start, start + rows, device=self._device).unsqueeze(1)
        mask = torch.zeros(hidden.shape, device=self._device, dtype=self._dtype)
        return mask.masked_fill_(hidden, -math.inf).repeat_interleave(self._groups, 0)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, prepared: Tensor) -> Tensor:
        rows, span = len(q), prepared.shape[-1]
        kv_heads, _, width = k.shape
        q = q.view(rows, kv_heads, -1, width).transpose(0, 1).reshape(1, kv_heads, -1, width)
        k, v = k[None, :, :span], v[None, :, :span]
        if kv_heads == 1:  # a single block would be spread over threads; two are not
            q, k, v = (x.expand(2, -1, -1, -1) for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=prepared)[0]
        return out.reshape(kv_heads, rows, -1).transpose(0, 1).reshape(rows, -1)


class Single:
    """One SDPA call a row, over exactly the slots that it sees: row-invariant by construction."""

    name = "single"

    def given(self, rows: int) -> int:
        return rows

    def prepare(self, start: int, rows: int) -> range:
        return range(start + 1, start + rows + 1)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, prepared: range) -> Tensor:
        q = q.view(len(q), len(k), -1, k.shape[-1])
        rows = [
            F.scaled_dot_product_attention(q[None, r], k[None, :, :end], v[None, :, :end]).flatten()
            for r, end in enumerate(prepared)
        ]
        return torch.stack(rows)
