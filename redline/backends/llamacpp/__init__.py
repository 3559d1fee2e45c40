"""llama.cpp, through the low-level functions of llama-cpp-python: the extra `redline[llama]`.

What redline found out about its arithmetic is in docs/llamacpp.md: which passes give a row the same bits
differs by quantisation, by width and by the length of the cache, so it is measured at load.
"""

from __future__ import annotations

from pathlib import Path

from redline.backends.cores import cores
from redline.backends.gguf_file import read
from redline.backends.llamacpp.backend import LlamaBackend
from redline.backends.llamacpp.library import is_installed, library
from redline.backends.llamacpp.model import Model
from redline.backends.llamacpp.tokenizer import tokenizer_of
from redline.core.errors import ModelError, OptionError, is_whole

__all__ = ["LlamaBackend", "is_installed", "load"]


def load(
    path: Path,
    *,
    threads: int | None = None,
    context: int | None = None,
    gpu_layers: int | None = None,
    shared: bool = False,
    exact: bool = True,
) -> LlamaBackend:
    """Load a GGUF file of any architecture that llama.cpp runs.

    Args:
        path: The file; of a model in several files, the first.
        threads: CPU threads; one a core when left out.
        context: Positions of a text at most; all that the model was trained for when left out. Memory
            grows with the texts, and not with this.
        gpu_layers: Layers to keep on a GPU; all, when left out, where this llama.cpp was built for one.
        shared: All texts in one memory: passes read them together and take trees, and the last bits of a
            row may depend on where its text lies. Else each has its own, and passes read one by one.
        exact: Measure which widths of a pass keep a row's bits, and prefer arithmetic that does; a
            drafter needs neither and is faster without.

    Raises:
        OptionError: llama.cpp is not installed, or an option cannot be honoured here.
        ModelError: Not a GGUF file, cut short, of an architecture unknown here, or too large.
        ContextError: `context` is longer than the model's.
    """
    library()
    most = cores()
    if threads is not None and (not is_whole(threads) or not 1 <= threads <= most):
        raise OptionError(f"threads is {threads!r}.", f"It must be from 1 to {most}, one a core.")
    if gpu_layers is not None and not (is_whole(gpu_layers) and gpu_layers >= 0):
        raise OptionError(f"gpu_layers is {gpu_layers!r}.", "It must be 0 or more.")
    if path.is_dir():
        raise ModelError(
            f"{path} is a folder, and llama.cpp reads GGUF files.", "Use the backend native or transformers."
        )
    file = read(path)
    model = Model(file, gpu_layers)
    try:
        return LlamaBackend(
            path.stem,
            model,
            tokenizer_of(file, model),
            context=model.context_of(context),
            threads=threads or most,
            shared=shared,
            exact=exact,
        )
    except BaseException:
        model.close()
        raise
