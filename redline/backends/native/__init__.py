"""The native engine: Llama, Mistral, Qwen2 and Qwen3 in kernels of its own or in torch, exact to the bit.

Weights are held once: a GGUF file's on a CPU in the file's own bits, by `kernels`; else in float32 on a CPU
and in bfloat16 on CUDA unless told otherwise. In bfloat16 on a CPU whose torch can pack that, only the
linear layers are in it, and rows, keys and values in float32. On two AVX-512 cores Qwen2.5-Coder-1.5B
(Q4_K_M) opens in 5 s and takes 1.6 GB with torch itself; in float32 it is 24 s and 6.6 GB (3.6 in bfloat16).

torch computes with one thread a core unless told otherwise, and results do not depend on their number.
Beside other busy processes fewer threads are much faster, since threads wait for each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
from pathlib import Path

import torch

from redline.backends.gguf_file import read, weights_type
from redline.backends.native import config as shapes
from redline.backends.native import kernels
from redline.backends.native.backend import NativeBackend
from redline.backends.native.coded import CodedModel
from redline.backends.native.kernels import Kernels
from redline.backends.native.load import build, build_coded
from redline.backends.native.model import Model
from redline.backends.native.weights import FolderSource, GGUFSource
from redline.backends.tokenizer import from_folder, from_gguf
from redline.backends.torch_options import find_device, find_dtype, set_threads
from redline.core.errors import OptionError

__all__ = ["NativeBackend", "load"]

_log = logging.getLogger("redline")


def load(
    path: Path,
    *,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    context: int | None = None,
) -> NativeBackend:
    """Load a GGUF file or a folder of safetensors; see `redline.backends.open`."""
    set_threads(threads)
    place = find_device(device)
    numbers = _kernels(precision) if place.type == "cpu" and path.is_file() else None
    if precision == "file" and numbers is None:
        raise OptionError(
            f"{path.name} on {place} has no numbers of its own to keep.",
            "Leave the precision out; a GGUF file on a CPU has.",
        )
    kind = torch.float32 if numbers else find_dtype(precision, place)
    held = str(kind).removeprefix("torch.")
    model: Model | CodedModel
    with torch.inference_mode():
        if path.is_dir():
            config, tokenizer = shapes.from_folder(path, context), from_folder(path)
            model = build(config, FolderSource(path), place, kind)
        else:
            file = read(path)
            config, tokenizer, source = shapes.from_gguf(file, context), from_gguf(file), GGUFSource(file)
            if numbers:
                model, held = build_coded(config, source, numbers), weights_type(file)
            else:
                model = build(config, source, place, kind)
    _trim()
    return NativeBackend(path.stem if path.is_file() else path.name, model, tokenizer, place, held)


def is_fast(device: str | None) -> bool:
    """Whether a GGUF file is read at a device's full speed: on a GPU, or in its few bits by the kernels."""
    return find_device(device).type != "cpu" or not kernels.lacking()


def _kernels(precision: str | None) -> Kernels | None:
    """What holds a file's own numbers on a CPU; None where floats are asked for, or are the better choice.

    Raises:
        OptionError: A file's numbers are asked for, and there are no kernels.
    """
    if precision not in (None, "file"):
        return None
    numbers, lacking = kernels.find(), kernels.lacking()
    if precision is None and lacking:
        _log.warning("Weights are held in float32: slower, and four bytes each. %s", lacking)
        return None
    if numbers is None:
        raise OptionError("Only redline's kernels keep a file's own numbers, and there are none.", lacking)
    return numbers


def _trim() -> None:
    """Hand freed memory back: what packing leaves between the weights is up to 2 GB that glibc would keep."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
