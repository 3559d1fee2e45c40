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
        self.biased = bias is not None
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
    """oneDNN's own weight layout. Float32 on a CPU only.

    What follows the product is done by the same kernel, which also keeps silu row-invariant: torch's own
    treats the last few elements of a thread's share differently from the rest.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.outputs, self.inputs = weight.shape
        self.biased = bias is not None
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


def pack(weight: Tensor, bias: Tensor | None) -> Linear:
    """The fastest linear layer there is for this weight, shape (outputs, inputs).

    The packed form is a copy: drop the weight after this.
    """
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        try:
            return Packed(weight, bias)
        except (AttributeError, RuntimeError, NotImplementedError):  # a torch built without oneDNN
            pass
    return Plain(weight, bias)
