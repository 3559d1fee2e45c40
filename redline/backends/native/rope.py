"""Rotary positions: pairs of a head's numbers stand side by side and are turned by their position's angle.

In products and sums of real numbers, each of which rounds in one way only. torch's complex product would
be one call, but rounds the last few elements of a thread's share differently from the rest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from redline.backends.native.config import Config

_BLOCK = 1024
"""Positions to compute at a time. Blocks are always whole, so that a position's bits never depend on
which positions were asked for before."""


class Rotary:
    """The angles of every position, computed as positions are first reached.

    Angles are float32 products of a position and a frequency, as the models were trained with.
    """

    def __init__(self, config: Config, device: torch.device) -> None:
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
        self._frequencies = 1.0 / (config.theta**exponents)
        if config.slow_down is not None:
            self._frequencies /= torch.tensor(config.slow_down)
        self._device = device
        self._table = torch.empty((0, 2, config.head_dim), device=device)

    def __call__(self, positions: list[int]) -> Tensor:
        """The rotations of some positions, shape (n, 2, 1, head_dim): cosines, and sines with signs."""
        while max(positions) >= len(self._table):
            at = torch.arange(len(self._table), len(self._table) + _BLOCK).float()
            angles = torch.outer(at, self._frequencies)
            cosines = torch.stack([angles.cos(), angles.cos()], -1).flatten(1)
            sines = torch.stack([-angles.sin(), angles.sin()], -1).flatten(1)
            self._table = torch.cat([self._table, torch.stack([cosines, sines], 1).to(self._device)])
        return self._table[positions].unsqueeze(2)


def rotate(x: Tensor, rotations: Tensor) -> Tensor:
    """Turn heads (n, heads, head_dim) by their rows' rotations (n, 2, 1, head_dim)."""
    cosines, sines = rotations.unbind(1)
    wide = x.float()
    swapped = wide.view(*x.shape[:2], -1, 2).flip(-1).view(x.shape)
    turned: Tensor = wide * cosines + swapped * sines
    return turned.to(x.dtype)


def side_by_side(rows: Tensor, head_dim: int) -> Tensor:
    """Reorder the rows (heads · head_dim, …) of a projection from half-and-half pairs to neighbours."""
    heads = rows.view(-1, 2, head_dim // 2, *rows.shape[1:])
    return heads.transpose(1, 2).flatten(0, 2).contiguous()
