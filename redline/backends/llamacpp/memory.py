"""llama.cpp's context: the cells that remember texts, and the passes that fill them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.backends.llamacpp.library import forget_errors, library, said
from redline.backends.llamacpp.model import Model, as_bytes
from redline.core.errors import ModelError

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
    """One llama.cpp context.

    Raises:
        ModelError: There is no memory for it.
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
            raise ModelError(
                f"llama.cpp has no memory for {params.n_ctx} tokens: {said()}.",
                "Ask for a shorter context with --context, or close other programs.",
            )
        self._memory: Any = lib.llama_get_memory(self.handle)
        self._batch: Any = lib.llama_batch_init(BATCH, 0, shape.sequences)

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

    def save(self, sequence: int, partial: bool = False) -> Any:
        """The state of a sequence; `partial`: only what cannot be cut (a recurrent state)."""
        lib, flags = library(), _PARTIAL if partial else 0
        size = lib.llama_state_seq_get_size_ext(self.handle, sequence, flags)
        state = as_bytes(size)
        if lib.llama_state_seq_get_data_ext(self.handle, state, size, sequence, flags) != size:
            raise ModelError(f"llama.cpp cannot save a text: {said()}.", "Report this with --debug.")
        return state

    def restore(self, sequence: int, state: Any, partial: bool = False) -> None:
        """Make a sequence what `save` saw."""
        flags = _PARTIAL if partial else 0
        read = library().llama_state_seq_set_data_ext(self.handle, state, len(state), sequence, flags)
        if read != len(state):
            raise ModelError(f"llama.cpp cannot restore a text: {said()}.", "Report this with --debug.")

    def close(self) -> None:
        if self.handle:
            library().llama_batch_free(self._batch)
            library().llama_free(self.handle)
            self.handle = None

    def _fill(self, entries: Iterable[Entry]) -> None:
        batch = self._batch
        for i, entry in enumerate(entries):
            batch.token[i], batch.pos[i], batch.logits[i] = entry.token, entry.position, entry.wanted
            batch.n_seq_id[i] = len(entry.sequences)
            for j, sequence in enumerate(entry.sequences):
                batch.seq_id[i][j] = sequence
            batch.n_tokens = i + 1


def _meaning(code: int) -> str:
    """What a return code of llama_decode says."""
    meaning = {1: "there is no room for the tokens", 2: "the pass was aborted", -1: "it refused the tokens"}
    return f"llama.cpp failed: {meaning.get(code, f'code {code}')}; {said()}."
