"""Language models that redline can read with. `open` makes one from a file or a folder.

Importing this loads neither torch nor transformers: a backend's own packages come with its first use.
"""

from __future__ import annotations

from pathlib import Path

from redline.core.errors import ModelError
from redline.core.ports import Backend

__all__ = ["open"]


def open(  # noqa: A001 - reads as backends.open(...)
    source: str | Path,
    *,
    device: str | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    context: int | None = None,
) -> Backend:
    """Open a model with the native engine.

    Args:
        source: A `.gguf` file, or a folder with `config.json`, `tokenizer.json` and safetensors.
        device: "cpu", "cuda" or "cuda:1"; CUDA where there is one, when left out.
        dtype: "float32", "bfloat16" or "float16"; float32 on a CPU and bfloat16 on CUDA when left out.
        threads: CPU threads for torch, for the whole process; torch's own choice, one a core, when left out.
        context: Fewer positions than the model has.

    Raises:
        ModelError: The source is missing, damaged, or not a model that the engine runs.
        OptionError: An option cannot be honoured here.
        ContextError: `context` is longer than the model's.
    """
    path = Path(source).expanduser()
    if not path.exists():
        raise ModelError(
            f"There is no {path}.",
            "`redline models list` shows the models at hand, and `redline models pull` gets one.",
        )
    if not path.is_dir() and path.suffix.lower() != ".gguf":
        raise ModelError(
            f"{path.name} is neither a .gguf file nor a model folder.",
            "Convert the model to GGUF, or point at its Hugging Face folder.",
        )
    from redline.backends import native

    return native.load(path, device=device, dtype=dtype, threads=threads, context=context)
