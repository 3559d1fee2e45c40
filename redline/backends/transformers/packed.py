"""Any number of texts in one pass, row after row without padding, each with its own keys and values.

A pass is one row of tokens to the model: the new tokens of all texts, end to end, each with its position.
Everything in a decoder but attention treats tokens alone, so only attention needs to know where a text
ends. Three of transformers' own seams (`seams`) make it know:

- The cache that the model is given writes each text's new keys and values behind its old ones.
- The mask function is asked which positions see which, by the rule that the model itself brings: causal,
  sliding, chunked. It answers for each text alone, and adds the lines of a tree.
- The attention function calls the library's own, once a text.

The model carries keys and masks from one seam to the next untouched, so they serve as tickets: a layer
whose ticket has been changed on the way is one that this cannot serve, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from redline.backends.chunks import Growth, Slots
from redline.core.ports import Backend


class Unpackable(Exception):
    """The model does something between the seams that packing does not allow for."""


class PackedCache(Slots):
    """Keys and values of one text in slots. Implements `ports.Cache`.

    Attributes:
        places: The position of every slot.
        stores: Layer → keys and values, each (1, heads, capacity, size), `length` of it in use.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.places: list[int] = []
        self.stores: dict[int, tuple[Tensor, Tensor]] = {}

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put new keys and values behind the old ones; they count once they are committed."""
        start, end = self.length, self.length + keys.shape[2]
        store = self.stores.get(layer)
        if store is None or store[0].shape[2] < end:
            store = self.stores[layer] = (
                self._grown(store, 0, keys, end),
                self._grown(store, 1, values, end),
            )
        store[0][:, :, start:end] = keys
        store[1][:, :, start:end] = values

    def _grown(self, store: tuple[Tensor, Tensor] | None, which: int, new: Tensor, end: int) -> Tensor:
        """A larger store; it doubles, so that a text's growth costs each entry a copy or two."""
        capacity = max(end, 64, min(2 * end, self.backend.traits.context))
        grown = new.new_empty((1, new.shape[1], capacity, new.shape[3]))
        if store is not None:
            grown[:, :, : self.length] = store[which][:, :, : self.length]
        return grown

    def commit(self, growth: Growth) -> None:
        super().commit(growth)
        self.places += growth.positions

    @torch.inference_mode()
    def keep(self, length: int, path: Sequence[int]) -> None:
        self.places = [*self.places[:length], *(self.places[slot] for slot in path)]
        if path:
            for store in self.stores.values():
                for half in store:
                    half[:, :, length : length + len(path)] = half[:, :, list(path)]

    def close(self) -> None:
        super().close()
        self.places, self.stores = [], {}


@dataclass(frozen=True, slots=True)
class View:
    """What one text's rows see of its cache.

    Attributes:
        slots: From the first slot that any of them sees to the last.
        seen: Who sees which of those, (1, 1, rows, slots); None where everybody sees all.
    """

    slots: slice
    seen: Tensor | None


@dataclass(frozen=True, slots=True)
class Part:
    """One text's rows in a pass.

    Attributes:
        cache: Its cache.
        rows: First row and the one after the last.
        growth: What the rows add to the cache.
    """

    cache: PackedCache
    rows: tuple[int, int]
    growth: Growth

    def view(self, rule: Callable[..., Tensor], device: torch.device) -> View:
        """What the rows see by a model's rule, which knows positions, and by the tree they stand in."""
        places = [*self.cache.places, *self.growth.positions]
        keys = torch.tensor(places, device=device)
        queries = keys[len(self.cache.places) :]
        zero = torch.zeros((1, 1, 1, 1), dtype=torch.long, device=device)
        seen = rule(zero, zero, queries[None, None, :, None], keys[None, None, None, :])
        seen = seen.expand(1, 1, len(queries), len(keys))
        if self.growth.parents is not None:
            seen = seen & self._lines(self.growth.parents).to(device)
        first = int(seen.any(dim=2).flatten().int().argmax())
        seen = seen[..., first:]
        # One row that sees everything needs no mask, and is faster without.
        return View(slice(first, len(keys)), None if len(queries) == 1 and bool(seen.all()) else seen)

    def _lines(self, new: Sequence[int]) -> Tensor:
        """Which slots are on each row's own line: all settled ones, and those of the tree that lead to it."""
        settled, parents = self.cache.settled, [*self.cache.parents, *new]
        lines = torch.zeros((len(parents), settled + len(parents)), dtype=torch.bool)
        for i, before in enumerate(parents):
            if before >= settled:
                lines[i] = lines[before - settled]
            else:
                lines[i, :settled] = True
            lines[i, settled + i] = True
        return lines[len(self.cache.parents) :]


class Pass(Cache):
    """What the model takes for its cache during one pass: all texts' caches, row after row.

    Args:
        parts: The texts; their rows follow each other.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(layers=[])
        self.parts = parts
        self._rows = parts[-1].rows[1]
        self._keys: dict[int, tuple[Tensor, int]] = {}
        self._masks: dict[int, tuple[Tensor, list[View]]] = {}

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return max(part.cache.length for part in self.parts)

    def get_mask_sizes(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Of no consequence: `mask` looks at positions."""
        return self._rows, 0

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        for part in self.parts:
            start, end = part.rows
            part.cache.write(layer_idx, key_states[:, :, start:end], value_states[:, :, start:end])
        self._keys[id(key_states)] = (key_states, layer_idx)  # held on to, so that the id stays its own
        return key_states, value_states

    def mask(self, rule: Callable[..., Tensor], device: torch.device) -> Tensor:
        """A ticket for what every row sees by the model's rule."""
        ticket = torch.empty((1, 1, self._rows, 0), dtype=torch.bool, device=device)
        self._masks[id(ticket)] = (ticket, [part.view(rule, device) for part in self.parts])
        return ticket

    def attend(self, plain: Callable[..., Any], query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of all rows, each text's by the library's own function; (1, rows, heads, size)."""
        if id(key) not in self._keys or id(mask) not in self._masks:
            raise Unpackable("It changes keys or masks between its cache and its attention.")
        layer, found = self._keys[id(key)][1], []
        for part, view in zip(self.parts, self._masks[id(mask)][1], strict=True):
            keys, values = (half[:, :, view.slots] for half in part.cache.stores[layer])
            found.append(plain(query[:, :, slice(*part.rows)], keys, values, view.seen))
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)
