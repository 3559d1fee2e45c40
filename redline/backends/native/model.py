"""The forward pass of a Llama-like decoder, with nothing in it that a row could notice of another row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from redline.backends.native import check
from redline.backends.native.attention import Attention, Blocked
from redline.backends.native.config import Config
from redline.backends.native.linear import Linear
from redline.backends.native.plan import Part, Piece
from redline.backends.native.rope import Rotary, rotate
from redline.backends.native.weights import Embedding

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class Block(Generic[L]):
    """The weights of one layer, its linear ones as `L`; query, key and value rows are fused in `qkv`.

    Attributes:
        norm, mlp_norm: RMS norm weights before attention and before the MLP, (hidden,).
        head_norm: Qwen3's norm of every query and key head, (heads + kv_heads, head_dim), or None.
    """

    norm: Tensor
    qkv: L
    head_norm: Tensor | None
    out: L
    mlp_norm: Tensor
    gate: L
    up: L
    down: L


@dataclass(frozen=True, slots=True)
class Sight:
    """A run as the attention needs it.

    Attributes:
        given: Rows to hand over, borrowed ones last.
        rows: The run's own among them, which come first.
        prepared: What the attention made ready for them.
        line: See `plan.Run`.
    """

    given: slice | Tensor
    rows: list[int]
    prepared: Any
    line: list[int] | None


class Place:
    """One text's keys and values, as views that are made once a pass and used in every layer.

    Attributes:
        keys, values: Of each layer, (kv_heads, capacity, head_dim).
        nodes: The unsettled slots, (2, layers, kv_heads, nodes, head_dim); None for a chain.
        sights: The runs.
    """

    def __init__(self, part: Part, sights: list[Sight]) -> None:
        store, count = part.cache.store, part.rows[1] - part.rows[0]
        assert store is not None
        self.keys, self.values = store[0].unbind(), store[1].unbind()
        new = store[:, :, :, part.slot : part.slot + count].transpose(2, 3)
        self._new_keys, self._new_values = new[0].unbind(), new[1].unbind()
        self.nodes = None if sights[0].line is None else store[:, :, :, part.settled : part.slot + count]
        self.sights = sights
        self._rows = slice(*part.rows)

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the new rows' keys and values, each (rows, kv_heads, head_dim)."""
        self._new_keys[layer].copy_(k[self._rows])
        self._new_values[layer].copy_(v[self._rows])


