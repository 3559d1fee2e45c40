"""From names to a running engine: what the command line and short scripts start with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

from redline import backends
from redline.backends import Opening, Role
from redline.backends.strict import Strict
from redline.core.errors import OptionError
from redline.core.pace import DEPTHS, Whole, choose_pace, find_pace
from redline.core.ports import Backend, Drafter, Modelled, Pace, Rule
from redline.core.sampling import Sampling
from redline.core.verify import find_rule
from redline.drafters import EarlyExit, Ngram, Suffix
from redline.engine.draft import Drafting, find_model
from redline.engine.engine import Engine


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
    memory: bool | str | Path | None = None,
    **how: Unpack[Opening],
) -> Engine:
    """An engine from names.

    Args:
        model: A known model, a .gguf file, a model folder, or an open backend.
        draft: "none", the name of a drafter (`redline explain drafters`), a model in any of those forms, or a
            drafter; several, joined by "+", are composed: the best of them, unless "first:" or "merge:"
            stands before. "auto" is all that costs nothing: what a constraint forces, and suffix.
        rule: How guesses are judged; see `redline explain rules`.
        pace: How many guesses to make; see `redline explain paces`. When left out, confidence for drafters
            that say how sure they are, and fixed for the others.
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
        memory: Whether suffix looks into past answers: those of this engine, or those in a folder too. When
            left out it does where they change no text, under the rules matching and greedy: elsewhere what
            is guessed decides which of the equally good texts is written, and a seed would not repeat it.
        **how: How to open the target; see `backends.Opening`. A draft takes what it can use of it, apart
            from backend and context.

    Raises:
        RedlineError: A name, file or option is not good; says which and what to do.
    """
    backends.check_names(how)
    judge = find_rule(rule)
    if (pace, depth, nodes) != (None, None, None):  # what cannot be is refused before a model is loaded
        find_pace(pace or "fixed")(DEPTHS[pace or "fixed"] if depth is None else depth, nodes=nodes)
    memory = judge.shared if memory is None else memory
    drafting = Drafting.of(draft, draft_backend, draft_precision, draft_sampling, memory)
    opened: list[Backend | Drafter] = []
    try:
        target = model
        if isinstance(target, str | Path):
            role: Role = "target" if drafting else "alone"
            target = backends.open(find_model(target, how.get("backend")), role, **how)
            opened.append(target)
        elif how and not (drafting and drafting.opens):
            given = ", ".join(name for name, value in how.items() if value not in (None, False))
            if given:
                raise OptionError(f"No model is opened here, but {given} was given.", "Open it with these.")
        if strict and not target.traits.row_invariant:
            target = Strict(target)
            _check_strict(target, drafting is not None)
        drafter = drafting.make(target, how, keep, opened) if drafting else None
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
    draft = drafter.backend if isinstance(drafter, Modelled) else None
    why = None if drafter else "Nobody guesses"
    why = why if rule.trees else f"The rule {rule.name} takes chains only"
    for backend in (target, draft):
        if backend and not backend.traits.trees:
            why = f"{backend.name} takes chains only here"
    if isinstance(drafter, Ngram | Suffix | EarlyExit):
        why = f"{drafter.name} guesses chains only"
    if why:
        raise OptionError(f"{why}, so nodes cannot be more than the depth.", "Leave nodes out.")


def _check_strict(target: Strict, drafts: bool) -> None:
    if drafts and target.inner.traits.rollback == "snapshot":
        raise OptionError(
            f"{target.name} comes back from a snapshot of its last pass, and strict passes are several.",
            "Leave strict out, or decode plainly.",
        )
