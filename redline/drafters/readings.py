"""The texts that a draft model reads, each in a cache of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from redline.backends.pool import Pool
from redline.core.errors import OptionError
from redline.core.ports import Backend, Cache


class Reading(Protocol):
    """One text: a cache, and the tokens in it."""

    cache: Cache
    read: list[int]


R = TypeVar("R", bound=Reading)


class Readings(dict[int, R]):
    """What is being read, by the texts' keys.

    Args:
        backend: The draft model; it closes with this.
        keep: Caches kept after their text has ended.

    Raises:
        OptionError: The model cannot forget its refused guesses.
    """

    def __init__(self, backend: Backend, keep: int) -> None:
        if backend.traits.rollback != "truncate":
            raise OptionError(
                f"{backend.name} cannot forget refused guesses, so it cannot draft.",
                "Draft with a model whose cache can be cut at any place, or with ngram.",
            )
        self._backend, self._pool = backend, Pool(backend, keep)

    def take(self, tokens: Sequence[int]) -> Cache:
        """A cache for a text that begins like this; it may hold some of it."""
        return self._pool.take(tokens)

    def give(self, key: int) -> None:
        """A text has ended."""
        if text := self.pop(key, None):
            self._pool.give(text.cache, text.read)

    @contextmanager
    def guarded(self, keys: Sequence[int]) -> Iterator[None]:
        """Forget these texts if a pass is cut short: it leaves caches that nobody can trust."""
        try:
            yield
        except BaseException:
            for key in keys:
                if text := self.pop(key, None):
                    text.cache.close()
            raise

    def close(self) -> None:
        """Free caches and model."""
        for key in list(self):
            self.give(key)
        self._pool.close()
        self._backend.close()
