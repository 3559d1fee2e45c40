"""From a draft's name to a drafter: one, or several as one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from redline import backends, models
from redline.backends import Opening
from redline.core.errors import OptionError, RedlineError, UnknownName, VocabularyError, unknown
from redline.core.ports import Backend, Drafter
from redline.core.sampling import Sampling
from redline.drafters import Compose, Corpus, Folder, ModelDrafter, Suffix, Translated, registry
from redline.drafters.compose import WAYS

NONE = "none"
"""The name of no drafter at all."""

AUTO = ("forced", "suffix")
"""What the name auto stands for."""

_log = logging.getLogger("redline")


@dataclass(frozen=True, slots=True)
class Named:
    """A drafter that needs no more than its name."""

    name: str


Part: TypeAlias = Drafter | Backend | Path | str | Named
"""A drafter, an open model, where a model lies, or a drafter that a name is enough for."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """What was asked for: names and models that were looked for and found.

    Attributes:
        parts: One, or several that are to be one.
        how: In which of `compose.WAYS` they are one, if they are several.
        backend, precision, sampling: For draft models; see `load`.
        memory: For suffix; see `load`.
    """

    parts: tuple[Part, ...]
    how: str
    backend: str | None
    precision: str | None
    sampling: Sampling | None
    memory: bool | str | Path

    @classmethod
    def of(
        cls,
        draft: str | Path | Backend | Drafter | None,
        backend: str | None,
        precision: str | None,
        sampling: Sampling | None,
        memory: bool | str | Path,
    ) -> Drafting | None:
        """What a draft's name means; None for no drafter at all.

        Raises:
            RedlineError: There is nothing of that name, or an option that says something of a model is lost.
        """
        how, parts = _parse(draft, backend)
        drafting = cls(tuple(parts), how, backend, precision, sampling, memory)
        if sampling is not None and not drafting._has_model:
            raise OptionError(
                f"The drafter {_called(draft)} draws nothing, so it has no temperature.",
                "Leave the draft temperature out, or draft with a model.",
            )
        if (backend or precision) and not drafting.opens:
            raise OptionError("There is no draft model to open.", "Leave draft backend and precision out.")
        if memory == "":
            raise OptionError("The folder for answers has no name.", "Name one, or leave --memory out.")
        if not isinstance(memory, bool) and Named("suffix") not in parts:
            raise OptionError(
                "Only suffix keeps answers in a folder.", "Leave --memory out, or draft with suffix."
            )
        return drafting if parts else None

    @property
    def opens(self) -> bool:
        """Whether a draft model will be opened."""
        return any(isinstance(part, str | Path) for part in self.parts)

    @property
    def _has_model(self) -> bool:
        return any(isinstance(part, str | Path | Backend) for part in self.parts)

    def make(self, target: Backend, how: Opening, keep: int, opened: list[Backend | Drafter]) -> Drafter:
        """The drafter for a target.

        Args:
            target: The target.
            how: How it was opened.
            keep: Caches that draft models keep.
            opened: Takes what is to be closed with the engine.
        """
        drafters = [self._make(part, target, how, keep, opened) for part in self.parts]
        return drafters[0] if len(drafters) == 1 else Compose(drafters, self.how)

    def _make(
        self,
        part: Part,
        target: Backend,
        how: Opening,
        keep: int,
        opened: list[Backend | Drafter],
    ) -> Drafter:
        if isinstance(part, Named):
            named = self._suffix(target) if part.name == "suffix" else registry.make(part.name, target)
            opened.append(named)
            return named
        ours = isinstance(part, str | Path)
        if isinstance(part, str | Path):
            part = _open_draft(part, self.backend, self.precision, how)
            opened.append(part)
        if not isinstance(part, Backend):
            return part
        drafter = self._of_model(part, target, keep)
        if ours:
            opened[-1] = drafter  # which closes its model after its caches
        return drafter

    def _of_model(self, model: Backend, target: Backend, keep: int) -> Drafter:
        try:
            return ModelDrafter(model, target, self.sampling, keep)
        except VocabularyError as error:
            _log.warning("%s guesses by way of the text: %s", model.name, error.message)
            return Translated(model, target, self.sampling, keep)

    def _suffix(self, target: Backend) -> Suffix:
        if self.memory is False:
            return Suffix()
        folder = None if self.memory is True else Folder(Path(self.memory), target.tokenizer)
        return Suffix(Corpus(folder=folder))


def opens_model(draft: str) -> bool:
    """Whether a draft's name is that of a model, or has one in it."""
    drafting = Drafting.of(draft, None, None, None, False)
    return drafting is not None and drafting.opens


