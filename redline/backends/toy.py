"""An exact language model in a page of numpy, for proofs: no rounding, a real cache, every kind of rollback.

Its logits are a hash of the whole text so far, or of its last `order` tokens, so that one stale, missing
or misplaced cache entry changes everything that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from redline.core.chance import derive, uniforms
from redline.core.errors import ContextError, RedlineError, RewindError
from redline.core.ports import Chunk, Traits

State = tuple[int, ...]


class ToyTokenizer:
    """One token for each of some byte strings, by default letters. Implements `ports.Tokenizer`.

    Args:
        pieces: The bytes of every token; an empty one is a control token.
        ends: Ids that end an answer.
    """

    def __init__(self, pieces: Sequence[bytes], ends: Sequence[int] = ()) -> None:
        self._pieces = tuple(pieces)
        self.size = len(self._pieces)
        self.ends = frozenset(ends)

    @classmethod
    def letters(cls, size: int, ends: Sequence[int] = ()) -> ToyTokenizer:
        """a, b, c … and then other letters of Unicode."""
        return cls([chr(97 + i if i < 26 else 0xE0 + i).encode() for i in range(size)], ends)

    def encode(self, text: str) -> list[int]:
        data, tokens = text.encode(), list[int]()
        while data:
            fits = [i for i, piece in enumerate(self._pieces) if piece and data.startswith(piece)]
            if not fits:
                raise RedlineError(f"The toy vocabulary cannot write {data[:8]!r}.")
            tokens.append(max(fits, key=lambda i: len(self._pieces[i])))
            data = data[len(self._pieces[tokens[-1]]) :]
        return tokens

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        raise RedlineError("The toy model has no chat template.", "Give it a raw prompt.")

    def piece(self, token: int) -> bytes:
        return self._pieces[token] if 0 <= token < self.size else b""

    def label(self, token: int) -> str:
        return self.piece(token).decode(errors="replace") if 0 <= token < self.size else ""


class ToyCache:
    """The state of the model after every token it has read."""

    def __init__(self, backend: ToyBackend) -> None:
        self.backend = backend
        self.states: list[State] = []
        self.positions: list[int] = []
        self.chunk_start = 0
        self.closed = False

    @property
    def length(self) -> int:
        return len(self.states)

    def rewind(self, length: int, path: Sequence[int] = ()) -> None:
        path = list(path)
        slots = [*range(length), *path]
        rollback = self.backend.traits.rollback
        if self.closed or not 0 <= length <= self.length:
            raise RewindError(f"Cannot keep {length} of {self.length} entries.")
        if path != sorted(set(path)) or any(not length <= slot < self.length for slot in path):
            raise RewindError(f"{path} are not ascending slots from {length} below {self.length}.")
        if rollback == "none" and slots != list(range(self.length)):
            raise RewindError("This cache cannot forget.")
        if rollback == "snapshot" and length < self.chunk_start:
            raise RewindError(f"This cache has no snapshot before {self.chunk_start}.")
        if slots != list(range(len(slots))) and not self.backend.traits.trees:
            raise RewindError("This cache keeps no trees.")
        self.states = [self.states[slot] for slot in slots]
        self.positions = [self.positions[slot] for slot in slots]

    def close(self) -> None:
        self.states, self.positions, self.closed = [], [], True


class ToyBackend:
    """The model. Implements `ports.Backend`.

    Args:
        vocab_size: Width of a row of logits.
        seed: Which of the many toy models.
        order: How many last tokens a row depends on; None for all of them and their positions.
        spread: Distance between the smallest and the largest logit; 0 is uniform.
        logits: Instead of the hash: the row after a state (the last `order` tokens), shape (V,).
        rollback, trees, context: See `Traits`.
        tokenizer: Letters when left out.
    """

    def __init__(
        self,
        vocab_size: int = 16,
        *,
        seed: int = 0,
        order: int | None = None,
        spread: float = 4.0,
        logits: Callable[[State], NDArray[np.floating]] | None = None,
        rollback: Literal["truncate", "snapshot", "none"] = "truncate",
        trees: bool = True,
        context: int = 4096,
        tokenizer: ToyTokenizer | None = None,
    ) -> None:
        self.name = f"toy-{vocab_size}-{seed}"
        self.traits = Traits(vocab_size, context, rollback, trees, row_invariant=True, dtype="exact")
        self.tokenizer = tokenizer or ToyTokenizer.letters(vocab_size)
        self.passes: list[list[int]] = []
        self._seed = seed
        self._order = order
        self._spread = spread
        self._ids = np.arange(vocab_size)
        self._logits = logits or self._hashed

    def open(self) -> ToyCache:
        return ToyCache(self)

    def extend(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        self._check(chunks)
        self.passes.append([len(chunk.tokens) for chunk in chunks])
        return [self._read(chunk) for chunk in chunks]

    def close(self) -> None:
        """A toy holds nothing."""

    def _hashed(self, state: State) -> NDArray[np.floating]:
        return uniforms(derive(self._seed, *state), self._ids) * self._spread

    def _read(self, chunk: Chunk) -> NDArray[np.float32]:
        cache = chunk.cache
        assert isinstance(cache, ToyCache)
        base = cache.chunk_start = cache.length
        parents = chunk.parents if chunk.parents is not None else range(-1, len(chunk.tokens) - 1)
        for token, parent in zip(chunk.tokens, parents, strict=True):
            before = base + parent if parent >= 0 else base - 1
            state = cache.states[before] if before >= 0 else ()
            position = cache.positions[before] + 1 if before >= 0 else 0
            if self._order is None:
                state = (derive(*state, token, position),)
            else:
                state = (*state, token)[max(0, len(state) + 1 - self._order) :]
            cache.states.append(state)
            cache.positions.append(position)
        wanted = {"all": cache.states[base:], "last": cache.states[-1:], "none": []}[chunk.rows]
        rows = [np.asarray(self._logits(state), np.float32) for state in wanted]
        return np.stack(rows) if rows else np.empty((0, self.traits.vocab_size), np.float32)

    def _check(self, chunks: Sequence[Chunk]) -> None:
        caches = [chunk.cache for chunk in chunks]
        if len({id(cache) for cache in caches}) < len(caches):
            raise ValueError("a cache stands twice in one pass")
        for chunk in chunks:
            cache, n = chunk.cache, len(chunk.tokens)
            if not isinstance(cache, ToyCache) or cache.backend is not self or cache.closed:
                raise ValueError("a chunk's cache is closed or belongs to another backend")
            if n == 0 or not all(0 <= token < self.traits.vocab_size for token in chunk.tokens):
                raise ValueError("a chunk is empty or has an id outside the vocabulary")
            if chunk.parents is not None and not self.traits.trees:
                raise ValueError("this backend takes no trees")
            parents = chunk.parents if chunk.parents is not None else range(-1, n - 1)
            if len(parents) != n or not all(-1 <= parent < i for i, parent in enumerate(parents)):
                raise ValueError("a chunk's parents do not fit its tokens")
            if cache.length + n > self.traits.context:
                raise ContextError(
                    f"{cache.length} + {n} tokens do not fit a context of {self.traits.context}.",
                    "Shorten the prompt or ask for fewer tokens.",
                )
