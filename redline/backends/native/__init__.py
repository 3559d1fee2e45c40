"""The native engine: Llama, Mistral, Qwen2 and Qwen3 models in torch, exact to the bit.

Weights are held once, in float32 on a CPU (four bytes a weight) and in bfloat16 on CUDA unless told
otherwise; a quantised embedding stays quantised. In bfloat16 on a CPU whose torch can pack that, only the
linear layers are in it, and rows, keys and values in float32. On two AVX-512 cores, SmolLM2-135M (Q4_1)
opens in 1.4 s and takes 0.95 GB with torch itself, Qwen2.5-Coder-1.5B (Q4_K_M) in 11 s and 6.6 GB (3.6 in
bfloat16); 0.3 to 1.4 s of that go into measuring that rows keep their bits (`check`).

torch computes with one thread a core unless told otherwise, and results do not depend on their number.
Beside other busy processes fewer threads are much faster, since threads wait for each other.
"""

from __future__ import annotations

import contextlib
import ctypes
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

_BUILD = "They are built with redline where there is a C compiler: install one, then redline again."


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
    numbers = _kernels(precision, place, path)
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


def _kernels(precision: str | None, device: torch.device, path: Path) -> Kernels | None:
    """The kernels that hold a file's own numbers, where those are wanted and can be had.

    Raises:
        OptionError: They were asked for, and cannot.
    """
    if precision != "file":
        return None
    if device.type != "cpu" or not path.is_file():
        raise OptionError(
            f"{path.name} on {device} has no numbers of its own to keep.",
            "Leave the precision out; a GGUF file on a CPU has.",
        )
    numbers = kernels.find()
    if numbers is None:
        raise OptionError("redline's kernels are not here, so a file's numbers cannot be kept.", _BUILD)
    return numbers


def _trim() -> None:
    """Hand freed memory back: what packing leaves between the weights is up to 2 GB that glibc would keep."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
