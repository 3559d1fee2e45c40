"""A drafter at arm's length: whatever it does, the texts go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import is_whole
from redline.core.legal import prune
from redline.core.ports import Composed, Drafter, Scene, Watcher
from redline.core.topology import depths
from redline.core.types import Draft, History, Verdict

_log = logging.getLogger("redline")

FAILURES = (Exception, SystemExit)
"""What a drafter may raise and is passed over; ctrl-C is not its own."""


class Guard:
    """Asks a drafter, and asks it no more in a text in which it fails.

    An exception, or a draft that breaks what a drafter promises, costs the guesses of that text and nothing
    else. Where a call for several texts fails, each is begun again and asked for alone, so that what one of
    them does to the drafter is not the others' affair.

    Args:
        drafter: Who guesses.

    Attributes:
        name: The drafter's.
        spent: Seconds of the last `propose`, by who was asked.
    """

    def __init__(self, drafter: Drafter) -> None:
        self.spent: dict[str, float] = {}
        self.name, self._drafter = drafter.name, drafter
        self._texts: dict[int, str] = {}

    def start(self, key: int, tokens: Sequence[int]) -> None:
        """A text begins."""
        self._texts[key] = ""
        self._try(key, lambda: self._drafter.start(key, tokens))

    def read(self, key: int, tokens: Sequence[int]) -> None:
        """The target has read so much of the prompt."""
        self._try(key, lambda: self._drafter.read(key, tokens))

    def is_asked(self, key: int) -> bool:
        """Whether the drafter has not failed in this text."""
        return not self._texts[key]

    def fault(self, key: int) -> str:
        """How the drafter failed in this text; "" where it did not."""
        inner = self._drafter.fault(key) if isinstance(self._drafter, Composed) else ""
        return self._texts[key] or inner

    def propose(self, scenes: Sequence[Scene]) -> dict[int, Draft]:
        """A draft a text, by its key; an empty one where the drafter fails."""
        began = perf_counter()
        try:
            drafts = self._ask(scenes)
        except FAILURES as error:
            drafts = self._ask_each(scenes, error)
        seconds = perf_counter() - began
        spent = self._drafter.spent if isinstance(self._drafter, Composed) else {self.name: seconds}
        self.spent = {name: each / len(scenes) for name, each in spent.items()}
        return drafts

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """What became of the last draft."""
        self._try(key, lambda: self._drafter.observe(key, emitted, verdict))

    def watch(self, key: int, tokens: Sequence[int], rows: Sequence[NDArray[np.float32]]) -> None:
        """What the target thought, for a `Watcher`."""
        if isinstance(self._drafter, Watcher):
            watcher = self._drafter
            self._try(key, lambda: watcher.watch(key, tokens, rows))

    def stop(self, key: int) -> None:
        """A text has ended."""
        if self._texts.pop(key, None) is not None:
            try:
                self._drafter.stop(key)
            except FAILURES as error:
                self._report(error)

    def _ask(self, scenes: Sequence[Scene]) -> dict[int, Draft]:
        drafts = self._drafter.propose(scenes)
        if len(drafts) != len(scenes):
            raise ValueError(f"it made {len(drafts)} drafts for {len(scenes)} texts")
        for draft, scene in zip(drafts, scenes, strict=True):
            check_draft(draft, scene, self._drafter.draws)
        return {
            scene.key: prune(draft, scene.constraint, scene.needs_q) if scene.constraint else draft
            for draft, scene in zip(drafts, scenes, strict=True)
        }

    def _ask_each(self, scenes: Sequence[Scene], error: BaseException) -> dict[int, Draft]:
        """What one text does to the drafter is not the others' affair."""
        drafts = {scene.key: Draft.empty() for scene in scenes}
        if len(scenes) == 1:
            self._skip(scenes[0].key, error)
            return drafts
        for scene in scenes:
            self._try(scene.key, partial(self._begin_again, scene.key, scene.history))
            if self.is_asked(scene.key):
                drafts |= self.propose([scene])
        return drafts

    def _begin_again(self, key: int, history: History) -> None:
        self._drafter.stop(key)
        self._drafter.start(key, history.tokens)

    def _try(self, key: int, call: Callable[[], None]) -> None:
        if self.is_asked(key):
            try:
                call()
            except FAILURES as error:
                self._skip(key, error)

    def _skip(self, key: int, error: BaseException) -> None:
        self._texts[key] = self._report(error)

    def _report(self, error: BaseException) -> str:
        try:
            said = str(error)
        except Exception:
            said = ""
        fault = f"{type(error).__name__}: {said}" if said else type(error).__name__
        _log.warning(
            "The drafter %s failed and is asked no more in this text: %s",
            self.name,
            fault,
            exc_info=error if _log.isEnabledFor(logging.DEBUG) else None,
        )
        return fault


def check_draft(draft: Draft, scene: Scene, draws: bool) -> None:
    """Find out what `redline.testing.DrafterContract` would have found out.

    Raises:
        ValueError: The draft breaks its budget, or nobody could take it; says how.
    """
    if not isinstance(draft, Draft):
        raise ValueError(f"it made {draft!r} where a Draft was due")
    if len(draft) > scene.budget.nodes or max(depths(draft.parents), default=0) > scene.budget.depth:
        raise ValueError(f"it guessed more than its budget, {scene.budget}")
    for token in draft.tokens:
        if not is_whole(token) or not 0 <= token < scene.vocab_size:
            raise ValueError(f"it guessed {token!r}, and token ids run from 0 to {scene.vocab_size - 1}")
    if not draws and any(len(q.ids) > 1 for q in draft.dists):
        raise ValueError("it drew guesses at random and says that it does not")
    if not draft.is_chain and not scene.trees:
        raise ValueError("it guessed a tree where rule or target take chains only")
