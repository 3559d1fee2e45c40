"""The ways to read with a transformers model: all texts in one pass, or each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache

from redline.backends.chunks import Growth, Slots, wanted
from redline.backends.transformers import seams
from redline.backends.transformers.forward import Forward
from redline.backends.transformers.packed import PackedCache, Part
from redline.core.ports import Backend, Chunk

Rollback = Literal["truncate", "snapshot", "none"]


class Way(Protocol):
    """How texts are read.

    Attributes:
        summary: For people.
        rollback, trees: See `ports.Traits`.
    """

    summary: str
    rollback: Rollback
    trees: bool

    def begin(self) -> None:
        """Prepare the model, before anything is read in this way."""
        ...

    def open(self, backend: Backend) -> Slots: ...

    def read(self, chunks: Sequence[Chunk], growths: Sequence[Growth]) -> list[Tensor]:
        """The rows that each chunk asks for; nothing is counted into the caches yet."""
        ...


class Packed:
    """All texts in one pass; see `packed`."""

    summary = "all texts in one pass"
    rollback: Rollback = "truncate"
    trees = True

    def __init__(self, forward: Forward, plain: str) -> None:
        self._forward, self._plain = forward, plain

    def begin(self) -> None:
        self._forward.model.set_attn_implementation(seams.name(self._plain))

    def open(self, backend: Backend) -> PackedCache:
        return PackedCache(backend)

    def read(self, chunks: Sequence[Chunk], growths: Sequence[Growth]) -> list[Tensor]:
        tokens, positions, rows, parts = list[int](), list[int](), list[int](), list[Part]()
        for chunk, growth in zip(chunks, growths, strict=True):
            assert isinstance(chunk.cache, PackedCache)
            start = len(tokens)
            rows += (start + row for row in wanted(chunk))
            tokens += chunk.tokens
            positions += growth.positions
            parts.append(Part(chunk.cache, (start, len(tokens)), growth))
        logits = seams.run(lambda cache: self._forward(tokens, rows, cache, positions), parts)
        return list(torch.split(logits, [len(wanted(chunk)) for chunk in chunks]))


class SoloCache(Slots):
    """One text in a cache of the library's. Implements `ports.Cache`.

    Attributes:
        memory: The library's cache; None when closed.
    """

    def __init__(self, backend: Backend, memory: Any) -> None:
        super().__init__(backend)
        self.memory = memory

    @torch.inference_mode()
    def keep(self, length: int, path: Sequence[int]) -> None:
        if length < self.length:
            self.memory.crop(length - self.length)

    def close(self) -> None:
        super().close()
        self.memory = None


class Solo:
    """Each text by itself, in the library's own cache.

    Args:
        forward: The model.
        plain: The library's way to compute attention.
        make: Makes the library's cache.
        rollback: "truncate" where that cache can be cut, or "none".
        stride: Tokens of one call; None for a whole chunk.
    """

    trees = False

    def __init__(
        self,
        forward: Forward,
        plain: str,
        make: Callable[[], Any],
        rollback: Rollback,
        stride: int | None = None,
    ) -> None:
        self.rollback = rollback
        self.summary = "one text at a time" if stride is None else "one token at a time"
        self._forward, self._plain, self._make, self._stride = forward, plain, make, stride

    def begin(self) -> None:
        model = self._forward.model
        if model.config._attn_implementation != self._plain:
            model.set_attn_implementation(self._plain)

    def open(self, backend: Backend) -> SoloCache:
        return SoloCache(backend, self._make())

    def read(self, chunks: Sequence[Chunk], growths: Sequence[Growth]) -> list[Tensor]:
        return [self._read(chunk) for chunk in chunks]

    def _read(self, chunk: Chunk) -> Tensor:
        assert isinstance(chunk.cache, SoloCache)
        count, rows, found = len(chunk.tokens), wanted(chunk), []
        stride = self._stride or count
        for start in range(0, count, stride):
            tokens = chunk.tokens[start : start + stride]
            here = [row - start for row in rows if start <= row < start + stride]
            found.append(self._forward(tokens, here, chunk.cache.memory))
        return torch.cat(found)


def ways(forward: Forward) -> Iterator[Way]:
    """All ways that may do for a model, the best first."""
    config, plain = forward.model.config, forward.model.config._attn_implementation
    if forward.positioned and plain in seams.PLAIN:
        yield Packed(forward, plain)
    # Made without the configuration, the library's cache keeps every token in every layer and can be cut;
    # made with it, it holds what the model's kinds of layers need, windows and recurrent states.
    yield Solo(forward, plain, DynamicCache, "truncate")
    yield Solo(forward, plain, lambda: DynamicCache(config=config), "none")
    yield Solo(forward, plain, lambda: DynamicCache(config=config), "none", stride=1)
