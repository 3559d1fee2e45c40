"""From names to a running engine: what the command line and short scripts start with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

from redline import backends, models
from redline.backends import Opening, Role
from redline.backends.strict import Strict
from redline.core.errors import OptionError, RedlineError, UnknownName, unknown
from redline.core.pace import DEPTHS, Whole, choose_pace, find_pace
from redline.core.ports import Backend, Drafter, Pace, Rule
from redline.core.sampling import Sampling
from redline.core.verify import find_rule
from redline.drafters import MODEL_FREE, ModelDrafter, Ngram
from redline.engine.engine import Engine

NONE = "none"
"""The name of no drafter at all."""

_log = logging.getLogger("redline")


def load(
    model: str | Path | Backend,
    draft: str | Path | Backend | Drafter | None = None,
    *,
    rule: str = "matching",
    pace: str | None = None,
    depth: int | None = None,
    nodes: int | None = None,
    draft_sampling: Sampling | None = None,
    draft_backend: str | None = None,
    draft_precision: str | None = None,
    strict: bool = False,
    keep: int = 1,
    **how: Unpack[Opening],
) -> Engine:
    """An engine from names.

    Args:
        model: A known model, a .gguf file, a model folder, or an open backend.
        draft: "none", "ngram", a model in any of those forms, or a drafter.
        rule: How guesses are judged; see `redline explain rules`.
        pace: How many guesses to make; see `redline explain paces`. When left out, confidence for a draft
            model and fixed for the others.
        depth: Where the pace starts; 0 decodes plainly. See `redline.core.pace.DEPTHS`.
        nodes: Guesses a step in all; as many as the depth when left out. More let a draft model guess several
            candidates where it is unsure.
        draft_sampling: How a draft model draws; as the target does when left out.
        draft_backend: As `backend`, for a draft model.
        draft_precision: What llama.cpp converts a draft model's GGUF file to before it runs, once, into the
            cache; "file" for what it is. When left out, a file that is mostly in 5 bits runs in q4_0 if
            llama.cpp is installed, since every engine is slow with those: a draft's numbers change how
            often it is right, and no text.
        strict: Use only passes that give a row the bits of a one-row pass; see `backends.strict`.
        keep: See `Engine`. A strict target that is not row-invariant keeps none: what a cache was read in
            would show.
        **how: How to open the target; see `backends.Opening`. A draft takes what it can use of it, apart
            from backend and context.

    Raises:
        RedlineError: A name, file or option is not good; says which and what to do.
    """
    backends.check_names(how)
    judge = find_rule(rule)
    if (pace, depth, nodes) != (
        None,
        None,
        None,
    ):  # what cannot be honoured shows itself before a model is loaded
        find_pace(pace or "fixed")(DEPTHS[pace or "fixed"] if depth is None else depth, nodes=nodes)
    guess = _find_draft(draft, draft_backend, draft_sampling)
    opened: list[Backend | Drafter] = []
    try:
        target = model
        if isinstance(target, str | Path):
            role: Role = "alone" if guess is None else "target"
            target = backends.open(_find(target, how.get("backend")), role, **how)
            opened.append(target)
        elif how and not isinstance(guess, str | Path):
            given = ", ".join(name for name, value in how.items() if value not in (None, False))
            if given:
                raise OptionError(f"No model is opened here, but {given} was given.", "Open it with these.")
        if strict and not target.traits.row_invariant:
            target = Strict(target)
            _check_strict(target, guess)
        if isinstance(guess, str | Path):
            guess = _open_draft(guess, draft_backend, draft_precision, how)
            opened.append(guess)
        elif draft_backend or draft_precision:
            raise OptionError("There is no draft model to open.", "Leave draft backend and precision out.")
        drafter = ModelDrafter(guess, target, draft_sampling, keep) if isinstance(guess, Backend) else guess
        if isinstance(drafter, ModelDrafter) and guess in opened:
            opened[-1] = drafter  # which closes its model after its caches
        name, start = choose_pace(pace, depth, drafter)
        if nodes is not None and nodes > start:
            _check_trees(judge, target, drafter)
        make = partial(find_pace(name), start, nodes=nodes)
        if isinstance(target, Strict):
            make, keep = partial(_whole, make, target.widths), 0
        return Engine(target, drafter, rule=judge, pace=make, keep=keep, owned=opened)
    except BaseException:
        for each in opened:
            each.close()
        raise


def _whole(make: Callable[[], Pace], widths: Sequence[int]) -> Pace:
    return Whole(make(), widths)


def _check_trees(rule: Rule, target: Backend, drafter: Drafter | None) -> None:
    """Refuse more guesses than a chain has where nobody would make or take them."""
    draft = drafter.backend if isinstance(drafter, ModelDrafter) else None
    why = None if drafter else "Nobody guesses"
    why = why if rule.trees else f"The rule {rule.name} takes chains only"
    for backend in (target, draft):
        if backend and not backend.traits.trees:
            why = f"{backend.name} takes chains only here"
    if isinstance(drafter, Ngram):
        why = f"{drafter.name} guesses chains only"
    if why:
        raise OptionError(f"{why}, so nodes cannot be more than the depth.", "Leave nodes out.")


def _check_strict(target: Strict, guess: object) -> None:
    if guess is not None and target.inner.traits.rollback == "snapshot":
        raise OptionError(
            f"{target.name} comes back from a snapshot of its last pass, and strict passes are several.",
            "Leave strict out, or decode plainly.",
        )


def _find(model: str | Path, backend: str | None) -> str | Path:
    """Where a model lies; a repository's name is left to transformers, which knows the hub."""
    try:
        return models.find(model)
    except RedlineError:
        if backend == "transformers" and isinstance(model, str) and model.count("/") == 1:
            return model
        raise


