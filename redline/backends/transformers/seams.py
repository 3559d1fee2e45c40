"""Where transformers lets others compute attention: our names in its registers.

Under these names a model computes just as it does under the library's own, except during a `run`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from redline.backends.transformers.packed import Part, Pass, Unpackable

PLAIN = ("sdpa", "eager")
"""The library's ways to compute attention that take any mask."""

_running: ContextVar[Pass | None] = ContextVar("running", default=None)


def run(forward: Callable[[Pass], Tensor], parts: Sequence[Part]) -> Tensor:
    """Call a model whose attention is one of `name(...)`; it reads into the parts' caches."""
    current = Pass(parts)
    token = _running.set(current)
    try:
        return forward(current)
    finally:
        _running.reset(token)


def name(plain: str) -> str:
    """What transformers knows the packed form of one of its own kinds of attention by."""
    return f"redline_{plain}"


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    plain: str,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    home: Any = vars(sys.modules[type(module).__module__])  # where models override what the library brings
    own: Callable[..., tuple[Tensor, Tensor | None]]
    own = home["eager_attention_forward"] if plain == "eager" else home["ALL_ATTENTION_FUNCTIONS"][plain]
    current = _running.get()
    if current is None:
        return own(module, query, key, value, attention_mask, **options)
    if options.get("position_bias") is not None:
        raise Unpackable("It adds a bias by position to its attention.")

    def compute(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
        if plain == "eager" and seen is not None:
            lowest = torch.finfo(query.dtype).min
            seen = torch.zeros_like(seen, dtype=query.dtype).masked_fill(~seen, lowest)
        return own(module, query, key, value, seen, **options)[0]

    return current.attend(compute, query, key, attention_mask), None


def _mask(*args: Any, plain: str, mask_function: Callable[..., Tensor], **options: Any) -> Any:
    current = _running.get()
    if current is None:
        return ALL_MASK_ATTENTION_FUNCTIONS[plain](*args, mask_function=mask_function, **options)
    return current.mask(mask_function, torch.device(options.get("device") or "cpu"))


for kind in PLAIN:
    AttentionInterface.register(name(kind), partial(_attend, plain=kind))
    AttentionMaskInterface.register(name(kind), partial(_mask, plain=kind))
