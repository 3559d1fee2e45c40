"""Make the precisions of a model that nobody has pulled: from a file that is here, into the cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from redline.backends import gguf_file
from redline.backends.llamacpp import quantise
from redline.core.errors import ModelError, OptionError
from redline.models.cache import find, folder, is_whole, known, path_of, write_record
from redline.models.catalogue import Model, Origin
from redline.models.workshop import Progress, alone, check_room, disk_errors, ignore, workshop

_LONGEST = 100  # characters of a file's name that ours repeats


def convert(name: str, to: str, *, force: bool = False, progress: Progress | None = None) -> Path:
    """Write a model in another precision into the cache, unless it is there and up to date.

    The new file is a model with a name: `<name>-<to>`, or `<stem>-<hash of the path>-<to>` for a file
    that has no name here. Converting up is possible and makes nothing more exact.

    Args:
        name: A name from `models.names()`, or the path of a GGUF file.
        to: A name from `llamacpp.quantise.PRECISIONS`, in any case. "q4_0" is all matrices in Q4_0.
        force: Make it again even when it is there.
        progress: Told how far it is.

    Returns:
        The new file; the model's own when that is in the precision already.

    Raises:
        UnknownName: No such model, or no such precision.
        ModelError: There is no such file, it cannot be converted, or there is no room for it.
        OptionError: llama.cpp is not installed, or the name of the new file is taken.
    """
    to, path = checked(to), find(name)
    here = None if force else at_hand(path, to)
    return here or _make(path, to, force, progress or ignore)


def converted(path: Path, to: str, *, progress: Progress | None = None) -> Path:
    """The file of a model in another precision, made first when it is missing or out of date.

    Args:
        path: A GGUF file, in the cache or elsewhere.
        to: As for `convert`.
        progress: Told how far it is, when it is made.

    Returns:
        The converted file; `path` when that is in the precision already.

    Raises:
        UnknownName: No such precision.
        ModelError: There is no such file, it cannot be converted, or there is no room for it.
        OptionError: llama.cpp is not installed, or the name of the new file is taken.
    """
    to = checked(to)
    return at_hand(path, to) or _make(path, to, False, progress or ignore)


def at_hand(path: Path, to: str) -> Path | None:
    """What `converted` would return, when it has nothing to make; else None."""
    to = checked(to)
    _check_file(path)
    name, origin = _target(path, to)
    if _is_current(name, origin):
        return path_of(known()[name])
    return path if quantise.is_already(gguf_file.read(path), to) else None


def adds_nothing(path: Path, to: str) -> bool:
    """Whether a file would only grow in a precision: what it has rounded away does not come back."""
    file = gguf_file.read(path)
    return quantise.estimate(file, checked(to)) > path.stat().st_size


def checked(to: str) -> str:
    """The name of a precision as we write it.

    Raises:
        UnknownName: No such precision.
    """
    quantise.precision(to.lower())
    return to.lower()


def _make(path: Path, to: str, force: bool, report: Progress) -> Path:
    _check_file(path)
    file = gguf_file.read(path)
    if quantise.is_already(file, to):
        return path
    name, origin = _target(path, to)
    with disk_errors(), alone(name, report):
        _check_free(name, origin)
        if not force and _is_current(name, origin):  # another process made it while we waited
            return path_of(known()[name])
        for left in workshop().glob(f"{name}.convert-*"):
            shutil.rmtree(left, ignore_errors=True)
        total = quantise.estimate(file, to)
        check_room(f"Converting {origin.model} to {to}", total)
        with TemporaryDirectory(
            prefix=f"{name}.convert-", dir=workshop(), ignore_cleanup_errors=True
        ) as work:
            made = Path(work) / "made.gguf"
            what = f"to {to}"
            report(0, total, what)
            quantise.quantise(path, made, to, lambda done: report(min(done, total), total, what))
            return _install(made, _described(name, origin, file, path), report)


def _install(made: Path, facts: Model, report: Progress) -> Path:
    """Give a finished file its name and its record."""
    gguf_file.read(made)
    size = made.stat().st_size
    report(size, size, "checking")
    with made.open("rb+") as stream:
        os.fsync(stream.fileno())
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    model = Model(facts.name, size, sha256, facts.licence, facts.about, facts.kind, origin=facts.origin)
    # The record goes first: a crash in between leaves a file that fails its check, not one without.
    write_record(model)
    made.replace(path_of(model))
    return path_of(model)


def _described(name: str, origin: Origin, file: gguf_file.GGUFFile, path: Path) -> Model:
    """The new file's record, but for its size and hash."""
    source = known().get(origin.model)
    licence = source.licence if source else str(file.metadata.get("general.license") or "")
    about = f"{source.name if source else path.name} as {origin.precision}"
    return Model(name, 0, "", licence, about, source.kind if source else "unknown", origin=origin)


def _target(path: Path, to: str) -> tuple[str, Origin]:
    """The name of a conversion, and what its record must say for it to be up to date."""
    real = path.resolve()
    facts = real.stat()
    named = [known().get(each.stem) for each in (path, real)]  # the cache may hold links to other folders
    model = next((each for each in named if each and path_of(each).resolve() == real), None)
    if model:
        of = stem = model.name
    else:
        of = str(real)
        # Files of one name in two folders are two models.
        digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:8]
        stem = f"{re.sub(r'[^a-z0-9_.+-]', '_', real.stem.lower())[:_LONGEST]}-{digest}"
    return f"{stem}-{to}", Origin(of, to, facts.st_size, facts.st_mtime_ns)


def _is_current(name: str, origin: Origin) -> bool:
    model = known().get(name)
    return model is not None and model.origin == origin and is_whole(model)


def _check_free(name: str, origin: Origin) -> None:
    """Refuse to write over a file that is not an older conversion of the same model."""
    model, file = known().get(name), folder() / f"{name}.gguf"
    if model and model.made_from == origin.model:
        return
    if model or file.exists():
        owner = model.maker if model else "a file that redline did not make"
        raise OptionError(
            f"The name {name} is taken by {owner}.",
            f"Move {file} away first, and {name}.json beside it if there is one.",
        )


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ModelError(
            f"{path} is a folder, and only GGUF files can be converted.",
            "Make a GGUF file of it with llama.cpp's convert_hf_to_gguf.py.",
        )
    if not path.exists():
        raise ModelError(f"There is no file at {path}.", "See `redline models list` for names.")
