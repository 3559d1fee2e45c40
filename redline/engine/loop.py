"""The loop: guess, check all guesses in one pass, keep, forget. Plain decoding guesses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

from redline.core.errors import OptionError, RewindError
from redline.core.ports import Backend, Chance, Chunk, Deferring, Logits, Rule, Scene
from redline.core.types import Draft, Step
from redline.drafters.guard import Guard
from redline.engine.live import Live, Rows


def advance(
    target: Backend, drafter: Guard | None, rule: Rule, lives: Sequence[Live], prefill: int
) -> list[Step]:
    """One target pass over texts of which each reads a piece of its prompt or writes at least one token.

    Args:
        target: The model whose text comes out.
        drafter: Who guesses, if anybody.
        rule: How guesses are judged.
        lives: The texts; at least one.
        prefill: Prompt tokens to read at most, per text.

    Returns:
        One record a text.
    """
    started = perf_counter()
    drafts = propose(target, drafter, rule, [live for live in lives if not live.unread])
    drafted = perf_counter()
    chunks = [_chunk(live, drafts.get(live.key), prefill) for live in lives]
    rows = target.extend_deferred(chunks) if isinstance(target, Deferring) else target.extend(chunks)
    passed = perf_counter()
    steps = [
        _try_to_settle(live, drafts[live.key], logits, drafter, rule)
        if live.key in drafts
        else _read_along(live, chunk, drafter)
        for live, chunk, logits in zip(lives, chunks, rows, strict=True)
    ]
    spare = perf_counter() - passed - sum(step.seconds for step in steps)
    spare += 0.0 if drafts else drafted - started  # nobody was there to guess for
    read = sum(len(chunk.tokens) for chunk in chunks)
    for i, (live, chunk) in enumerate(zip(lives, chunks, strict=True)):
        part = len(chunk.tokens) / read
        guessing = (drafted - started) / len(drafts) if live.key in drafts else 0.0
        spent = drafter.spent if drafter and live.key in drafts else {}
        steps[i] = replace(
            steps[i],
            spent=spent,
            draft_s=steps[i].draft_s + guessing,
            target_s=steps[i].target_s + (passed - drafted) * part,
            other_s=spare * part,
        )
        if live.key in drafts:
            live.pace.update(steps[i])
    return steps


def propose(target: Backend, drafter: Guard | None, rule: Rule, lives: Sequence[Live]) -> dict[int, Draft]:
    """A draft for every text by its key; an empty one where no guess could be used."""
    drafts = {live.key: Draft.empty() for live in lives}
    if drafter is None:
        return drafts
    trees = rule.trees and target.traits.trees
    scenes = [
        Scene(
            live.key,
            live.history,
            budget,
            live.sampling,
            _chance(live, rule, "draft"),
            trees,
            rule.needs_q,
            live.constraint,
            target.traits.vocab_size,
            live.cache,
        )
        for live in lives
        if drafter.is_asked(live.key) and (budget := live.budget()).depth > 0
    ]
    if scenes:
        drafts |= drafter.propose(scenes)
    for live in lives:
        if live.unread:
            raise RewindError(
                f"The drafter {drafter.name} has changed the target's cache.",
                "Draft without it; nothing that follows could be trusted.",
            )
    return drafts


def settle(live: Live, draft: Draft, logits: Logits, drafter: Guard | None, rule: Rule) -> Step:
    """Judge a draft, add what is kept to the text, and make the cache forget the rest.

    Raises:
        RewindError: The cache did not end where the text does.
    """
    began, position = perf_counter(), len(live.tokens)
    rows = Rows(live, draft, logits)
    verdict = rule(draft, rows, _chance(live, rule, "verify"))
    kept = [draft.tokens[node] for node in verdict.accepted]
    emitted, texts = live.ending.take([*kept, verdict.token])
    live.add(emitted)
    live.passes += 1
    judged = perf_counter()
    # The pending token's slot is position - 1, so node i of the draft is at slot position + i.
    live.cache.rewind(position, [position + node for node in verdict.accepted[: len(emitted) - 1]])
    if live.unread:
        raise RewindError(f"The cache has {live.cache.length} entries for {len(live.tokens)} tokens.")
    rewound = perf_counter()
    if drafter:
        drafter.observe(live.key, emitted, verdict)
        drafter.watch(live.key, *rows.looked_at)
    return Step(
        live.key,
        position,
        emitted,
        texts,
        draft.tokens,
        draft.parents,
        path=verdict.accepted[: len(emitted)],
        sources=draft.sources,
        draft_s=perf_counter() - rewound,
        target_s=rows.waited_s,
        verify_s=judged - began - rows.waited_s,
        rewind_s=rewound - judged,
        fault=drafter.fault(live.key) if drafter else "",
        finish=live.ending.finish,
    )


def _try_to_settle(live: Live, draft: Draft, logits: Logits, drafter: Guard | None, rule: Rule) -> Step:
    """Settle a text; what is wrong with it alone, such as a bias that leaves no token, ends it alone."""
    try:
        return settle(live, draft, logits, drafter, rule)
    except OptionError as error:
        live.fault = error
        return Step(live.key, len(live.tokens), finish="failed")


def _read_along(live: Live, chunk: Chunk, drafter: Guard | None) -> Step:
    """The record of a piece of prompt; the drafter reads it too, so that guessing need not begin with it."""
    began = perf_counter()
    if drafter and live.ending.left > 1:  # else nobody will ask it to guess
        drafter.read(live.key, live.tokens[: live.cache.length])
    position = live.cache.length - len(chunk.tokens)
    return Step(live.key, position, prefilled=len(chunk.tokens), draft_s=perf_counter() - began)


def _chunk(live: Live, draft: Draft | None, prefill: int) -> Chunk:
    """The next piece of an unread prompt, or the pending token with its guesses behind it."""
    if draft is None:
        at = live.cache.length
        return Chunk(live.cache, live.tokens[at : at + min(prefill, live.unread)], "none")
    parents = None if draft.is_chain else [-1, *(parent + 1 for parent in draft.parents)]
    return Chunk(live.cache, [live.tokens[-1], *draft.tokens], "all", parents)


def _chance(live: Live, rule: Rule, stream: str) -> Chance:
    """Shared noise is the same for drafting and verifying; fresh noise never is."""
    return live.noise.at(len(live.tokens)) if rule.shared else live.noise.stream(stream, live.passes)
