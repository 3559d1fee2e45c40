"""What a model can do under llama.cpp, found out by trying: never believed from its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from redline.backends.llamacpp.memory import Entry, Memory, Shape
from redline.backends.llamacpp.model import Model
from redline.core.errors import ModelError

Rollback = Literal["truncate", "snapshot", "none"]

_WIDTHS = tuple(range(2, 17))
_WIDE = (17, 24, 31, 32, 33, 64, 100, 128)  # of a prompt; they count only where all of the others hold
_PREFIX = 40
_SMALL = 256  # cells of a trial
_COPIES = (0, 5, 15)
"""Copies of the prefix that make a cache longer. llama.cpp takes cells by 256 at a time, which the passes
behind five copies cross, and changes its kernels at 512."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Which passes keep a row's bits.

    Attributes:
        steady: Whether the memory should be made so; see `Shape.steady`.
        widths: Rows of a pass over one text whose bits are those of one-row passes.
        invariant: That holds for any number of rows.
    """

    steady: bool
    widths: tuple[int, ...]
    invariant: bool


NOTHING = Steadiness(steady=False, widths=(1,), invariant=False)
"""What is known without measuring."""


@dataclass(frozen=True, slots=True)
class Recall:
    """What a model's memory is like.

    Attributes:
        rollback: How it forgets: cut anywhere, back to a saved state, or not at all.
        cell_bytes: What one more token takes.
    """

    rollback: Rollback
    cell_bytes: int


def recall(model: Model, shape: Shape) -> Recall:
    """Read two tokens, two more, forget these and read a fifth, which must not know of them.

    Whether it does is a question of which rows its own is nearer to, so no precision is too coarse.
    """
    *first, last = _tokens(model, 5)
    memory = Memory(model, replace(shape, cells=_SMALL, sequences=1))
    try:
        fresh = _line(memory, (*first[:2], last))
        memory.cut(0, 0)
        stale = _line(memory, (*first, last))
        memory.cut(0, 0)
        _line(memory, first[:2])
        state, sizes = memory.save(0, partial=True), [len(memory.save(0))]
        _line(memory, first[2:], 2)
        sizes.append(len(memory.save(0)))
        rollback: Rollback = "truncate" if memory.cut(0, 2) else "snapshot"
        if rollback == "snapshot" and not memory.back(0, 2, state):
            return Recall("none", 0)
        after = _line(memory, (last,), 2)
        if np.abs(after - fresh).max() > 0.1 * np.abs(stale - fresh).max():
            rollback = "none"
        return Recall(rollback, (sizes[1] - sizes[0]) // 2)
    finally:
        memory.close()


def steadiness(model: Model, shape: Shape) -> Steadiness:
    """Which widths give a row its bits, in caches of several lengths.

    Steady attention is a little slower over long texts; it is taken where it gains anything, and some
    models cannot have it.
    """
    steady = replace(shape, steady=True)
    try:
        widths = _exact_widths(model, steady, _WIDTHS)
        if not widths:
            return NOTHING
        invariant = widths == _WIDTHS and _exact_widths(model, steady, _WIDE) == _WIDE
    except ModelError:
        return NOTHING
    return Steadiness(True, (1, *widths), invariant)


def _exact_widths(model: Model, shape: Shape, widths: Sequence[int]) -> tuple[int, ...]:
    """Those of the widths whose rows are, bit for bit, the rows of one-row passes."""
    tokens = _tokens(model, _PREFIX + max(widths))
    memory = Memory(model, replace(shape, cells=4 * _SMALL, sequences=max(_COPIES) + 1))
    try:
        _read(memory, 0, tokens[:_PREFIX], 0)
        before, state, filled = memory.save(0, partial=True), memory.save(0), 0
        for copies in _COPIES:
            for copy in range(filled, copies):
                memory.restore(copy + 1, state)
            filled = copies
            rows = [_row(memory, 0, token, _PREFIX + i) for i, token in enumerate(tokens[_PREFIX:])]
            single = np.concatenate(rows)
            held = []
            for width in widths:
                memory.back(0, _PREFIX, before)
                together = _read(memory, 0, tokens[_PREFIX : _PREFIX + width], _PREFIX)
                if np.array_equal(together, single[:width]):
                    held.append(width)
            memory.back(0, _PREFIX, before)
            widths = held
            if not widths:
                break
        return tuple(widths)
    finally:
        memory.close()


def _tokens(model: Model, count: int) -> list[int]:
    """Ids without sense, since rounding shows most where a model is unsure."""
    return [(i * 7919 + 13) % model.vocab_size for i in range(count)]


def _read(memory: Memory, sequence: int, tokens: Sequence[int], start: int) -> NDArray[np.float32]:
    return memory.decode([Entry(token, start + i, (sequence,), True) for i, token in enumerate(tokens)])


def _line(memory: Memory, tokens: Sequence[int], start: int = 0) -> NDArray[np.float32]:
    """The last row of tokens that are read one by one."""
    return [_row(memory, 0, token, start + i) for i, token in enumerate(tokens)][-1]


def _row(memory: Memory, sequence: int, token: int, position: int) -> NDArray[np.float32]:
    return _read(memory, sequence, [token], position)
