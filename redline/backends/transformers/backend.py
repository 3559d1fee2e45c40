"""`TransformersBackend`: a model of the transformers library behind `ports.Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redline.backends.chunks import Slots, check_chunks
from redline.backends.transformers.forward import Forward
from redline.backends.transformers.trial import Trial
from redline.backends.transformers.ways import Way, ways
from redline.core.errors import ModelError
from redline.core.ports import Chunk, Tokenizer, Traits

_MEASURING = 1.5
"""Seconds that measuring widths may take; a model of 135M parameters on one core needs about one."""


class TransformersBackend:
    """A causal language model of any architecture that transformers has. Implements `ports.Backend`.

    Not for several threads at a time; torch itself uses `traits.threads` of them.

    Args:
        name: For records.
        model: From transformers, ready for evaluation.
        tokenizer: Text to ids and back.
        context: Positions the model has.
        asked: Fewer positions to offer, if given.

    Raises:
        ModelError: It is no causal language model, or none of the ways to read gives what it computes itself.
    """

    def __init__(
        self, name: str, model: Any, tokenizer: Tokenizer, context: int, asked: int | None = None
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self._forward: Forward | None = Forward(model, name)
        on_cpu = self._forward.device.type == "cpu"
        with torch.inference_mode():
            width = self._forward.plain([0]).shape[-1]  # heads of quantised models do not tell
        self.traits = Traits(
            vocab_size=width,
            context=context,
            row_invariant=False,
            dtype=str(self._forward.dtype).removeprefix("torch."),
            device=str(self._forward.device),
            threads=torch.get_num_threads() if on_cpu else 0,
        )
        self._way: Way | None = None
        self._settle(self._forward)
        self.traits = replace(self.traits, context=asked or context)

    @property
    def reading(self) -> str:
        """How texts are read: "all texts in one pass", or less where the model does not allow for that."""
        return self._alive().summary

    def open(self) -> Slots:
        return self._alive().open(self)

    @torch.inference_mode()
    def extend(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        way, growths = self._alive(), check_chunks(self, chunks, Slots)
        if not chunks:
            return []
        found = way.read(chunks, growths)
        rows = [np.array(logits.float().cpu().numpy()) for logits in found]
        for chunk, growth in zip(chunks, growths, strict=True):
            assert isinstance(chunk.cache, Slots)
            chunk.cache.commit(growth)
        return rows

    def close(self) -> None:
        self._forward = self._way = None  # a way holds the model too

    def _alive(self) -> Way:
        if self._way is None:
            raise ValueError(f"{self.name} is closed.")
        return self._way

    @torch.inference_mode()
    def _settle(self, forward: Forward) -> None:
        """Take the first way in which the model does what it does by itself."""
        vocab = min(self.traits.vocab_size, self.tokenizer.size)
        trial, faults = Trial(forward, vocab, self.traits.context, self.name), []
        for way in ways(forward):
            self._way, self.traits = way, replace(self.traits, rollback=way.rollback, trees=way.trees)
            try:
                way.begin()
                fault = trial.fault(self)
            except torch.cuda.OutOfMemoryError:
                raise
            except Exception as error:  # whatever a model raises that was not made for this way
                fault = f"{type(error).__name__}: {error}"
            if not fault:
                if way.rollback == "truncate":
                    self.traits = replace(self.traits, exact_widths=trial.widths(self, _MEASURING))
                return
            faults.append(f"{way.summary}: {fault}")
        raise ModelError(
            f"{self.name} does not give the same logits with a cache as without ({faults[-1]}).",
            "transformers' support for this architecture may be incomplete; try another version of it.",
        )
