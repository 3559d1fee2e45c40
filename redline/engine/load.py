"""From names to a running engine: what the command line and short scripts start with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from redline import backends, models
from redline.core.errors import OptionError
from redline.core.pace import find_pace
from redline.core.ports import Backend, Drafter
from redline.core.sampling import Sampling
from redline.core.verify import find_rule
from redline.drafters import ModelDrafter, Ngram
from redline.engine.engine import Engine

MODEL_FREE: dict[str, Callable[[], Drafter | None]] = {"none": lambda: None, "ngram": Ngram}
"""Drafters that need no model, by name."""


def load(
    model: str | Path | Backend,
    draft: str | Path | Drafter | None = None,
    *,
    rule: str = "matching",
    pace: str = "fixed",
    depth: int = 5,
    draft_sampling: Sampling | None = None,
    device: str | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    keep: int = 1,
) -> Engine:
    """An engine from names.

    Args:
        model: A known model, a .gguf file, a folder of safetensors, or an open backend.
        draft: "none", "ngram", a model in any of those forms, or a drafter.
        rule: How guesses are judged; see `redline explain rules`.
        pace: How many guesses to make; see `redline explain paces`.
        depth: Where the pace starts; 0 decodes plainly.
        draft_sampling: How a draft model draws; as the target does when left out.
        device, dtype, threads: For models opened here; chosen by the backend when left out.

        keep: See `Engine`.

    Raises:
        RedlineError: A name, file or option is not good; says which and what to do.
    """
    if depth < 0:
        raise OptionError(f"depth is {depth}.", "It must be 0 or more; 0 decodes plainly.")
    judge, make_pace = find_rule(rule), partial(find_pace(pace), depth)
    open_model = partial(backends.open, device=device, dtype=dtype, threads=threads)
    target = open_model(models.find(model)) if isinstance(model, str | Path) else model
    drafter = _drafter(draft, target, open_model, draft_sampling)
    return Engine(target, drafter, rule=judge, pace=make_pace, keep=keep)


def _drafter(
    draft: str | Path | Drafter | None,
    target: Backend,
    open_model: Callable[[Path], Backend],
    sampling: Sampling | None,
) -> Drafter | None:
    if draft is None or not isinstance(draft, str | Path):
        drafter = draft
    elif draft in MODEL_FREE:
        drafter = MODEL_FREE[str(draft)]()
    else:
        return ModelDrafter(open_model(models.find(draft)), target, sampling)
    if sampling is not None:
        raise OptionError(
            f"The drafter {drafter.name if drafter else 'none'} draws nothing, so it has no temperature.",
            "Leave the draft temperature out, or draft with a model.",
        )
    return drafter
