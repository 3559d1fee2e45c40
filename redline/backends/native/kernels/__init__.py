"""Products, attention and whole passes with the very numbers of a GGUF file: 4 to 16 bits a weight.

The library is plain C, knows nothing of Python or torch, and is called through ctypes. It is built when
redline is installed, where there is a C compiler. See docs/kernels.md for its layout and the order of its
sums, which is why a row's bits never depend on the other rows of a pass.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redline.backends.gguf_file import Stored
from redline.backends.native.kernels import library as c
from redline.core.errors import OptionError

VARIANT = "REDLINE_KERNELS"
"""The environment variable that names a variant, as "avx2", instead of the fastest; "none" for no kernels."""

_LANES = 16
_AFTER = {"": 0, "swish": 1, "times": 2, "plus": 3}


class Matrix:
    """A weight in panels of 16 outputs.

    Attributes:
        outputs, inputs: Its shape.
        struct: For C.
    """

    def __init__(self, kind: int, outputs: int, inputs: int, codes: Tensor, scales: Tensor) -> None:
        self.outputs, self.inputs = outputs, inputs
        self._codes, self._scales = codes, scales
        self.struct = c.Matrix(kind, outputs, inputs, codes.data_ptr(), scales.data_ptr())

    def first(self, outputs: int) -> Matrix:
        return Matrix(self.struct.kind, outputs, self.inputs, self._codes, self._scales)


class Layers:
    """Matrices one below the other that read the same rows, and a bias over all their outputs.

    Attributes:
        outputs, inputs: The shape of all together.
        parts: The matrices, at most four.
        struct: For C.
    """

    def __init__(self, parts: list[Matrix], bias: Tensor | None = None) -> None:
        self.inputs, self.outputs = parts[0].inputs, sum(part.outputs for part in parts)
        self.parts, self._bias = parts, bias
        pointer = None if bias is None else bias.data_ptr()
        self.struct = c.Layers(len(parts), c.Parts(*(part.struct for part in parts)), pointer)

    def first(self, outputs: int) -> Layers:
        """Of a single matrix, the first outputs alone; the memory is the same."""
        (whole,) = self.parts
        return Layers([whole.first(outputs)], None if self._bias is None else self._bias[:outputs])


class Kernels:
    """The library in one of its variants.

    Attributes:
        name: Of the variant; docs/kernels.md lists them.
    """

    def __init__(self, variant: int, name: str) -> None:
        self._c, self._variant, self.name = c.load(), variant, name

    def keeps(self, kind: int) -> bool:
        """Whether weights of this GGUF type are kept as they are."""
        return bool(self._c.redline_kind(kind) >= 0)

    def pack(self, stored: Stored, order: NDArray[np.int64] | None = None) -> Matrix:
        """A stored matrix in panels.

        Args:
            stored: Shape (outputs, inputs), of a type that `keeps`.
            order: Which of its rows, shape (n,), and in which order; all as they are when left out.
        """
        kind = self._c.redline_kind(stored.kind)
        outputs, inputs = stored.shape
        raw = np.ascontiguousarray(stored.data)
        if order is not None:
            raw, outputs = raw.reshape(outputs, -1)[order], len(order)
        panels = -(-outputs // _LANES)
        codes = torch.zeros(panels * self._c.redline_codes_bytes(kind, inputs), dtype=torch.uint8)
        scales = torch.zeros(panels * self._c.redline_scales_bytes(kind, inputs), dtype=torch.uint8)
        workers = torch.get_num_threads()

        def fill(part: int) -> None:
            first, last = panels * part // workers, panels * (part + 1) // workers
            where = (raw.ctypes.data, outputs, inputs, first, last, codes.data_ptr(), scales.data_ptr())
            self._c.redline_pack(stored.kind, *where)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(fill, range(workers)))
        return Matrix(kind, outputs, inputs, codes, scales)

    def rows(self, matrix: Matrix, outputs: list[int]) -> Tensor:
        """The weights of some outputs, shape (n, inputs)."""
        which = torch.tensor(outputs)
        out = torch.empty(len(outputs), matrix.inputs)
        place = ctypes.byref(matrix.struct)
        _check(self._c.redline_rows(self._variant, place, which.data_ptr(), len(outputs), out.data_ptr()))
        return out

    def linear(
        self,
        layers: Layers,
        x: Tensor,
        after: Literal["", "swish", "times", "plus"] = "",
        other: Tensor | None = None,
        norm: tuple[Tensor, float] | None = None,
    ) -> Tensor:
        """x Wᵀ + bias and what follows, shape (rows, outputs).

        Args:
            layers: The weights.
            x: Rows, (rows, inputs), contiguous.
            after: silu of it, or a product or sum with `other`.
            other: (rows, outputs), contiguous.
            norm: Weight, (inputs,), and eps of an RMS norm that x goes through before.
        """
        out, (weight, eps) = torch.empty(len(x), layers.outputs), norm or (None, 0.0)
        _check(
            self._c.redline_linear(
                self._variant,
                ctypes.byref(layers.struct),
                x.data_ptr(),
                len(x),
                None if weight is None else weight.data_ptr(),
                eps,
                _AFTER[after],
                None if other is None else other.data_ptr(),
                out.data_ptr(),
                torch.get_num_threads(),
            )
        )
        return out

    def forward(
        self, model: c.Model, blocks: range, rows: ctypes.Array[c.Row], x: Tensor, only_store: bool
    ) -> None:
        """Take rows through some blocks of a model, in place; see forward.c.

        Args:
            model: The weights.
            blocks: Which.
            rows: What each row sees, and where its keys and values go.
            x: The residuals, (rows, hidden), contiguous.
            only_store: The last block is left when its keys and values are stored.
        """
        place, threads, x_at = ctypes.byref(model), torch.get_num_threads(), x.data_ptr()
        first, last = blocks.start, blocks.stop
        _check(
            self._c.redline_forward(
                self._variant, place, first, last, rows, len(rows), x_at, only_store, threads
            )
        )


def find() -> Kernels | None:
    """The kernels in the fastest variant that this processor runs; None where there are none, see `lacking`.

    Raises:
        OptionError: The environment names a variant that is not there.
    """
    asked = os.environ.get(VARIANT)
    if asked == "none" or c.fault():
        return None
    found = [(at, name) for at, name, runs in variants() if runs]
    for at, name in found:
        if asked in (None, "", name):
            return Kernels(at, name)
    here = ", ".join(name for _, name in found)
    raise OptionError(f"{VARIANT} is {asked!r}.", f"This processor runs {here}; or use none.")


def lacking() -> str:
    """Why kernels are not what is fastest here, and what to do; empty where they are.

    Raises:
        OptionError: The environment names a variant that is not there.
    """
    asked, numbers = os.environ.get(VARIANT), find()
    if asked == "none":
        return f"{VARIANT} is none."
    if numbers is None:
        return c.fault()
    if numbers.name == "portable" and asked != "portable":
        return "This processor has neither AVX2 nor NEON, and redline's kernels in plain C are slow."
    return ""


def variants() -> Iterator[tuple[int, str, bool]]:
    """Place, name and whether it runs here, of each that was built, the fastest first."""
    at, runs = 0, ctypes.c_int32()
    while name := c.load().redline_variant(at, ctypes.byref(runs)):
        yield at, name.decode(), bool(runs.value)
        at += 1


def _check(code: int) -> None:
    if code == 2:
        raise MemoryError("There is no room for a pass's rows.")
    if code:
        raise RuntimeError("The kernels were called with something that they do not have.")
