"""llama.cpp's context: the cells that remember texts, and the passes that fill them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.backends.llamacpp.library import forget_errors, library, said
from redline.backends.llamacpp.model import Model, as_bytes
from redline.core.errors import ModelError, NoRoom

BATCH = 512
"""Tokens handed over at a time; longer prompts take several calls."""

_UBATCH = 128
"""Tokens that llama.cpp computes at a time: the working memory grows with it, the speed hardly."""

_ROUND = 256  # llama.cpp rounds the cells of a sequence up to this
_PARTIAL = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: only the part of a state that cannot be cut
_BF16 = 30  # GGML_TYPE_BF16


@dataclass(frozen=True, slots=True)
class Shape:
    """What a context is made for.

    Attributes:
        cells: Tokens that it can hold, of all its sequences together.
        sequences: How many there can be.
        steady: Attention whose sums do not depend on the width of a pass; a little slower over long texts.
        threads: CPU threads.
    """

    cells: int
    sequences: int
    steady: bool
    threads: int


def rounded(cells: int) -> int:
    """`cells` rounded up to what llama.cpp makes of it."""
    return -(-cells // _ROUND) * _ROUND


@dataclass(frozen=True, slots=True)
class Entry:
    """One token of a pass: its id, position, the sequences it belongs to, and whether its row is wanted."""

    token: int
    position: int
    sequences: Sequence[int]
    wanted: bool


class Memory:
    """One llama.cpp context, until `close` or until nobody refers to it any more.

    Raises:
        ModelError: There is no memory for it, or the model keeps none of what it has read.
    """

    def __init__(self, model: Model, shape: Shape) -> None:
        lib = library()
        self.model, self.shape = model, shape
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_seq_max, params.kv_unified = shape.cells, shape.sequences, True
        params.n_batch, params.n_ubatch = BATCH, _UBATCH
        params.n_threads = params.n_threads_batch = shape.threads
        params.swa_full = True  # else a sliding window forgets what a rewind needs
        params.no_perf = True
        params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_AUTO
        if shape.steady:
            # llama.cpp cuts long caches of equal float types into parts for one-row passes only; keys in
            # f16 beside values in bf16 keep it on the one kernel that adds up cell by cell.
            params.type_v = _BF16
        forget_errors()
        self.handle: Any = lib.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise NoRoom(
                f"llama.cpp has no memory for {params.n_ctx} tokens: {said()}.",
                "Ask for a shorter context with --context, or close other programs.",
            )
        self._batch: Any = lib.llama_batch_init(BATCH, 0, shape.sequences)
        # The model is an argument so that it outlives its contexts, whatever order they are collected in.
        self._end = weakref.finalize(self, _free, self.handle, self._batch, model)
        self._end.atexit = False  # a thread may still be in the middle of a pass
        self._memory: Any = lib.llama_get_memory(self.handle)
        if not self._memory:
            self.close()
            raise ModelError(
                "llama.cpp keeps no memory of what this model has read, so it cannot write on from a text.",
                "Use a causal language model.",
            )

    def decode(self, entries: Sequence[Entry]) -> NDArray[np.float32]:
        """Read tokens.

        Returns:
            The rows that are wanted, in order, (rows, vocab); a copy.

        Raises:
            ModelError: llama.cpp failed; the sequences are in an unknown state.
        """
        lib, width = library(), self.model.vocab_size
        rows = np.empty((sum(entry.wanted for entry in entries), width), np.float32)
        done = 0
        for first in range(0, len(entries), BATCH):
            part = entries[first : first + BATCH]
            self._fill(part)
            forget_errors()
            code = lib.llama_decode(self.handle, self._batch)
            if code != 0:
                raise ModelError(_meaning(code), "Ask for a shorter context, or report this with --debug.")
            count = sum(entry.wanted for entry in part)
            if count:
                found = lib.llama_get_logits(self.handle)
                if not found:
                    raise ModelError("llama.cpp gave no logits.", "Report this with --debug.")
                rows[done : done + count] = np.ctypeslib.as_array(found, (count, width))
                done += count
        return rows

    def cut(self, sequence: int, position: int) -> bool:
        """Forget a sequence's tokens from a position on. False where this memory cannot: nothing changed."""
        return bool(library().llama_memory_seq_rm(self._memory, sequence, position, -1))

    def share(self, source: int, target: int) -> None:
        """Let the cells of a sequence belong to another one too."""
        library().llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def save(self, sequence: int, partial: bool = False, into: Any = None) -> Any:
        """The state of a sequence.

        Args:
            sequence: Which.
            partial: Only what cannot be cut: a recurrent state.
            into: An older state that is of no use any more; its memory is taken where the size fits.
        """
        lib, flags = library(), _PARTIAL if partial else 0
        forget_errors()
        size = lib.llama_state_seq_get_size_ext(self.handle, sequence, flags)
        state = into if into is not None and len(into) == size else as_bytes(size)
        if lib.llama_state_seq_get_data_ext(self.handle, state, size, sequence, flags) != size:
            raise ModelError(f"llama.cpp cannot save a text: {said()}.", "Report this with --debug.")
        return state

    def restore(self, sequence: int, state: Any, partial: bool = False) -> None:
        """Make a sequence what `save` saw."""
        flags = _PARTIAL if partial else 0
        forget_errors()
        read = library().llama_state_seq_set_data_ext(self.handle, state, len(state), sequence, flags)
        if read != len(state):
            raise ModelError(f"llama.cpp cannot restore a text: {said()}.", "Report this with --debug.")

    def back(self, sequence: int, position: int, state: Any) -> bool:
        """Forget a sequence's tokens from a position on, if need be by its state there.

        Args:
            sequence: Which.
            position: What `save(sequence, partial=True)` saw the end of.
            state: What it gave.

        Returns:
            Whether that worked; else the sequence is in an unknown state.
        """
        if self.cut(sequence, position):
            return True
        if state is None:
            return False
        self.restore(sequence, state, partial=True)
        return self.cut(sequence, position)

    def take(self, other: Memory) -> None:
        """Become what another memory is, with all of its sequences.

        The state of a single sequence would lack the cells that a sliding window has left behind, and a
        rewind may need them. They also need a guard here: llama.cpp looks for free cells from the first one
        on, and takes those out of the window that belong to one sequence only. So all belong to a second
        one as well until it has found the end of the text. Behind that it goes on cell by cell.
        """
        lib = library()
        forget_errors()
        size = lib.llama_state_get_size(other.handle)
        state = as_bytes(size)
        if lib.llama_state_get_data(other.handle, state, size) != size:
            raise ModelError(f"llama.cpp cannot save its texts: {said()}.", "Report this with --debug.")
        if lib.llama_state_set_data(self.handle, state, size) != size:
            raise ModelError(f"llama.cpp cannot restore its texts: {said()}.", "Report this with --debug.")
        length = lib.llama_memory_seq_pos_max(self._memory, 0) + 1
        if self.model.window and length:
            self.share(0, 1)
            self.decode([Entry(0, length, (1,), False)])
            self.cut(1, 0)

    def close(self) -> None:
        self._end()
        self.handle = None

    def _fill(self, entries: Iterable[Entry]) -> None:
        batch = self._batch
        for i, entry in enumerate(entries):
            batch.token[i], batch.pos[i], batch.logits[i] = entry.token, entry.position, entry.wanted
            batch.n_seq_id[i] = len(entry.sequences)
            for j, sequence in enumerate(entry.sequences):
                batch.seq_id[i][j] = sequence
            batch.n_tokens = i + 1


def _free(handle: Any, batch: Any, _: Model) -> None:
    library().llama_batch_free(batch)
    library().llama_free(handle)


def _meaning(code: int) -> str:
    """What a return code of llama_decode says."""
    meaning = {1: "there is no room for the tokens", 2: "the pass was aborted", -1: "it refused the tokens"}
    return f"llama.cpp failed: {meaning.get(code, f'code {code}')}; {said()}."