def _open_draft(source: str | Path, backend: str | None, precision: str | None, how: Opening) -> Backend:
    """A draft model, in a precision that drafts fast."""
    from redline.backends.llamacpp import is_installed

    how = how.copy()
    how["backend"] = backend
    how.pop("context", None)  # a draft's own is as long as it can be
    if backend != "transformers":
        how.pop("trust_remote_code", None)  # said of the target
    file = source if isinstance(source, Path) and source.is_file() else None
    if file:
        how.pop("precision", None)  # said of the target
    converts = file is not None and backend != "transformers" and is_installed()
    if precision not in (None, "file") and not converts:
        raise OptionError(
            f"The draft cannot be had in {precision}: llama.cpp converts GGUF files, where it is installed.",
            "Leave the draft precision out.",
        )
    return backends.open(_in_precision(file, precision) if file and converts else source, "draft", **how)


def _in_precision(file: Path, precision: str | None) -> Path:
    """A draft's file in the precision asked for; where none was, in q4_0 if it drafts slowly as it is."""
    from redline.backends.gguf_file import read
    from redline.backends.llamacpp.quantise import reads_slowly
    from redline.models.convert import at_hand, converted

    if precision == "file" or (precision is None and not reads_slowly(read(file))):
        return file
    to = precision or "q4_0"
    try:
        if at_hand(file, to) is None:
            _log.warning("Converting %s to %s for drafting, once, into the cache.", file.name, to)
        return converted(file, to)
    except RedlineError as error:
        if precision:
            raise
        _log.warning("%s drafts as it is, since it cannot be converted: %s", file.name, error.message)
        return file


def _find_draft(
    draft: str | Path | Backend | Drafter | None, backend: str | None, sampling: Sampling | None
) -> str | Path | Backend | Drafter | None:
    """What a draft's name means: where a model lies, or a drafter that needs no model."""
    found: str | Path | Backend | Drafter | None
    if draft == NONE:
        found = None
    elif isinstance(draft, str) and draft in MODEL_FREE:
        found = MODEL_FREE[draft]()
    elif isinstance(draft, str | Path):
        try:
            found = _find(draft, backend)
        except UnknownName:
            raise unknown("draft", str(draft), [NONE, *MODEL_FREE, *models.names()]) from None
    else:
        found = draft
    if sampling is not None and not isinstance(found, str | Path | Backend):
        raise OptionError(
            f"The drafter {found.name if found else 'none'} draws nothing, so it has no temperature.",
            "Leave the draft temperature out, or draft with a model.",
        )
    return found
