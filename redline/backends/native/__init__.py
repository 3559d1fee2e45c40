"""The native engine: Llama, Mistral, Qwen2 and Qwen3 models in torch, exact to the bit.

Weights are held once, in float32 on a CPU (four bytes a weight) and in bfloat16 on CUDA unless told
otherwise; a quantised embedding stays quantised. On two AVX-512 cores, SmolLM2-135M (Q4_1) opens in 1.4 s
and takes 0.95 GB with torch itself, Qwen2.5-Coder-1.5B (Q4_K_M) in 11 s and 6.6 GB; 0.3 to 1.4 s of that
go into measuring that rows keep their bits (`check`).

torch computes with one thread a core unless told otherwise, and results do not depend on their number.
Beside other busy processes fewer threads are much faster, since threads wait for each other.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

from redline.backends.gguf_file import read
from redline.backends.native import config as shapes
from redline.backends.native.backend import NativeBackend
from redline.backends.native.load import build
from redline.backends.native.weights import FolderSource, GGUFSource, Source
from redline.backends.tokenizer import from_folder, from_gguf
from redline.core.errors import OptionError, is_whole

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
    if threads is not None:
        most = 4 * (os.cpu_count() or 1)
        if not is_whole(threads) or not 1 <= threads <= most:
            raise OptionError(f"threads is {threads!r}.", f"It must be from 1 to {most} on this machine.")
        torch.set_num_threads(threads)
    place = _device(device)
    kind = _dtype(dtype, place)
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
    return NativeBackend(path.stem if path.is_file() else path.name, model, tokenizer, place, kind)


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise OptionError(f"There is no device named {name!r}.", 'Use "cpu", "cuda" or "cuda:1".') from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"This torch sees no CUDA device for {name!r}.", 'Use "cpu".')
    return device


def _dtype(name: str | None, device: torch.device) -> torch.dtype:
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name is None:
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in kinds:
        raise OptionError(f"There is no dtype named {name!r}.", f"Use one of {', '.join(kinds)}.")
    return kinds[name]
