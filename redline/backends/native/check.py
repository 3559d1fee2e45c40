"""Does a row get the same bits whatever stands beside it? Measured when a model is loaded, never assumed.

The answers differ between machines: packed linear layers agree for all numbers of rows on AVX2, but on
AVX-512, for more than 1,024 inputs, one row differs from two and more (so one row is read as two). Every
answer is kept for the process. Nothing is chosen by a clock, so that the same machine computes the same
bits every time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from redline.backends.native.attention import SPAN, Attention, Blocked, Single
from redline.backends.native.config import Config
from redline.backends.native.linear import Linear, pack
from redline.backends.native.plan import ROWS

T = TypeVar("T")
_FLOORS = (1, 2, 4, 8, 16)
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 24, 31, 32, 33, 48, 63, ROWS)
_DISTINCT = 256  # rows of weights that are not yet repeated
_LARGE = 1 << 24  # weights of an output layer: fewer sizes must do
_SPANS = (*(SPAN * n for n in range(1, 17)), 2560, 3200, 4224, 6016, 8064)
_RUNS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 24, 31, 33, 48, 63)
_KNOWN: dict[tuple[object, ...], object] = {}


def _once(key: tuple[object, ...], measure: Callable[[], T]) -> T:
    key = (*key, torch.get_num_threads())
    if key not in _KNOWN:
        _KNOWN[key] = measure()
    return cast(T, _KNOWN[key])


def _random(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def linear_floor(layer: Linear, use: str, device: torch.device, dtype: torch.dtype) -> int | None:
    """The fewest rows from which on a layer's results do not depend on their number; None if there are none.

    Args:
        layer: The layer.
        use: What the model calls: "" for the layer itself, or "swish", "times" or "plus".
        device, dtype: Of its rows.
    """
    way, given = _trial(layer, use, device, dtype)
    whole = way(*given)
    sizes = _SIZES if layer.inputs * layer.outputs < _LARGE else _SIZES[:3] + _SIZES[6::4]

    def differs(n: int) -> bool:
        """Whether so many rows, the first or the last of them, are not what they are among all."""
        ends = (slice(0, n), slice(ROWS - n, ROWS))
        return any(not torch.equal(way(*(x[at] for x in given)), whole[at]) for at in ends)

    wrong = [n for n in sizes if differs(n)]
    return next((floor for floor in _FLOORS if floor > max(wrong, default=0)), None)


def _trial(
    layer: Linear, use: str, device: torch.device, dtype: torch.dtype
) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """What to call, and with which rows, to see whether sums are made in one order."""
    narrow = layer.dtype.itemsize < torch.float32.itemsize
    layer, x = _cancelling(layer, device) if narrow else (layer, _random(0, ROWS, layer.inputs))
    given = [x]
    if use == "plus" and narrow:
        given.append(torch.zeros(ROWS, layer.outputs))  # anything else would hide what the sums leave
    elif use in ("times", "plus"):
        given.append(_random(1, ROWS, layer.outputs))
    return getattr(layer, use) if use else layer, [rows.to(device, dtype) for rows in given]


def _cancelling(layer: Linear, device: torch.device) -> tuple[Linear, Tensor]:
    """A layer of the same shape and dtype, and rows for it, whose sums are zero but for their rounding.

    Sums made in two orders differ far below the last bit of a bfloat16, so that a few rounded ones mostly
    agree, while a pass through a whole model does not. Where nothing is left but what was rounded on the
    way, all of it is seen.
    """
    half = layer.inputs // 2
    order = torch.randperm(half, generator=torch.Generator().manual_seed(7))
    odd = (0, layer.inputs - 2 * half)
    some = _random(5, min(layer.outputs, _DISTINCT), half).to(layer.dtype)
    some = F.pad(torch.cat([some, -some[:, order]], 1), odd)
    weight = some.to(device).repeat(-(-layer.outputs // len(some)), 1)[: layer.outputs]
    rows = _random(6, ROWS, half).to(layer.dtype)
    bias = weight.new_zeros(layer.outputs) if layer.biased else None
    return pack(weight, bias), F.pad(torch.cat([rows, rows[:, order]], 1), odd)


def attention_holds(way: Attention, config: Config, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a row's attention is the same bits in runs of any length, at short and long caches."""
    spans = [span for span in _SPANS if span == SPAN or span <= config.context]
    k, v = (_random(seed, config.kv_heads, max(spans), config.head_dim).to(device, dtype) for seed in (2, 3))
    q = _random(4, 2 * ROWS, config.heads, config.head_dim).to(device, dtype)

    def rows(first: int, count: int, start: int) -> Tensor:
        given = way.given(count)
        return way(q[first : first + given], k, v, way.prepare(start + first, given))[:count]

    for i, span in enumerate(spans):
        start = span - ROWS
        whole = rows(0, ROWS, start)
        counts = (
            _RUNS if span in (SPAN, 5 * SPAN) else (1, 2, _RUNS[i % len(_RUNS)], _RUNS[-1 - i % len(_RUNS)])
        )
        for count in counts:
            first = (i * 5 + count) % (ROWS - count)
            if not torch.equal(rows(first, count, start), whole[first : first + count]):
                return False
    return True


def linear(uses: list[tuple[Linear, str]], device: torch.device, dtype: torch.dtype) -> int | None:
    """One floor for all of these layers as they are used, or None if some layer has none."""
    most = 1
    for layer, use in uses:
        kind = (type(layer), layer.dtype, layer.inputs, layer.outputs, layer.biased)
        key = ("linear", *kind, use, device, dtype)
        floor = _once(key, partial(linear_floor, layer, use, device, dtype))
        if floor is None:
            return None
        most = max(most, floor)
    return most


def attention(config: Config, device: torch.device, dtype: torch.dtype) -> Attention:
    """The faster way of computing attention if it is row-invariant for these heads, else the other."""
    shape = (config.heads, config.kv_heads, config.head_dim, min(config.context, max(_SPANS)))

    def choose() -> Attention:
        way = Blocked(config.groups, device, dtype)
        return way if attention_holds(way, config, device, dtype) else Single()

    return _once(("attention", shape, device, dtype), choose)
