"""Chunks in passes through the model: every token through every layer once, wherever it was left before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor

from redline.backends.chunks import Growth
from redline.backends.native.cache import Ahead
from redline.backends.native.coded import CodedModel
from redline.backends.native.model import Model
from redline.backends.native.plan import Piece, pieces
from redline.core.ports import Chunk

AnyModel: TypeAlias = Model | CodedModel


def read(
    model: AnyModel,
    chunks: Sequence[Chunk],
    growths: Sequence[Growth],
    known: Sequence[Ahead | None],
    layers: int,
    every: bool = False,
) -> Iterator[tuple[Piece, Tensor]]:
    """Take chunks through the first layers.

    The layers are cut where some tokens were left. Those that come from the beginning go up to the cut
    first, then all go on together, so that the weights are read once for a batch of such texts too.

    Args:
        model: What computes.
        chunks, growths: What is to be read; the caches must have room.
        known: Of each chunk's first tokens, what earlier passes left of them.
        layers: How many; at least as many as any of `known` has.
        every: All rows are wanted, whatever the chunks say.

    Yields:
        Each pass through the last of the layers, and the residuals of its wanted rows, (wanted, hidden).
        Rows that are there already go through no pass.
    """
    cuts = sorted({ahead.layers for ahead in known if ahead} - {layers})
    x: Tensor | None = None
    for first, last in pairwise([0, *cuts, layers]):
        left, at = list[Tensor](), 0
        for piece in pieces(
            chunks, growths, model.config.groups, _starts(known, last), every or last < layers
        ):
            end = at + len(piece.tokens)
            left.append(model.forward(piece, range(first, last), None if x is None else x[at:end]))
            at = end
            if last == layers:
                yield piece, left[-1]
        if last < layers:
            x = torch.cat(_by_chunk(chunks, known, left, last))


def read_states(
    model: AnyModel,
    chunks: Sequence[Chunk],
    growths: Sequence[Growth],
    known: Sequence[Ahead | None],
    layers: int,
) -> list[Tensor]:
    """Take chunks through the first layers, where those that are `known` are already; see `read`.

    Returns:
        What these layers leave of every token, (tokens, hidden), a chunk each.
    """
    left = [x for _, x in read(model, chunks, growths, known, layers, every=True)]
    return _by_chunk(chunks, known, left, layers)


def _starts(known: Sequence[Ahead | None], layers: int) -> list[int]:
    """How many first tokens of every chunk have been through so many layers."""
    return [len(ahead.tokens) if ahead and ahead.layers >= layers else 0 for ahead in known]


def _by_chunk(
    chunks: Sequence[Chunk], known: Sequence[Ahead | None], left: list[Tensor], layers: int
) -> list[Tensor]:
    """The rows of every chunk after so many layers: those that were left there before, then the new ones."""
    counts = [len(chunk.tokens) - n for chunk, n in zip(chunks, _starts(known, layers), strict=True)]
    new = iter(torch.split(torch.cat(left), [count for count in counts if count])) if left else iter(())
    rows = []
    for ahead, count in zip(known, counts, strict=True):
        there = [ahead.states] if ahead and ahead.layers == layers else []
        rows.append(torch.cat([*there, *([next(new)] if count else [])]))
    return rows
