"""`NativeBackend`: the model behind `ports.Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from redline.backends.chunks import check_chunks
from redline.backends.native.attention import spanned
from redline.backends.native.cache import NativeCache
from redline.backends.native.coded import CodedModel
from redline.backends.native.model import Model
from redline.backends.native.plan import ROWS, pieces
from redline.core.ports import Chunk, Tokenizer, Traits

AnyModel: TypeAlias = Model | CodedModel

_PROBES = (1, 1, 2, 3, 5, 8, 12, 31)
"""Chunks that the whole-model check compares with one pass of `ROWS` rows; one more row is left over."""


class NativeBackend:
    """A Llama-like model in torch that reads any number of texts at once. Implements `ports.Backend`.

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
        config = self._alive().config
        shape = (2, config.layers, config.kv_heads, spanned(1), config.head_dim)
        return NativeCache(self, torch.zeros(shape, dtype=self._dtype, device=self._device))

    @torch.inference_mode()
    def extend(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        model, growths = self._alive(), check_chunks(self, chunks, NativeCache)
        if not chunks:
            return []
        for chunk in chunks:
            assert isinstance(chunk.cache, NativeCache)
            chunk.cache.reserve(chunk.cache.length + len(chunk.tokens))
        parts: list[list[NDArray[np.float32]]] = [[] for _ in chunks]
        for piece in pieces(chunks, growths, model.config.groups):
            logits = model.forward(piece)
            if logits is None:
                continue
            rows, at = logits.float().cpu().numpy(), 0
            for part in piece.parts:
                count = sum(part.rows[0] <= row < part.rows[1] for row in piece.wanted)
                parts[part.chunk].append(rows[at : at + count])
                at += count
        for chunk, grown in zip(chunks, growths, strict=True):
            assert isinstance(chunk.cache, NativeCache)
            chunk.cache.commit(grown)
        empty = np.empty((0, self.traits.vocab_size), np.float32)
        return [found[0] if len(found) == 1 else np.concatenate([empty, *found]) for found in parts]

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
        cache.reserve(cache.length + len(tokens))
        growth = cache.growth(chunk)
        (piece,) = pieces([chunk], [growth], model.config.groups)
        logits = model.forward(piece, layers=2)
        cache.commit(growth)
        assert logits is not None
        return logits
