"""A model's weights in llama.cpp, and the choices made when they are loaded."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from glob import escape
from pathlib import Path
from typing import Any

from redline.backends.gguf_file import GGUFFile
from redline.backends.llamacpp.library import forget_errors, library, said
from redline.core.errors import ContextError, ModelError, NoRoom, OptionError

_SPARE = 1.05  # weights, and a little for everything else
_MOST_LAYERS = 512  # LLAMA_MAX_LAYERS
_AGAIN = "Download or convert the model again."


class Model:
    """Weights, until `close` or until nobody refers to them any more.

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
        check_file(file)
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
        self._end = weakref.finalize(self, lib.llama_model_free, self.handle)
        self._end.atexit = False  # a thread may still be in the middle of a pass
        writes = lib.llama_model_has_decoder(self.handle) and not lib.llama_model_has_encoder(self.handle)
        if not writes or lib.llama_model_is_diffusion(self.handle):
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
        self._end()
        self.handle = None


def check_file(file: GGUFFile) -> None:
    """Refuse what llama.cpp answers by ending the process, or by rows that know what follows them.

    Raises:
        ModelError: The vocabulary is missing or broken, or the model reads in both directions.
    """
    name, meta = file.path.name, file.metadata
    tokens = meta.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens or meta.get("tokenizer.ggml.model") in ("none", "no_vocab"):
        raise ModelError(f"{name} has no vocabulary.", _AGAIN)
    if len(set(tokens)) < len(tokens) - max(0, tokens.count("") - 1):
        raise ModelError(f"{name} has the same token twice in its vocabulary.", _AGAIN)
    for part in ("token_type", "scores"):
        count = len(meta.get(f"tokenizer.ggml.{part}") or tokens)
        if count != len(tokens):
            raise ModelError(f"{name} has {len(tokens)} tokens, and {count} entries in {part}.", _AGAIN)
    arch = meta.get("general.architecture")
    if not 0 < meta.get(f"{arch}.block_count", 1) <= _MOST_LAYERS:
        raise ModelError(f"{name} says that it has {meta[f'{arch}.block_count']} layers.", _AGAIN)
    if meta.get(f"{arch}.attention.causal") is False:
        raise ModelError(
            f"{name} reads texts in both directions, so it cannot write on from one.",
            "Use a causal language model.",
        )


def check_memory(path: Path) -> None:
    """Refuse a model that the machine cannot hold, before it begins to swap.

    Raises:
        ModelError: Its files are larger than the memory that is free.
    """
    numbered = re.fullmatch(r"(.*-)00001(-of-\d{5}\.gguf)", path.name)
    parts = path.parent.glob(f"{escape(numbered[1])}*{numbered[2]}") if numbered else [path]
    check_room(f"{path.name} needs", sum(part.stat().st_size for part in parts) * _SPARE)


def check_room(what: str, need: float) -> None:
    """Refuse to take more memory than there is: the system would end the process, or swap for ever.

    Args:
        what: The beginning of the sentence that says so.
        need: Bytes.

    Raises:
        ModelError: So much is not free.
    """
    free = free_memory()
    if free is not None and need > free:
        raise NoRoom(
            f"{what} {_size(need)} of memory, and {_size(free)} are free.",
            "Close other programs, ask for a shorter context, or use a smaller model or precision.",
        )


def free_memory() -> int | None:
    """Bytes of memory that a program could take without swapping; None where nobody says."""
    found = []
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    limit, used = (_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if limit and used and limit[0].isdigit():  # of a container; without one it is "max"
        cached = [
            int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat") if "file " in line[:9]
        ]
        found.append(int(limit[0]) - int(used[0]) + sum(cached))
    return min(found, default=None)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 5e7 else f"{count / 1e6:.1f} MB"


def _short(name: str) -> str:
    """ "Q4_K - Medium" → "Q4_K_M", as files are called."""
    kind, _, size = name.replace("(guessed)", "").strip().partition(" - ")
    return f"{kind}_{size[0]}" if size else kind


def as_bytes(size: int) -> Any:
    """A buffer that llama.cpp can write a state into."""
    return (ctypes.c_uint8 * size)()