class Model:
    """Weights and the way through them.

    Args:
        config: Shape.
        embedding: Token id → residual.
        blocks: Layers.
        norm: Last RMS norm's weight, (hidden,).
        head: Residual → logits.
        rotary: Rotations.

    Attributes:
        attention: How attention is computed; chosen by `settle`.
        floor: Rows that the linear layers must be given at least.
        dtype: Of rows, keys and values; that of the linear layers' weights may be narrower.
        head_rows: How many rows' logits cost about as much as one row's, where more of them cost more;
            0 where reading the head's weights is all that counts.
        key_block: Keys lie in blocks of so many slots, and heads are filled up to as many numbers.
    """

    head_rows = 0
    key_block = 1

    def __init__(
        self,
        config: Config,
        embedding: Embedding,
        blocks: list[Block[Linear]],
        norm: Tensor,
        head: Linear,
        rotary: Rotary,
    ) -> None:
        self.config, self.blocks, self.head = config, blocks, head
        self.attention: Attention
        self.floor, self.dtype = 1, norm.dtype
        self._embedding, self._norm, self._rotary = embedding, norm, rotary

    @property
    def way(self) -> str:
        """The name of the way in which attention is computed."""
        return self.attention.name

    def settle(self, device: torch.device, holds: Callable[[], bool]) -> bool:
        """Choose how to compute, and find out whether rows then keep their bits; `holds` tries it."""
        self.attention = check.attention(self.config, device, self.dtype)
        block = self.blocks[0]
        uses = [(block.qkv, ""), (block.out, "plus"), (block.gate, "swish"), (block.up, "times")]
        uses += [(block.down, "plus"), (self.head, "")]
        floor = check.linear(uses, device, self.dtype)
        if floor is not None:
            self.floor = floor
            if holds():
                return True
        # Without invariance there is nothing to pay for: one row as one row, the fastest attention.
        self.floor = 1
        self.attention = Blocked(self.config.groups, device, self.dtype)
        return False

    def forward(self, piece: Piece, layers: range, x: Tensor | None = None) -> Tensor:
        """Take the rows of a piece through some layers and write their keys and values into their caches.

        Args:
            piece: Rows; their caches must have room for them.
            layers: Which, one after the other.
            x: What the layers before left of the rows, (rows, hidden); None where there are none before.

        Returns:
            Residuals of the wanted rows, (wanted, hidden).
        """
        count, places = self._places(piece)
        spare = [0] * (count - len(piece.tokens))
        if x is None:
            x = self._embedding([*piece.tokens, *spare])
        else:
            x = torch.cat([x, x[:1].expand(len(spare), -1)])
        rotations, heads = self._rotary([*piece.positions, *spare]), self.config.heads
        for layer in layers:
            block = self.blocks[layer]
            qk, v = self._project(block, x, rotations)
            for place in places:
                place.write(layer, qk[:, heads:], v)
            if layer == layers[-1] and not piece.wanted:
                break
            x = block.out.plus(self._attend(layer, qk[:, :heads], places), x)
            h = self._rms(x, block.mlp_norm)
            x = block.down.plus(block.up.times(h, block.gate.swish(h)), x)
        return x if piece.wanted == list(range(len(x))) else x[piece.wanted]

    def logits(self, x: Tensor, vocabulary: int | None = None) -> Tensor:
        """Logits, (rows, vocab), of residuals that `forward` returned, (rows, hidden); at least one row.

        Some are enough where `vocabulary` says so; see `ports.Chunk`. Here all are given.
        """
        rows = torch.cat([x, x[:1].expand(self.floor - len(x), -1)]) if len(x) < self.floor else x
        return self.head(self._rms(rows, self._norm))[: len(x)]

    def _places(self, piece: Piece) -> tuple[int, list[Place]]:
        """How many rows to compute, and where every part's keys, values and runs are.

        A run may have to borrow the rows after it, whose results for it are dropped.
        """
        count = max(len(piece.tokens), self.floor)
        alone = len(piece.parts) == 1 and len(piece.parts[0].runs) == 1
        places = []
        for part in piece.parts:
            sights = []
            for run in part.runs:
                rows, first = list(run.rows), run.rows[0]
                used = self.attention.given(count if alone else len(rows))
                where: slice | Tensor = slice(first, first + used)
                if rows == list(range(first, first + len(rows))):
                    count = max(count, first + used)
                else:
                    where = torch.tensor(rows + rows[-1:] * (used - len(rows)))
                line = None if run.line is None else list(run.line)
                sights.append(Sight(where, rows, self.attention.prepare(run.start, used), line))
            places.append(Place(part, sights))
        return count, places

    def _project(self, block: Block[Linear], x: Tensor, rotations: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys, (rows, heads + kv_heads, head_dim), and values, (rows, kv_heads, head_dim)."""
        config = self.config
        qkv = block.qkv(self._rms(x, block.norm)).view(len(x), -1, config.head_dim)
        qk, v = qkv[:, : -config.kv_heads], qkv[:, -config.kv_heads :]
        if block.head_norm is not None:
            qk = self._rms(qk, None) * block.head_norm
        return rotate(qk, rotations), v

    def _attend(self, layer: int, q: Tensor, places: Sequence[Place]) -> Tensor:
        """Attention of every row, (rows, heads · head_dim); rows that belong to no run are zero."""
        first = places[0]
        if len(places) == 1 and len(first.sights) == 1 and first.nodes is None:
            return self.attention(q, first.keys[layer], first.values[layer], first.sights[0].prepared)
        out = torch.zeros((len(q), q.shape[1] * q.shape[2]), dtype=q.dtype, device=q.device)
        for place in places:
            k, v = place.keys[layer], place.values[layer]
            slots = None if place.nodes is None else place.nodes[:, layer]
            nodes = None if slots is None else slots.clone()
            for sight in place.sights:
                if slots is not None and nodes is not None and sight.line is not None:
                    slots[:, :, : len(sight.line)] = nodes[:, :, sight.line]
                out[sight.rows] = self.attention(q[sight.given], k, v, sight.prepared)[: len(sight.rows)]
            if slots is not None and nodes is not None:
                slots.copy_(nodes)
        return out

    def _rms(self, x: Tensor, weight: Tensor | None) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, self.config.eps)
