"""The errors redline raises on purpose: one sentence about what is wrong, one hint about the way out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RedlineError(Exception):
    """Something the caller can mend; the command line prints it without a traceback.

    Args:
        message: One sentence that says what is wrong, with the values that show it.
        hint: One sentence that says what to do instead.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class OptionError(RedlineError, ValueError):
    """An option has a value that cannot be honoured."""


class NotInstalled(OptionError):
    """Something needs an extra that is not installed; the hint is the command that installs it."""


class UnknownName(RedlineError, LookupError):
    """A name that no table has."""


class ContextError(RedlineError, ValueError):
    """More tokens than the model has positions."""


class RewindError(RedlineError, RuntimeError):
    """A cache was asked to forget something that it cannot forget."""


class ModelError(RedlineError, RuntimeError):
    """A model file is missing, damaged, or of a kind that redline cannot run."""


class UnsupportedModel(ModelError):
    """A model that is whole, and of a kind that this engine does not run; another engine may."""


class NoRoom(ModelError):
    """A model or a text needs more memory than is free."""


class VocabularyError(RedlineError, ValueError):
    """Target and drafter do not mean the same text by the same token ids."""


def is_whole(value: object) -> bool:
    """Whether a value is an integer of any kind, Python's or numpy's; True and False are not."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name nobody knows, with its nearest neighbours as the hint."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(names)}."
    return UnknownName(f"There is no {kind} named {name!r}.", hint)
