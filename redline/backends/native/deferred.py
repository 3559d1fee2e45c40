"""Logits that are computed when somebody asks for them, a few at a time along a line of the chunk's tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Deferred:
    """A chunk's logits. Implements `ports.Logits`.

    The head of a small model with a large vocabulary is a sixth of the work of a row, and a rule that has
    refused a guess never looks at the rows behind it. Reading the head's weights costs as much as a few
    rows' arithmetic, though, so that whoever asks for a row gets those ready that a rule will ask for next
    if it keeps the guesses: the row's first child, that one's first child, and so on. Each time it is twice
    as many: where four guesses were kept the next four probably will be.

    Args:
        head: Residuals, (rows, hidden), to logits, (rows, vocab).
        residuals: Of the chunk's rows, (rows, hidden).
        parents: Of each row within the chunk, or None for a chain.
        ahead: How many rows to compute at first.
    """

    def __init__(
        self, head: Callable[[Tensor], Tensor], residuals: Tensor, parents: Sequence[int] | None, ahead: int
    ) -> None:
        self._head, self._residuals, self._ahead = head, residuals, ahead
        count = len(residuals)
        self._next: dict[int, int] = {}
        for row, parent in enumerate(range(-1, count - 1) if parents is None else parents):
            self._next.setdefault(parent, row)
        self._rows: dict[int, NDArray[np.float32]] = {}

    def __getitem__(self, row: int) -> NDArray[np.float32]:
        if row not in self._rows:
            self._compute(row)
        return self._rows[row]

    @torch.inference_mode()
    def _compute(self, row: int) -> None:
        line = [row]
        while len(line) < self._ahead and line[-1] in self._next:
            line.append(self._next[line[-1]])
        self._ahead *= 2
        self._rows |= zip(line, self._head(self._residuals[line]).numpy(), strict=True)
