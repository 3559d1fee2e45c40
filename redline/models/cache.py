"""Where model files lie on this machine, and whether they are what they should be."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

import platformdirs

from redline.core.errors import ModelError, unknown
from redline.models.catalogue import CATALOGUE, Model, Origin

HUB = "hf:"


def folder() -> Path:
    """The folder that holds the model files: `$REDLINE_CACHE/models`, or the user's cache folder.

    It need not exist yet.
    """
    chosen = os.environ.get("REDLINE_CACHE")
    root = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("redline", appauthor=False)
    return root / "models"


def path_of(model: Model) -> Path:
    """Where the file of a model lies, or would lie."""
    return folder() / f"{model.name}.gguf"


def known() -> dict[str, Model]:
    """Every model that has a name here: the catalogue's, then those pulled from a hub or converted."""
    pulled = (_read_record(path) for path in sorted(folder().glob("*.json")))
    return CATALOGUE | {model.name: model for model in pulled if model and model.name not in CATALOGUE}


def names() -> list[str]:
    """The names that `find`, `pull` and `verify` understand."""
    return list(known())


def lookup(name: str) -> Model:
    """The model of a name, in any case, or of the `hf:` source that it was pulled from.

    Raises:
        UnknownName: No such model.
    """
    models = known()
    if name.startswith(HUB):
        models = {model.source: model for model in models.values() if model.source}
    elif name.lower() in models:
        name = name.lower()
    if name not in models:
        raise unknown("model", name, models or CATALOGUE)
    return models[name]


def find(name_or_path: str | Path) -> Path:
    """The file or folder that a name or a path means.

    A known name wins over a file of the same name; write `./name` for the file.

    Args:
        name_or_path: A name from `names()`, in any case, an `hf:` source that was pulled, or the path
            of a GGUF file or a model folder. A `Path` is always a path.

    Raises:
        ModelError: The model is known but not here, or cut off; or there is nothing at the path.
        UnknownName: Neither a name nor a path.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str):
        if text.startswith(HUB):
            return _find_source(text)
        if text.lower() in known():
            return check_size(lookup(text))
    path = Path(text).expanduser()
    if text and (path.is_dir() or (path.is_file() and path.suffix.lower() == ".gguf")):
        return path
    if path.is_file():
        raise ModelError(
            f"{text} is not a model: it is neither a .gguf file nor a folder.",
            "See `redline models list` for models to get.",
        )
    if isinstance(name_or_path, Path) or _looks_like_path(text):
        raise ModelError(f"There is no file or folder at {text}.", "See `redline models list` for names.")
    raise unknown("model", text, known())


def verify(name: str) -> Path:
    """Read a model's whole file and compare its SHA-256 with the known one.

    Raises:
        ModelError: The file is missing, cut off or damaged.
        UnknownName: No such model.
    """
    model = lookup(name)
    path = check_size(model)
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != model.sha256:
        raise ModelError(
            f"{path} is damaged: its SHA-256 is {got} instead of {model.sha256}.",
            f"Get it again: `{model.remedy}`.",
        )
    return path


def check_size(model: Model) -> Path:
    """The file of a model, after a look at its size, which costs nothing.

    Raises:
        ModelError: The file is missing or has another size than it should.
    """
    path = path_of(model)
    command = model.remedy.replace(" --force", "", 1)  # what is not whole is replaced without force
    hint = f"Get it with `{command}` ({model.size})."
    if not path.is_file():
        raise ModelError(f"The model {model.name} is not on this machine yet.", hint)
    size = path.stat().st_size
    if size != model.size_bytes:
        raise ModelError(f"{path} is damaged: it has {size} bytes instead of {model.size_bytes}.", hint)
    return path


def is_whole(model: Model) -> bool:
    """Whether the file of a model is here with the right size."""
    path = path_of(model)
    return path.is_file() and path.stat().st_size == model.size_bytes


def write_record(model: Model) -> None:
    """Remember what a file from a hub or a conversion should be: `<name>.json` beside it."""
    path = path_of(model).with_name(f"{model.name}.json")
    new = path.with_suffix(".json.new")
    new.write_text(json.dumps(asdict(model), indent=2) + "\n", encoding="utf-8")
    new.replace(path)


def _read_record(path: Path) -> Model | None:
    """The model that a record describes, or None when the file is not such a record."""
    try:
        facts = {**json.loads(path.read_text(encoding="utf-8")), "parts": ()}
        if facts.get("origin"):
            facts["origin"] = Origin(**facts["origin"])
        model = Model(**facts)
    except (ValueError, TypeError):
        return None
    return model if model.name == path.stem else None


def _find_source(source: str) -> Path:
    for model in known().values():
        if model.source == source:
            return check_size(model)
    raise ModelError(f"{source} was not pulled yet.", f"Get it with `redline models pull {source}`.")


def _looks_like_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.startswith((".", "~")) or text.lower().endswith(".gguf")
