"""From names to a running engine: what the command line and short scripts start with."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from redline import backends, models
from redline.core.errors import OptionError, UnknownName, unknown
from redline.core.pace import find_pace
from redline.core.ports import Backend, Drafter
from redline.core.sampling import Sampling
from redline.core.verify import find_rule
from redline.drafters import MODEL_FREE, ModelDrafter
from redline.engine.engine import Engine

NONE = "none"
"""The name of no drafter at all."""


def load(
    model: str | Path | Backend,
    draft: str | Path | Backend | Drafter | None = None,
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
    judge, make_pace = find_rule(rule), partial(find_pace(pace), depth)
    make_pace()  # a depth that cannot be honoured shows itself before a model is loaded
    open_model = partial(backends.open, device=device, dtype=dtype, threads=threads)
    guess = _find_draft(draft, draft_sampling)
    target = open_model(models.find(model)) if isinstance(model, str | Path) else model
    opened = [] if target is model else [target]
    try:
        if isinstance(guess, Path):
            guess = open_model(guess)
            opened.append(guess)
        drafter = ModelDrafter(guess, target, draft_sampling) if isinstance(guess, Backend) else guess
        return Engine(target, drafter, rule=judge, pace=make_pace, keep=keep)
    except BaseException:
        for backend in opened:
            backend.close()
        raise


def _find_draft(
    draft: str | Path | Backend | Drafter | None, sampling: Sampling | None
) -> Path | Backend | Drafter | None:
    """What a draft's name means: a model's path, or a drafter that needs no model."""
    found: Path | Backend | Drafter | None
    if draft == NONE:
        found = None
    elif isinstance(draft, str) and draft in MODEL_FREE:
        found = MODEL_FREE[draft]()
    elif isinstance(draft, str | Path):
        try:
            found = models.find(draft)
        except UnknownName:
            raise unknown("draft", str(draft), [NONE, *MODEL_FREE, *models.names()]) from None
    else:
        found = draft
    if sampling is not None and not isinstance(found, Path | Backend):
        raise OptionError(
            f"The drafter {found.name if found else 'none'} draws nothing, so it has no temperature.",
            "Leave the draft temperature out, or draft with a model.",
        )
    return found
