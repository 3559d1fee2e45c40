"""Caches that outlive their text, so that the next text need not read a shared beginning again."""

from __future__ import annotations

from collections.abc import Sequence

from redline.core.errors import RewindError
from redline.core.ports import Backend, Cache


def shared_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many first tokens two texts have in common."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class Pool:
    """Idle caches of one backend, most recently used last.

    Args:
        backend: Where new caches come from.
        keep: How many idle caches to hold; 0 closes each at once.
    """

    def __init__(self, backend: Backend, keep: int = 1) -> None:
        self._backend = backend
        self._keep = keep
        self._idle: list[tuple[Cache, tuple[int, ...]]] = []

    def take(self, tokens: Sequence[int]) -> Cache:
        """A cache that holds a true prefix of `tokens`, as long a one as there is; never all of them."""
        lengths = [min(shared_prefix(known, tokens), len(tokens) - 1) for _, known in self._idle]
        for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
            if lengths[i] <= 0:
                break
            if 2 * lengths[i] < len(self._idle[i][1]) and len(self._idle) < self._keep:
                continue  # it would lose more than it saves, and there is room to keep both
            try:
                self._idle[i][0].rewind(lengths[i])
            except RewindError:
                continue  # a cache that cannot forget serves only texts that go on where it ends
            return self._idle.pop(i)[0]
        return self._backend.open()

    def give(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Take back a cache that holds exactly `tokens`."""
        if not tokens:  # it must not push out one that is of use
            cache.close()
            return
        self._idle.append((cache, tuple(tokens)))
        while len(self._idle) > self._keep:
            self._idle.pop(0)[0].close()

    def close(self) -> None:
        """Close every idle cache."""
        while self._idle:
            self._idle.pop()[0].close()
