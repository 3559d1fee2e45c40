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

from redline.backends.gguf_file import read
from redline.backends.native import config as shapes
from redline.backends.native.backend import NativeBackend
from redline.backends.native.load import build
from redline.backends.native.weights import FolderSource, GGUFSource, Source
from redline.backends.tokenizer import from_folder, from_gguf
from redline.backends.torch_options import find_device, find_dtype, set_threads

__all__ = ["NativeBackend", "load"]


def load(
    path: Path,
    *,
    device: str | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    context: int | None = None,
) -> NativeBackend:
    """Load a GGUF file or a folder of safetensors; see `redline.backends.open`."""
    set_threads(threads)
    place = find_device(device)
    kind = find_dtype(dtype, place)
    if path.is_dir():
        config = shapes.from_folder(path, context)
        source: Source = FolderSource(path)
        tokenizer = from_folder(path)
    else:
        file = read(path)
        config = shapes.from_gguf(file, context)
        source = GGUFSource(file)
        tokenizer = from_gguf(file)
    with torch.inference_mode():
        model = build(config, source, place, kind)
    _trim()
    return NativeBackend(path.stem if path.is_file() else path.name, model, tokenizer, place, kind)


def _trim() -> None:
    """Hand freed memory back: what packing leaves between the weights is up to 2 GB that glibc would keep."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
