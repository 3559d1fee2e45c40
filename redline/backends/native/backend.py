"""`NativeBackend`: the model behind `ports.Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from redline.backends.chunks import Growth, check_chunks, wanted
from redline.backends.native.attention import spanned
from redline.backends.native.cache import Ahead, NativeCache
from redline.backends.native.deferred import Deferred
from redline.backends.native.passes import AnyModel, read, read_states
from redline.backends.native.plan import ROWS
from redline.core.ports import Chunk, Logits, Tokenizer, Traits

_PROBES = (1, 1, 2, 3, 5, 8, 12, 31)
"""Chunks that the whole-model check compares with one pass of `ROWS` rows; one more row is left over."""


class NativeBackend:
    """A Llama-like model that reads any number of texts at once.

    Implements `ports.Backend`, `ports.Deferring` and `ports.Exits`.

    Not for several threads at a time; torch itself uses `threads` of them.

    Args:
        name: For records.
        model: Weights.
        tokenizer: Text to ids and back.
        device: Where the weights are.
        precision: What the weights are in, for records; rows, keys and values are in the model's dtype.
    """

    def __init__(
        self, name: str, model: AnyModel, tokenizer: Tokenizer, device: torch.device, precision: str
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self._model: AnyModel | None = model
        self._device, self._dtype = device, model.dtype
        config = model.config
        self.traits = Traits(
            vocab_size=config.vocab,
            context=config.context,
            row_invariant=False,
            dtype=precision,
            device=str(device),
            threads=torch.get_num_threads() if device.type == "cpu" else 0,
        )
        with torch.inference_mode():
            invariant = model.settle(device, partial(self._holds, model))
        self.traits = replace(self.traits, row_invariant=invariant)

    @property
    def attention(self) -> str:
        """The name of the way in which attention is computed."""
        return self._alive().way

    def open(self) -> NativeCache:
        model = self._alive()
        config, block = model.config, model.key_block
        shape = (2, config.layers, config.kv_heads, spanned(1), -(-config.head_dim // block) * block)
        return NativeCache(self, torch.zeros(shape, dtype=self._dtype, device=self._device), block)

    @property
    def exits(self) -> range:
        """After how many layers a token can leave."""
        return range(1, self._alive().config.layers)

    @torch.inference_mode()
    def extend(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        model, growths = self._alive(), check_chunks(self, chunks, NativeCache)
        if not chunks:
            return []
        parts: list[list[NDArray[np.float32]]] = [[] for _ in chunks]
        vocabulary = max(chunk.vocabulary or self.traits.vocab_size for chunk in chunks)
        known = self._prepare(chunks)
        for piece, x in read(model, chunks, growths, known, model.config.layers):
            if not piece.wanted:
                continue
            rows, at = model.logits(x, vocabulary).float().cpu().numpy(), 0
            for part in piece.parts:
                count = sum(part.rows[0] <= row < part.rows[1] for row in piece.wanted)
                parts[part.chunk].append(rows[at : at + count])
                at += count
        for chunk, grown in zip(chunks, growths, strict=True):
            assert isinstance(chunk.cache, NativeCache)
            chunk.cache.commit(grown)
        empty = np.empty((0, self.traits.vocab_size), np.float32)
        return [np.concatenate(found) if found else empty for found in parts]

    @torch.inference_mode()
    def extend_exit(self, chunks: Sequence[Chunk], layers: int) -> list[NDArray[np.float32]]:
        """Read tokens part of the way; see `ports.Exits`."""
        model, growths = self._alive(), check_chunks(self, chunks, NativeCache)
        if not chunks:
            return []
        if layers not in self.exits:
            raise ValueError(f"{self.name} can be left after {self.exits[0]} to {self.exits[-1]} layers.")
        if any(growth.parents is not None for growth in growths):
            raise ValueError("Only chains behind chains are read part of the way.")
        known = self._prepare(chunks, layers)
        states = read_states(model, chunks, growths, known, layers)
        for chunk, own in zip(chunks, states, strict=True):
            assert isinstance(chunk.cache, NativeCache)
            chunk.cache.ahead = Ahead(layers, list(chunk.tokens), own)
        rows = [own[wanted(chunk)] for chunk, own in zip(chunks, states, strict=True)]
        vocabulary = max(chunk.vocabulary or self.traits.vocab_size for chunk in chunks)
        logits = [
            model.logits(x, vocabulary).float().cpu() for x in torch.split(torch.cat(rows), ROWS) if len(x)
        ]
        found = torch.cat(logits) if logits else torch.empty(0, self.traits.vocab_size)
        return [own.numpy() for own in torch.split(found, [len(own) for own in rows])]

    @torch.inference_mode()
    def extend_deferred(self, chunks: Sequence[Chunk]) -> Sequence[Logits]:
        """As `extend`; see `ports.Deferring`. Several texts share a reading of the head's weights instead."""
        model = self._alive()
        count = len(chunks[0].tokens) if len(chunks) == 1 and chunks[0].rows == "all" else 0
        if not 2 * model.head_rows <= count <= ROWS or not model.head_rows:
            return self.extend(chunks)
        (growth,), (chunk,) = check_chunks(self, chunks, NativeCache), chunks
        residuals = self._read(model, chunk, growth, model.config.layers)
        return [Deferred(model.logits, residuals, chunk.parents, model.head_rows)]

    def close(self) -> None:
        self._model = None

    def _alive(self) -> AnyModel:
        if self._model is None:
            raise ValueError(f"{self.name} is closed.")
        return self._model

    def _holds(self, model: AnyModel) -> bool:
        """Whether the first two layers and the head give a chunk's rows the same bits in smaller chunks."""
        tokens = [(i * 7919 + 1) % model.config.vocab for i in range(min(ROWS, model.config.context))]
        together, parted = self.open(), self.open()
        whole = self._probe(model, together, tokens)
        ends = [end for end in accumulate(_PROBES) if end < len(tokens)]
        parts = [tokens[a:b] for a, b in pairwise([0, *ends, len(tokens)])]
        rows = torch.cat([self._probe(model, parted, part) for part in parts])
        same = together.store is not None and parted.store is not None
        return same and torch.equal(whole, rows) and torch.equal(together.store, parted.store)  # type: ignore[arg-type]

    def _probe(self, model: AnyModel, cache: NativeCache, tokens: list[int]) -> torch.Tensor:
        chunk = Chunk(cache, tokens)
        return model.logits(self._read(model, chunk, cache.growth(chunk), min(2, model.config.layers)))

    def _read(self, model: AnyModel, chunk: Chunk, growth: Growth, layers: int) -> torch.Tensor:
        """Read a chunk of at most `ROWS` tokens; residuals of the wanted rows."""
        ((_, residuals),) = read(model, [chunk], [growth], self._prepare([chunk]), layers)
        assert isinstance(chunk.cache, NativeCache)
        chunk.cache.commit(growth)
        return residuals

    def _prepare(self, chunks: Sequence[Chunk], leave: int | None = None) -> list[Ahead | None]:
        """Make room for chunks, and take what of their first tokens a pass that leaves there can use."""
        known = []
        for chunk in chunks:
            assert isinstance(chunk.cache, NativeCache)
            chunk.cache.reserve(chunk.cache.length + len(chunk.tokens))
            ahead = chunk.cache.take_ahead(chunk)
            # Where rows do not keep their bits, a text must not depend on who else has read its tokens.
            fits = self.traits.row_invariant if leave is None else ahead and ahead.layers == leave
            known.append(ahead if fits else None)
        return known
