"""The same forward pass as `model`'s, on a file's own numbers: one call of `kernels` for all the blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from redline.backends.native.config import Config
from redline.backends.native.kernels import Kernels, Layers, Matrix
from redline.backends.native.kernels import library as c
from redline.backends.native.model import Block
from redline.backends.native.plan import Part, Piece
from redline.backends.native.rope import Rotary

_FLOAT = 4


class CodedModel:
    """Weights in a GGUF file's own bits; rows, keys, values and sums in float32.

    Args:
        kernels: What computes.
        config: Shape.
        embedding: Token id → residual, an output a token.
        blocks: Layers.
        norm: Last RMS norm's weight, (hidden,).
        head: Residual → logits.
        rotary: Rotations.
    """

    way = "kernels"
    dtype = torch.float32
    head_rows = 4
    key_block = 16

    def __init__(
        self,
        kernels: Kernels,
        config: Config,
        embedding: Matrix,
        blocks: list[Block[Layers]],
        norm: Tensor,
        head: Layers,
        rotary: Rotary,
    ) -> None:
        self.config = config
        self._kernels, self._embedding, self._norm = kernels, embedding, norm
        self._rotary, self._blocks = rotary, blocks
        self._heads = {config.vocab: head}
        self._struct = c.Model(
            hidden=config.hidden,
            heads=config.heads,
            kv_heads=config.kv_heads,
            width=config.head_dim,
            inner=config.inner,
            blocks=config.layers,
            eps=config.eps,
            block=(c.Block * len(blocks))(*map(_struct, blocks)),
        )

    def settle(self, device: torch.device, holds: Callable[[], bool]) -> bool:
        """Whether rows keep their bits: they do by the order of the sums, and it is tried all the same."""
        return holds()

    def forward(self, piece: Piece, layers: range, x: Tensor | None = None) -> Tensor:
        """Read the rows of a piece; see `model.Model.forward`."""
        x = self._kernels.rows(self._embedding, piece.tokens) if x is None else x.clone()
        rotations = self._rotary(piece.positions).contiguous()
        rows, kept = (c.Row * len(piece.tokens))(), [rotations]
        for part in piece.parts:
            kept += self._place(part, rotations, rows)
        self._kernels.forward(self._struct, layers, rows, x, only_store=not piece.wanted)
        del kept  # until here C reads them
        return x if piece.wanted == list(range(len(x))) else x[piece.wanted]

    def logits(self, x: Tensor, vocabulary: int | None = None) -> Tensor:
        """The head, or only its first tokens; see `model.Model.logits`."""
        size = min(vocabulary or self.config.vocab, self.config.vocab)
        if size not in self._heads:
            self._heads[size] = self._heads[self.config.vocab].first(size)
        return self._kernels.linear(self._heads[size], x, norm=(self._norm, self.config.eps))

    def _place(self, part: Part, rotations: Tensor, rows: ctypes.Array[c.Row]) -> list[Tensor]:
        """Say of every row of a part what it sees; returns what must live as long as that."""
        store, lines = part.cache.store, []
        assert store is not None
        keys, values = store.data_ptr(), store.data_ptr() + store.stride(0) * _FLOAT
        turn, turns = rotations.data_ptr(), rotations.stride(0) * _FLOAT
        for run in part.runs:
            line = None if run.line is None else torch.tensor(run.line, dtype=torch.int32)
            if line is not None:
                lines.append(line)
            for position, row in enumerate(run.rows, run.start):
                rows[row] = c.Row(
                    keys=keys,
                    values=values,
                    layer=store.stride(1),
                    head=store.stride(2),
                    slot=part.slot + row - part.rows[0],
                    settled=position + 1 if line is None else part.settled,
                    nodes=0 if line is None else position + 1 - part.settled,
                    line=None if line is None else line.data_ptr(),
                    turn=turn + row * turns,
                )
        return lines


def _struct(block: Block[Layers]) -> c.Block:
    return c.Block(
        norm=block.norm.data_ptr(),
        mlp_norm=block.mlp_norm.data_ptr(),
        head_norm=None if block.head_norm is None else block.head_norm.data_ptr(),
        **{name: getattr(block, name).struct for name in ("qkv", "out", "gate", "up", "down")},
    )
