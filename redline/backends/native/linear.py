"""Linear layers: oneDNN-packed where torch has that, plain elsewhere.

Packed weights make a pass over a few rows cost nearly what one row costs, and give every row the same
bits whatever stands beside it (`check.linear_floor` measures it). The operators are private to torch,
so this module is the only one that names them.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

_BATCH = 16
"""Rows to pack for. Packed for one row, the kernel for one row differs from the others in its last bits."""


class Linear(Protocol):
    """y = x Wᵀ + b with what follows it in a Llama block. Rows are (n, inputs), results (n, outputs)."""

    inputs: int
    outputs: int
    biased: bool
    dtype: torch.dtype
    """Of the weights; rows and results may be wider (`rows_dtype`)."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def swish(self, x: Tensor) -> Tensor:
        """silu(y)."""
        ...

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """y · other, elementwise."""
        ...

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """y + other."""
        ...


class Plain:
    """`F.linear`: any device, any dtype; its bits usually depend on how many rows there are."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.outputs, self.inputs = weight.shape
        self.biased, self.dtype = bias is not None, weight.dtype
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)

    def swish(self, x: Tensor) -> Tensor:
        return F.silu(self(x))

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x) * other

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x) + other


class Packed:
    """oneDNN's own weight layout, in float32 on a CPU.

    What follows the product is done by the same kernel, which also keeps silu row-invariant: torch's own
    treats the last few elements of a thread's share differently from the rest.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.outputs, self.inputs = weight.shape
        self.biased, self.dtype = bias is not None, weight.dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _BATCH)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return self._then(x, "none")

    def swish(self, x: Tensor) -> Tensor:
        return self._then(x, "swish")

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self._with(x, other, "mul")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self._with(x, other, "add")

    def _then(self, x: Tensor, what: str) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, what, [], "")
        return y

    def _with(self, x: Tensor, other: Tensor, what: str) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, self._weight, self._bias, what)
        return y


class PackedHalf(Packed):
    """The same in bfloat16, which is half the bytes to read. Rows may be float32 and results are.

    The rest of a pass would be no faster in bfloat16, and less exact. Only what comes out of `swish` and
    `times` stays in it, since the next layer would round it anyway.
    """

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x.bfloat16()).float()

    def swish(self, x: Tensor) -> Tensor:
        return super().swish(x.bfloat16())

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return super().times(x.bfloat16(), other.bfloat16())

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return super().__call__(x.bfloat16()) + other


def pack(weight: Tensor, bias: Tensor | None) -> Linear:
    """The fastest linear layer there is for this weight, shape (outputs, inputs).

    The packed form is a copy: drop the weight after this.
    """
    return _kind(weight.device, weight.dtype)(weight, bias)


def rows_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The dtype of rows that go through layers whose weights are of this dtype."""
    return torch.float32 if _kind(device, dtype) is PackedHalf else dtype


def _kind(device: torch.device, dtype: torch.dtype) -> type[Plain] | type[Packed]:
    """The class for such weights; one that packs is tried first."""
    kind = _PACKED.get(dtype)
    if device.type != "cpu" or kind is None:
        return Plain
    try:
        if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return Plain
        kind(torch.zeros((_BATCH, _BATCH), dtype=dtype), None)
    except (AttributeError, RuntimeError, NotImplementedError):  # a torch built without oneDNN
        return Plain
    return kind


_PACKED = {torch.float32: Packed, torch.bfloat16: PackedHalf}
