"""From a folder or a repository's name to a backend, with errors that say what is wrong and what to do."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

from safetensors import SafetensorError

from redline.backends.torch_options import find_device, find_dtype, set_threads
from redline.backends.transformers import words
from redline.backends.transformers.backend import TransformersBackend
from redline.core.errors import ContextError, ModelError, RedlineError

_library: Any = transformers  # half of its functions have no types

_LENGTHS = (
    *("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"),
    *("max_sequence_length", "max_seq_length"),
)
"""What configurations call the number of positions, the commonest first."""

_UNBOUNDED = 1 << 20
"""Positions to offer where a model has no limit of its own, as recurrent ones have none."""


def load(
    source: Path | str,
    *,
    device: str | None,
    precision: str | None,
    threads: int | None,
    context: int | None,
    trust_remote_code: bool,
) -> TransformersBackend:
    """See `redline.backends.transformers.load`."""
    set_threads(threads)
    place = find_device(device)
    kind = find_dtype(precision, place)
    source, name = _find(source)
    with _quietly(), _explained(name):
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=trust_remote_code)
        if config.is_encoder_decoder:
            raise _not_causal(name, config)
        own = positions(config)
        if context is not None and not 0 < context <= own:
            raise ContextError(
                f"{name} has a context of {own}; {context} is not within it.", f"Ask for 1 to {own}."
            )
        tokenizer = words.find(source, config, trust_remote_code)
        model = _weights(source, name, config, place, kind, trust_remote_code)
        return TransformersBackend(name, model, tokenizer, own, context)


def positions(config: Any) -> int:
    """How many positions a model has by its configuration.

    Where rotary positions are scaled only once a text is long (longrope, dynamic), the limit is where
    that begins: past it a row depends on how the text was cut into passes and on its company.
    """
    config = config.get_text_config(decoder=True)
    own = next((n for key in _LENGTHS if isinstance(n := getattr(config, key, None), int) and n > 0), None)
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    begins = rope.get("original_max_position_embeddings") or getattr(
        config, "original_max_position_embeddings", None
    )
    if rope.get("rope_type", rope.get("type")) == "longrope" and begins:
        own = min(own or begins, begins)
    return own or _UNBOUNDED


def _find(source: Path | str) -> tuple[str, str]:
    """What to hand to transformers, and the model's name."""
    path = Path(source).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ModelError(f"{path} has no config.json.", "Point at a complete model folder.")
        return str(path), path.resolve().name
    if path.exists():
        raise ModelError(
            f"{path} is a file.", "The transformers backend opens model folders; leave the backend out."
        )
    if isinstance(source, str) and re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        return source, source.partition("/")[2]
    raise ModelError(f"There is no {path}.", 'Give a model folder, or a repository as "organisation/name".')


def _weights(
    source: str, name: str, config: Any, device: torch.device, dtype: torch.dtype, trust_remote_code: bool
) -> Any:
    """The model on its device."""
    quantised = getattr(config, "quantization_config", None) is not None
    straight = device.type != "cpu" and find_spec("accelerate") is not None
    model, report = _library.AutoModelForCausalLM.from_pretrained(
        source,
        config=config,
        dtype="auto" if quantised else dtype,
        device_map={"": str(device)} if straight else None,
        trust_remote_code=trust_remote_code,
        output_loading_info=True,
    )
    missing = sorted(report["missing_keys"])
    if missing and not quantised:  # the library would go on with random numbers
        raise ModelError(
            f"{name} lacks {len(missing)} of its weights, {missing[0]} for one.",
            "The checkpoint is incomplete; download it again.",
        )
    # Quantised weights are put in their place by what unpacks them.
    return model.eval() if straight or quantised else model.eval().to(device)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without transformers' progress bars, log lines and warnings; what matters becomes an error."""
    log = _library.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn what transformers raises into redline's errors."""
    try:
        yield
    except (RedlineError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as error:  # the library raises whatever it meets
        raise _explain(name, error) from error


def _explain(name: str, error: Exception) -> RedlineError:
    text = str(error)
    if "trust_remote_code" in text:
        return ModelError(
            f"{name} brings Python code of its own, which redline does not run unasked.",
            "Read that code, and allow it with trust_remote_code=True.",
        )
    if "does not recognize this architecture" in text or "Unrecognized model in" in text:
        return ModelError(
            f"{name} has an architecture that transformers {transformers.__version__} does not know.",
            "Install a newer transformers, or another form of the model.",
        )
    if "Unrecognized configuration class" in text:
        return _not_causal(name)
    if isinstance(error, SafetensorError):
        return ModelError(f"{name} has a damaged safetensors file: {text}.", "Download it again.")
    if isinstance(error, ImportError):
        return ModelError(f"{name} needs a package that is not installed.", text.strip().splitlines()[0])
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return ModelError(
        f"transformers cannot load {name}: {first.rstrip('.')}.",
        "Check the name, the connection to the hub and the files of the model.",
    )


def _not_causal(name: str, config: Any = None) -> ModelError:
    kind = f" ({config.model_type})" if config is not None else ""
    return ModelError(
        f"{name}{kind} is no causal language model.", "Give a decoder that was trained to continue texts."
    )
