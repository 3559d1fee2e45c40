"""What the engine refuses, and the way out it names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import ContextError, OptionError, is_whole
from redline.core.ports import Backend, Constraint, Drafter, Pace, Rule
from redline.core.sampling import Sampling


def check_engine(target: Backend, drafter: Drafter | None, prefill: int, keep: int) -> None:
    """Refuse to speculate on a target that cannot forget, and things that make no sense."""
    for thing, kind in ((target, Backend), (drafter, Drafter)):
        if thing is not None and not isinstance(thing, kind):
            raise OptionError(f"{thing!r} is no {kind.__name__}.", f"See redline.core.ports.{kind.__name__}.")
    if prefill < 1:
        raise OptionError(f"prefill is {prefill}.", "It must be 1 or more: prompt tokens read per pass.")
    if keep < 0:
        raise OptionError(f"keep is {keep}.", "It must be 0 or more; 0 keeps no cache.")
    if drafter is not None and target.traits.rollback == "none":
        raise OptionError(
            f"{target.name} cannot forget refused guesses, so it cannot speculate.",
            "Decode plainly, without a drafter.",
        )


def check_text(
    target: Backend,
    drafter: Drafter | None,
    rule: Rule,
    pace: Pace,
    prompt: Sequence[int],
    sampling: Sampling,
    seed: int | None,
    constraint: Constraint | None,
) -> None:
    """Refuse a prompt that is empty or fills the context, ids that do not exist, and options lost on others.

    All of it before the first pass, where it would be an error of every text in the batch.
    """
    context, vocab_size = target.traits.context, target.traits.vocab_size
    if not isinstance(sampling, Sampling):
        raise OptionError(f"sampling is {sampling!r}.", "Give a redline.Sampling.")
    if len(prompt) == 0:
        raise OptionError("The prompt is empty.", "Give the model at least one token to go on from.")
    if len(prompt) >= context:
        raise ContextError(
            f"The prompt has {len(prompt)} tokens, and {target.name} has room for {context} in all.",
            "Shorten the prompt.",
        )
    for what, ids in (("The prompt", prompt), ("bias", sampling.bias)):
        if odd := [token for token in ids if not 0 <= token < vocab_size]:
            raise OptionError(
                f"{what} names token {odd[0]}, but {target.name} has {vocab_size} tokens.",
                f"Token ids run from 0 to {vocab_size - 1}.",
            )
    if sampling.temperature > 0 and not rule.samples:
        raise OptionError(
            f"The {rule.name} rule cannot honour temperature {sampling.temperature}.",
            "Use the rule matching, or temperature 0.",
        )
    if pace.budget().confidence > 0 and drafter and not drafter.confident:
        raise OptionError(
            f"The drafter {drafter.name} does not know how probable its guesses are.",
            "The pace confidence is for draft models; use fixed or streak.",
        )
    if seed is not None and not (is_whole(seed) and seed >= 0):
        raise OptionError(f"seed is {seed!r}.", "It must be a whole number, 0 or more.")
    if constraint is not None and not isinstance(constraint, Constraint):
        raise OptionError(f"constraint is {constraint!r}.", "Make one with redline.grammar.")


def check_mask(mask: NDArray[np.bool_] | None, width: int) -> NDArray[np.bool_] | None:
    """A constraint's mask, if it is of the model's vocabulary."""
    if mask is not None and mask.shape != (width,):
        raise OptionError(
            f"The constraint's mask has the shape {mask.shape}, and the model has {width} tokens.",
            "Make the constraint for the model that writes the text.",
        )
    return mask


def check_length(target: Backend, text: str) -> None:
    """Refuse a text that cannot fit the context before minutes are spent on reading it."""
    context, size = target.traits.context, len(text)
    if size <= 32 * context:
        return
    tokenizer = target.tokenizer
    longest = max(len(tokenizer.piece(token)) for token in range(tokenizer.size))
    if size > longest * context:
        raise ContextError(
            f"The prompt has {size} characters, and {target.name} has room for {context} tokens in all.",
            "Shorten the prompt.",
        )
