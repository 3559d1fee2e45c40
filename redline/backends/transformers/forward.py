"""One call of a transformers model, whatever its version calls its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from redline.core.errors import ModelError

_CACHES = ("cache", "past_key_values", "cache_params")
"""What the argument for the cache is called: since 5.2x, before, and in recurrent models before."""


class Forward:
    """A model, called with one row of tokens.

    Args:
        model: From transformers, in its mode for evaluation.
        name: For errors.

    Attributes:
        positioned: Takes the positions of tokens.

    Raises:
        ModelError: It keeps its state in another way than transformers' caches.
    """

    def __init__(self, model: Any, name: str) -> None:
        takes = inspect.signature(model.forward).parameters
        self.model = model
        self.positioned = "position_ids" in takes
        self._counts = "logits_to_keep" in takes
        cache = next((argument for argument in _CACHES if argument in takes), None)
        if cache is None:
            raise ModelError(
                f"{name} is a {type(model).__name__}, which has no cache that redline knows.",
                "Take a model that works with transformers' Cache classes.",
            )
        self._cache = cache

    @property
    def device(self) -> torch.device:
        """Where the tokens go."""
        return torch.device(self.model.get_input_embeddings().weight.device)

    @property
    def dtype(self) -> torch.dtype:
        """What the arithmetic runs in."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    def __call__(
        self, tokens: Sequence[int], wanted: Sequence[int], cache: Any, positions: Sequence[int] | None = None
    ) -> Tensor:
        """The logits at the indices `wanted`, shape (len(wanted), width of the head)."""
        device = self.device
        rows = torch.tensor(wanted, dtype=torch.long, device=device)
        inputs: dict[str, Any] = {"input_ids": torch.tensor([list(tokens)], device=device), "use_cache": True}
        if positions is not None:
            inputs["position_ids"] = torch.tensor([list(positions)], device=device)
        if self._counts:
            inputs["logits_to_keep"] = rows
        logits: Tensor = self.model(**{self._cache: cache}, **inputs).logits[0]
        return logits if self._counts else logits[rows]

    def plain(self, tokens: Sequence[int]) -> Tensor:
        """The logits after every token as the model computes them by itself, without a cache."""
        row = torch.tensor([list(tokens)], device=self.device)
        logits: Tensor = self.model(row, use_cache=False).logits[0]
        return logits
