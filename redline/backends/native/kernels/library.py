"""The compiled library, and its structs as ctypes has them; kernels.h and variants.h say what they mean."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

_I32, _I64, _FLOAT, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
_HERE = Path(__file__).parent


class Matrix(ctypes.Structure):
    _fields_ = (
        ("kind", _I32),
        ("outputs", _I64),
        ("inputs", _I64),
        ("codes", _POINTER),
        ("scales", _POINTER),
    )


Parts = Matrix * 4


class Layers(ctypes.Structure):
    _fields_ = (("count", _I32), ("parts", Parts), ("bias", _POINTER))


class Row(ctypes.Structure):
    _fields_ = (
        ("keys", _POINTER),
        ("values", _POINTER),
        ("layer", _I64),
        ("head", _I64),
        ("slot", _I64),
        ("settled", _I64),
        ("nodes", _I64),
        ("line", _POINTER),
        ("turn", _POINTER),
    )


class Block(ctypes.Structure):
    _fields_ = (
        ("norm", _POINTER),
        ("mlp_norm", _POINTER),
        ("head_norm", _POINTER),
        ("qkv", Layers),
        ("out", Layers),
        ("gate", Layers),
        ("up", Layers),
        ("down", Layers),
    )


class Model(ctypes.Structure):
    _fields_ = (
        ("hidden", _I64),
        ("heads", _I64),
        ("kv_heads", _I64),
        ("width", _I64),
        ("inner", _I64),
        ("blocks", _I64),
        ("eps", _FLOAT),
        ("block", ctypes.POINTER(Block)),
    )


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "redline_variant": (ctypes.c_char_p, [_I32, ctypes.POINTER(_I32)]),
    "redline_kind": (_I32, [_I32]),
    "redline_codes_bytes": (_I64, [_I32, _I64]),
    "redline_scales_bytes": (_I64, [_I32, _I64]),
    "redline_pack": (None, [_I32, _POINTER, _I64, _I64, _I64, _I64, _POINTER, _POINTER]),
    "redline_rows": (_I32, [_I32, _POINTER, _POINTER, _I64, _POINTER]),
    "redline_linear": (
        _I32,
        [_I32, _POINTER, _POINTER, _I64, _POINTER, _FLOAT, _I32, _POINTER, _POINTER, _I32],
    ),
    "redline_forward": (_I32, [_I32, _POINTER, _I64, _I64, _POINTER, _I64, _POINTER, _I32, _I32]),
}


def is_built() -> bool:
    """Whether there is a library: there is none where redline was installed without a C compiler."""
    return any(_HERE.glob("_kernels*.so"))


def fault() -> str:
    """Why there is nothing to call, and what to do; empty where there is."""
    if not is_built():
        return "Redline's kernels were not built: install a C compiler, then redline again."
    try:
        load()
    except (OSError, AttributeError) as error:
        return f"Redline's kernels are damaged or of another version ({error}): install redline again."
    return ""


@cache
def load() -> ctypes.CDLL:
    """The library.

    torch must have been imported before: the library then shares its threads, and they do not wait for
    each other's.
    """
    library = ctypes.CDLL(str(next(_HERE.glob("_kernels*.so"))))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
