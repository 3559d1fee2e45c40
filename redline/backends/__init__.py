"""Language models that redline can read with. `open` makes one from a file or a folder.

Importing this loads neither torch nor llama.cpp nor transformers: a backend's own packages come with its
first use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from redline.core.errors import ModelError, NotInstalled, OptionError, UnsupportedModel, unknown
from redline.core.ports import Backend

__all__ = ["BACKENDS", "Opening", "Role", "open"]

BACKENDS = ("native", "llamacpp", "transformers")
"""The engines that can run a model; "auto" measures which of them is fastest."""

Role: TypeAlias = Literal["target", "alone", "draft"]
"""What a model is opened for: a target's rows are to keep their bits, a draft's only to come fast.

A target that decodes plainly, with nobody guessing, is alone."""

_log = logging.getLogger("redline")


class Opening(TypedDict, total=False):
    """How to open a model.

    Attributes:
        backend: "native", "llamacpp", "transformers" or "auto"; by file and role when left out.
        device: "cpu", "cuda" or "cuda:1", for native and transformers; CUDA where there is
            one, when left out.
        precision: What weights are held in: "float32", "bfloat16" or "float16", for native and transformers;
            bfloat16 on CUDA when left out, and float32 on a CPU. "file" is a GGUF file's own numbers: all
            that llama.cpp does, and what native does on a CPU when left out, with redline's kernels.
        threads: CPU threads, at most one a core, which is also what is used when left out.
        context: Fewer positions than the model has.
        gpu_layers: For llama.cpp, layers to keep on a GPU.
        shared: For llama.cpp, all texts in one memory: trees, and batches in one pass, but no exact bits.
        trust_remote_code: For transformers: run Python code that comes with the model.
    """

    backend: str | None
    device: str | None
    precision: str | None
    threads: int | None
    context: int | None
    gpu_layers: int | None
    shared: bool
    trust_remote_code: bool


def open(source: str | Path, role: Role = "target", **how: Unpack[Opening]) -> Backend:  # noqa: A001
    """Open a model.

    With no backend named, a target runs on the native engine where that knows the architecture, else a GGUF
    file on llama.cpp and a folder on transformers. Where the native engine can hold a GGUF file only in
    float32, a draft runs on llama.cpp if that is installed. What could not be had as it should be is logged
    to "redline".

    Args:
        source: A `.gguf` file, a model folder with `config.json` and safetensors, or, for the backend
            transformers, a repository as "organisation/name".
        role: What it is for.
        **how: See `Opening`.

    Raises:
        ModelError: The source is missing, damaged, or not a model that the engine runs.
        OptionError: An option cannot be honoured here, or the engine is not installed.
        ContextError: `context` is longer than the model's.
        UnknownName: There is no backend of that name.
    """
    check_names(how)
    name = how.pop("backend", None)
    if name == "auto":
        from redline.backends.auto import fastest

        return fastest(_existing(source), role, how)
    if name is not None:
        if name not in BACKENDS:
            raise unknown("backend", name, (*BACKENDS, "auto"))
        return _OPENERS[name](source if name == "transformers" else _existing(source), role, how)
    path = _existing(source)
    return _first(candidates(path, role, how), path, role, how)


def check_names(how: Opening) -> None:
    """Refuse options that do not exist, as any function does.

    Raises:
        TypeError: There is one.
    """
    for name in how.keys() - Opening.__annotations__.keys():
        raise TypeError(f"There is no option {name!r} for opening a model.")


def candidates(path: Path, role: Role, how: Opening) -> tuple[str, ...]:
    """The backends that may run a model, the preferred one first."""
    if path.is_dir():
        return ("native", "transformers")
    if role == "draft":
        from redline.backends import native

        if not native.is_fast(how.get("device")):
            return ("llamacpp", "native")
    return ("native", "llamacpp")


def _first(names: tuple[str, ...], path: Path, role: Role, how: Opening) -> Backend:
    """The first backend that opens the model; why an earlier one did not is said."""
    reasons: list[UnsupportedModel | NotInstalled] = []
    for name in names:
        try:
            backend = _OPENERS[name](path, role, how)
        except (UnsupportedModel, NotInstalled) as error:  # damaged files and wrong options are nobody's
            reasons.append(error)
            continue
        if reasons:
            _log.warning("%s runs on %s: %s %s", path.name, name, reasons[0].message, reasons[0].hint)
        return backend
    missing = next((error for error in reasons if isinstance(error, NotInstalled)), None)
    if missing and missing is not reasons[0]:  # what would help is what to type
        raise UnsupportedModel(reasons[0].message, f"{missing.message} {missing.hint}")
    raise reasons[0]


def _existing(source: str | Path) -> Path:
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
    return path


def _native(source: str | Path, role: Role, how: Opening) -> Backend:
    from redline.backends import native

    _refuse(role, how, "native", "gpu_layers", "shared", "trust_remote_code")
    return native.load(Path(source), **_only(how, "device", "precision", "threads", "context"))


def _llamacpp(source: str | Path, role: Role, how: Opening) -> Backend:
    from redline.backends import llamacpp

    _refuse(role, how, "llamacpp", "device", "trust_remote_code")
    if how.get("precision") != "file":
        _refuse(role, how, "llamacpp", "precision")
    exact = role != "draft"
    return llamacpp.load(
        Path(source), exact=exact, **_only(how, "threads", "context", "gpu_layers", "shared")
    )


def _transformers(source: str | Path, role: Role, how: Opening) -> Backend:
    from redline.backends import transformers

    _refuse(role, how, "transformers", "gpu_layers", "shared")
    if isinstance(source, Path) and not source.is_dir():
        raise ModelError(
            f"{source.name} is a file, and transformers reads folders.",
            "Use the backend native or llamacpp for a GGUF file.",
        )
    return transformers.load(
        source, **_only(how, "device", "precision", "threads", "context", "trust_remote_code")
    )


_OPENERS: dict[str, Callable[[str | Path, Role, Opening], Backend]] = {
    "native": _native,
    "llamacpp": _llamacpp,
    "transformers": _transformers,
}

_INSTEAD = {
    "precision": "It computes in the file's own precision; `redline models convert` makes another.",
    "device": "Say with gpu_layers how much of the model goes to a GPU.",
    "gpu_layers": "Name a device instead.",
    "shared": "Its texts are read together as they are.",
    "trust_remote_code": "Only transformers runs code that comes with a model.",
}


def _refuse(role: Role, how: Opening, backend: str, *names: str) -> None:
    """A target's option that its backend cannot honour is an error; a draft takes what it can use."""
    for name in () if role == "draft" else names:
        if (value := how.get(name)) not in (None, False):
            raise OptionError(
                f"The backend {backend} has no {name}, but {value} was asked for.", _INSTEAD[name]
            )


def _only(how: Opening, *names: str) -> dict[str, Any]:
    return {name: value for name, value in how.items() if name in names}
