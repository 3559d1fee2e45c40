"""A model's weights in llama.cpp, and the choices made when they are loaded."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from redline.backends.gguf_file import GGUFFile
from redline.backends.llamacpp.library import forget_errors, library, said
from redline.core.errors import ContextError, ModelError, OptionError

_SPARE = 1.05  # weights, and a little for everything else


class Model:
    """Weights, until `close`.

    Args:
        file: The GGUF file, whose header has been read: that finds what is no GGUF or cut short.
        gpu_layers: Layers to keep on a GPU; all where this build has one, when None.

    Attributes:
        handle: llama.cpp's own.
        vocab: llama.cpp's vocabulary.
        vocab_size: Width of a row of logits.
        trained_context: Positions that the model was trained for.
        window: Positions that some layers see at most; 0 where all see everything.
        precision: What the file calls its weights, such as "Q4_K_M".
        device: "cpu" or "gpu".

    Raises:
        ModelError: llama.cpp cannot run the file, or there is not the memory for it.
        OptionError: Layers were asked onto a GPU that there is none of.
    """

    def __init__(self, file: GGUFFile, gpu_layers: int | None) -> None:
        lib = library()
        offload = bool(lib.llama_supports_gpu_offload())
        if gpu_layers and not offload:
            raise OptionError(
                f"{gpu_layers} layers cannot go to a GPU: this llama.cpp was built without one.",
                "Leave --gpu-layers out, or build llama-cpp-python for the GPU, with "
                "CMAKE_ARGS=-DGGML_CUDA=on for one.",
            )
        check_memory(file.path)
        params = lib.llama_model_default_params()
        params.n_gpu_layers = (-1 if offload else 0) if gpu_layers is None else gpu_layers
        forget_errors()
        self.handle: Any = lib.llama_model_load_from_file(os.fsencode(file.path), params)
        if not self.handle:
            raise ModelError(
                f"llama.cpp cannot load {file.path.name}: {said()}.",
                "Update llama-cpp-python if the architecture is new, or convert the model again.",
            )
        if not lib.llama_model_has_decoder(self.handle) or lib.llama_model_has_encoder(self.handle):
            self.close()
            raise ModelError(
                f"{file.path.name} is not a model that writes on from a text.", "Use a causal language model."
            )
        self.vocab: Any = lib.llama_model_get_vocab(self.handle)
        self.vocab_size = int(lib.llama_vocab_n_tokens(self.vocab))
        self.trained_context = int(lib.llama_model_n_ctx_train(self.handle))
        name = lib.llama_ftype_name(lib.llama_model_ftype(self.handle)) or b"unknown"
        self.window = int(lib.llama_model_n_swa(self.handle))
        self.precision = _short(name.decode())
        self.device = "gpu" if params.n_gpu_layers else "cpu"

    def context_of(self, asked: int | None) -> int:
        """Positions that a text may have.

        Raises:
            ContextError: More were asked for than the model was trained for.
        """
        if asked is None:
            return self.trained_context
        if not 0 < asked <= self.trained_context:
            raise ContextError(
                f"A context of {asked} was asked for, and the model has {self.trained_context} positions.",
                f"Ask for 1 to {self.trained_context}.",
            )
        return asked

    def close(self) -> None:
        if self.handle:
            library().llama_model_free(self.handle)
            self.handle = None


def check_memory(path: Path) -> None:
    """Refuse a model that the machine cannot hold, before it begins to swap.

    Raises:
        ModelError: The file is larger than the memory that is free.
    """
    need, free = int(path.stat().st_size * _SPARE), free_memory()
    if free is not None and need > free:
        raise ModelError(
            f"{path.name} needs {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free.",
            "Close other programs, or use a smaller model or precision.",
        )


def free_memory() -> int | None:
    """Bytes of memory that a program could take without swapping; None where nobody says."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _short(name: str) -> str:
    """ "Q4_K - Medium" → "Q4_K_M", as files are called."""
    kind, _, size = name.replace("(guessed)", "").strip().partition(" - ")
    return f"{kind}_{size[0]}" if size else kind


def as_bytes(size: int) -> Any:
    """A buffer that llama.cpp can write a state into."""
    return (ctypes.c_uint8 * size)()
