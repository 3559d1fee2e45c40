"""What a model can do is found out by doing it: every claim is compared with the model's own forward pass."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from redline.backends.transformers.forward import Forward
from redline.core.errors import ModelError
from redline.core.ports import Backend, Cache, Chunk

_LENGTH = 24
"""Tokens of a trial's texts: enough to cross a small sliding window, and cheap."""

_WIDEST = 16
_MISSES = 3
"""So many widths without luck, and the others are not tried."""

_STARTS = (3, 45, 530)
"""Widths are measured behind so many tokens, to meet more than one shape of attention: torch's kernel cuts
keys into blocks of 512. The long start is only read for widths that have passed the short ones."""

Rows = NDArray[np.float32]


class Trial:
    """Two texts, and what the model makes of them by itself.

    Args:
        forward: The model.
        vocab: Ids to choose from.
        context: Positions of the model.
        name: For errors.

    Raises:
        ModelError: The model is none that predicts what comes next.
    """

    def __init__(self, forward: Forward, vocab: int, context: int, name: str) -> None:
        self._forward, self._vocab, self._context = forward, vocab, context
        length = min(_LENGTH, context)
        self._texts = self.text(1, length), self.text(2, length)
        self._plain = [self._read_plainly(text) for text in self._texts]
        half = length // 2
        if half and not self._same(self._read_plainly(self._texts[0][:half]), self._plain[0][:half]):
            raise ModelError(
                f"{name} is no causal language model: what follows a token changes its logits.",
                "Give a decoder that was trained to continue texts.",
            )

    def text(self, seed: int, length: int) -> list[int]:
        """Tokens without a pattern."""
        return [(i * 7919 + seed * 104729 + i * i * 31) % self._vocab for i in range(length)]

    def fault(self, backend: Backend) -> str:
        """What comes out wrong of texts in pieces, in company, after rewinds and as trees; "" if nothing."""
        (one, two), caches = self._texts, (backend.open(), backend.open())
        found: dict[int, list[Rows]] = {id(cache): [] for cache in caches}
        part = max(1, len(one) // 3)

        def read(*chunks: Chunk) -> None:
            chunks = tuple(chunk for chunk in chunks if chunk.tokens)
            for chunk, rows in zip(chunks, backend.extend(chunks), strict=True):
                found[id(chunk.cache)].append(rows)

        read(Chunk(caches[0], one[:part]), Chunk(caches[1], two[:1]))
        if backend.traits.rollback != "none":
            read(Chunk(caches[0], two[part:], "none"))
            caches[0].rewind(part)
        if backend.traits.trees and part + 4 <= len(one):
            rows, wrong = self._grow(backend, caches[0], part)
            if wrong:
                return "a branch of a tree is not its text"
            found[id(caches[0])].append(rows)
        read(Chunk(caches[0], one[caches[0].length :]), Chunk(caches[1], two[1:]))
        for cache, plain, what in zip(caches, self._plain, ("in pieces", "in company"), strict=True):
            rows = np.concatenate(found[id(cache)])
            cache.close()
            if not self._same(rows, plain):
                return f"a text read {what} is not the text"
        return ""

    def widths(self, backend: Backend, seconds: float) -> tuple[int, ...]:
        """How many rows a pass over one text may have and still give the bits of passes of one row.

        Args:
            backend: Where `Trial.fault` has found nothing, and which can rewind to any length.
            seconds: When to stop measuring; what has not been measured does not count.
        """
        good, until = list(range(2, _WIDEST + 1)), time.perf_counter() + seconds
        for start in _STARTS:
            if start > _STARTS[0] and start + 1 >= self._context:
                break
            good = [width for width in good if start + width <= self._context]
            if not good:
                break
            text, cache = self.text(3, start + good[-1]), backend.open()
            backend.extend([Chunk(cache, text[:start], "none")])
            single: list[Rows] = []
            measured: list[int] = []
            for i, width in enumerate(good):
                if time.perf_counter() > until or i - len(measured) >= _MISSES:
                    break
                cache.rewind(start + len(single))
                while len(single) < width:
                    single += backend.extend([Chunk(cache, [text[start + len(single)]])])
                cache.rewind(start)
                rows = backend.extend([Chunk(cache, text[start : start + width])])[0]
                if np.array_equal(rows, np.concatenate(single[:width])):
                    measured.append(width)
            good = measured
            cache.close()
        return (1, *good)

    def _grow(self, backend: Backend, cache: Cache, at: int) -> tuple[Rows, bool]:
        """Two tokens of the first text as one line of a tree, and whether a branch beside it went wrong."""
        one, two = self._texts
        nodes = [one[at], two[at], one[at + 1], two[at + 1]]
        rows = backend.extend([Chunk(cache, nodes, "all", [-1, -1, 0, 1])])[0]
        cache.rewind(at, [at, at + 2])
        branch = self._read_plainly([*one[:at], *two[at : at + 2]])
        return rows[[0, 2]], not self._same(rows[[1, 3]], branch[at:])

    def _read_plainly(self, text: list[int]) -> Rows:
        return self._forward.plain(text).float().cpu().numpy()

    def _same(self, rows: Rows, plain: Rows) -> bool:
        """Whether rows differ by rounding at most."""
        spread = float(np.abs(plain - plain.mean(axis=-1, keepdims=True)).max())
        near = (1e-3 if self._forward.dtype.itemsize == 4 else 0.1) * spread + 1e-6
        return rows.shape == plain.shape and bool(np.all(np.abs(rows - plain) <= near))