def find_model(model: str | Path, backend: str | None) -> str | Path:
    """Where a model lies; a repository's name is left to transformers, which knows the hub."""
    try:
        return models.find(model)
    except RedlineError:
        if backend == "transformers" and isinstance(model, str) and model.count("/") == 1:
            return model
        raise


def _called(draft: str | Path | Backend | Drafter | None) -> str:
    return draft.name if isinstance(draft, Drafter | Backend) else str(draft or NONE)


def _parse(draft: str | Path | Backend | Drafter | None, backend: str | None) -> tuple[str, list[Part]]:
    """The way to compose, and what."""
    if draft is None or draft == NONE:
        return "best", []
    if isinstance(draft, type) or not isinstance(draft, str | Path | Backend | Drafter):
        raise OptionError(f"{draft!r} is no draft.", "Give a name, a path, an open model, or a drafter made.")
    if not isinstance(draft, str):
        return "best", [_find(draft, backend) if isinstance(draft, Path) else draft]
    way, colon, rest = draft.partition(":")
    how, names = (way, rest) if colon and way in WAYS else ("best", draft)
    named = [name.strip() for name in names.split("+")]
    parts = list(dict.fromkeys(part for name in named for part in (AUTO if name == "auto" else [name])))
    if not set(parts) <= set(registry.names()):
        try:  # the name of a model or its path may have any character in it
            return "best", [_find(draft, backend)]
        except UnknownName:
            _check_names(draft, parts)
            if parts == [draft]:
                raise
    return how, [_find(part, backend) for part in parts]


def _check_names(draft: str, parts: Sequence[str]) -> None:
    """Find out whether a list of names is wrong as a list, whatever they name."""
    if "" in parts:
        raise OptionError(
            f"A name is missing in the draft {draft!r}.", "Write name+name, or none for no draft."
        )
    if NONE in parts:
        raise OptionError(f"The draft {draft!r} is none and more.", "Leave none out, or the others.")
    way, colon, first = parts[0].partition(":")
    if colon and first in [*registry.names(), "auto"]:
        raise unknown("way to compose", way, WAYS)


def _find(name: str | Path, backend: str | None) -> Named | str | Path:
    if name in registry.names():
        return Named(name)
    try:
        return find_model(name, backend)
    except UnknownName:
        raise unknown("draft", str(name), [NONE, "auto", *registry.names(), *models.names()]) from None


def _open_draft(source: str | Path, backend: str | None, precision: str | None, how: Opening) -> Backend:
    """A draft model, in a precision that drafts fast."""
    from redline.backends.llamacpp import is_installed

    how = how.copy()
    how["backend"] = backend
    how.pop("context", None)  # a draft's own is as long as it can be
    if backend != "transformers":
        how.pop("trust_remote_code", None)  # said of the target
    file = source if isinstance(source, Path) and source.is_file() else None
    if file:
        how.pop("precision", None)  # said of the target
    converts = file is not None and backend != "transformers" and is_installed()
    if precision not in (None, "file") and not converts:
        raise OptionError(
            f"The draft cannot be had in {precision}: llama.cpp converts GGUF files, where it is installed.",
            "Leave the draft precision out.",
        )
    return backends.open(_in_precision(file, precision) if file and converts else source, "draft", **how)


def _in_precision(file: Path, precision: str | None) -> Path:
    """A draft's file in the precision asked for; where none was, in q4_0 if it drafts slowly as it is."""
    from redline.backends.gguf_file import read
    from redline.backends.llamacpp.quantise import reads_slowly
    from redline.models.convert import at_hand, converted

    if precision == "file" or (precision is None and not reads_slowly(read(file))):
        return file
    to = precision or "q4_0"
    try:
        if at_hand(file, to) is None:
            _log.warning("Converting %s to %s for drafting, once, into the cache.", file.name, to)
        return converted(file, to)
    except RedlineError as error:
        if precision:
            raise
        _log.warning("%s drafts as it is, since it cannot be converted: %s", file.name, error.message)
        return file
