"""Any causal language model of the transformers library, behind redline's seams.

Where the native engine knows the architecture, it is the better choice: its rows keep their bits. This
backend takes what the library takes, and measures on each model what that model can do:

- Most read all texts in one pass, without padding, with trees, and rewind to any length; layers with a
  sliding window too, since their keys are kept for as long as the text.
- Those with an attention of their own (Bloom, Falcon, MPT) read one text at a time, without trees.
- Those with a recurrent state (Mamba, Jamba, LFM2) cannot forget: they decode plainly, and the engine
  refuses to speculate on them before the first token.

Rows of wider passes differ from single ones in their last bits, so near-ties of two logits may fall
either way; `traits.exact_widths` says which widths were measured to be free of that.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from redline.core.errors import NotInstalled

if TYPE_CHECKING:
    from redline.backends.transformers.backend import TransformersBackend

__all__ = ["load"]


def load(
    path_or_repo: Path | str,
    *,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    context: int | None = None,
    trust_remote_code: bool = False,
) -> TransformersBackend:
    """Load a model that transformers knows.

    Args:
        path_or_repo: A model folder, or a repository on the Hugging Face hub as "organisation/name".
        device: "cpu", "cuda" or "cuda:1"; CUDA where there is one, when left out.
        precision: "float32", "bfloat16" or "float16"; float32 on a CPU and bfloat16 on CUDA when left out.
            Quantised checkpoints bring their own.
        threads: CPU threads for torch, for the whole process, one a core at most; torch's own choice when
            left out.
        context: Fewer positions than the model has.
        trust_remote_code: Run Python code that comes with the model. Never done unless asked for.

    Raises:
        ModelError: The source is missing, damaged, no causal language model, or needs code of its own.
        OptionError: An option cannot be honoured here, or transformers is not installed.
        ContextError: `context` is longer than the model's.
    """
    try:
        from redline.backends.transformers import opening
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "transformers":
            raise
        raise NotInstalled(
            "The transformers backend needs the transformers library, which is not installed.",
            "pip install 'redline[transformers]'",
        ) from None
    return opening.load(
        path_or_repo,
        device=device,
        precision=precision,
        threads=threads,
        context=context,
        trust_remote_code=trust_remote_code,
    )
