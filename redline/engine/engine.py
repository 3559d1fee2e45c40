"""The engine: texts come in, `step()` moves them all, and records come out."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count

from redline.backends.pool import Pool
from redline.core.chance import Keyed
from redline.core.pace import Fixed
from redline.core.ports import Backend, Constraint, Drafter, Modelled, Noise, Pace, Rule
from redline.core.sampling import Sampling
from redline.core.stop import Ending, Limits
from redline.core.types import Step
from redline.core.verify import Matching
from redline.drafters import Compose
from redline.drafters.guard import Guard
from redline.engine.check import check_engine, check_text
from redline.engine.live import Live
from redline.engine.loop import advance

_KEYS = count()
"""Keys are unique in the process, so that engines can share a drafter."""


class Engine:
    """Speculative decoding of any number of texts at once, for one thread at a time.

    Args:
        target: The model whose text comes out.
        drafter: Who guesses; None decodes plainly.
        rule: How guesses are judged; matching when left out.
        pace: Makes the pace of one text.
        prefill: Prompt tokens read per pass and text.
        keep: Caches kept after their text has ended, for later texts that begin alike.
        noise: Makes the noise of one text from its seed.
        owned: Models and drafters that close with the engine.

    Raises:
        OptionError: The target cannot forget refused guesses, or a number is out of range.
    """

    def __init__(
        self,
        target: Backend,
        drafter: Drafter | None = None,
        *,
        rule: Rule | None = None,
        pace: Callable[[], Pace] = lambda: Fixed(5),
        prefill: int = 256,
        keep: int = 1,
        noise: Callable[[int], Noise] = Keyed,
        owned: Sequence[Backend | Drafter] = (),
    ) -> None:
        check_engine(target, drafter, prefill, keep)
        self.target, self.drafter, self.rule = target, drafter, rule or Matching()
        self.live: dict[int, Live] = {}
        self._guard = Guard(drafter) if drafter else None
        self._pace, self._prefill, self._noise = pace, prefill, noise
        self._pool, self._abandoned, self._owned = Pool(target, keep), deque[int](), owned

    @property
    def draft_model(self) -> Backend | None:
        """The model that guesses, if one does."""
        members = self.drafter.drafters if isinstance(self.drafter, Compose) else [self.drafter]
        for each in members:
            if isinstance(each, Modelled):
                return each.backend
        return None

    def repeats_plain(self, sampling: Sampling) -> bool:
        """Whether the text must be that of plain decoding, and not only have its law."""
        return self.rule.exact and (self.rule.shared or sampling.temperature == 0)

    def submit(
        self,
        prompt: Sequence[int],
        sampling: Sampling | None = None,
        limits: Limits | None = None,
        seed: int | None = None,
        constraint: Constraint | None = None,
    ) -> int:
        """Begin a text; it moves with the next `step()`.

        Args:
            prompt: Its first tokens.
            sampling, limits, seed: How to go on, when to end, and what makes it repeatable.
            constraint: What may come at all; see `redline.grammar`.

        Returns:
            Its key. Where no seed was given, `live[key].seed` tells the fresh one.

        Raises:
            OptionError: The prompt is empty, an id is not in the vocabulary, the seed is no whole number from
                0 up, the constraint is none, or the rule does not fit the sampling.
            ContextError: The prompt leaves no room for a token.
        """
        self._sweep()
        sampling, pace = sampling or Sampling(), self._pace()
        check_text(self.target, self.drafter, self.rule, pace, prompt, sampling, seed, constraint)
        seed = secrets.randbits(63) if seed is None else int(seed)
        room = self.target.traits.context - len(prompt)
        ending, noise = Ending(limits or Limits(), room, self.target.tokenizer), self._noise(seed)
        key = next(_KEYS)
        cache = self._pool.take(prompt)
        live = Live(key, list(prompt), len(prompt), cache, ending, pace, sampling, seed, noise, constraint)
        self.live[key] = live
        if self._guard:
            try:
                self._guard.start(key, live.history.tokens)
            except BaseException:
                self.cancel(key)
                raise
        return key

    def step(self) -> list[Step]:
        """One target pass over every live text; texts that end leave.

        Returns:
            One record a text, in the order of submission. Each also goes to its text's inbox, where a
            `Stream` reads it, so that several readers can take turns in calling this.

        Raises:
            Exception: What the target raises. The texts of that pass are gone, because a pass cut
                short, by ctrl-C too, leaves caches that nobody can trust. What the drafter raises costs its
                guesses in that text; the record says so.
        """
        self._sweep()
        lives = list(self.live.values())
        # A text that was to have no token at all has ended before its first pass.
        steps = [Step(live.key, len(live.tokens), finish="length") for live in lives if live.ending.finish]
        lives = [live for live in lives if not live.ending.finish]
        try:
            steps += advance(self.target, self._guard, self.rule, lives, self._prefill) if lives else []
        except BaseException as error:
            for live in lives:
                live.fault = error
                self._end(live, trusted=False)
            raise
        for step in steps:
            live = self.live[step.key]
            live.inbox.append(step)
            if step.finish:
                self._end(live, trusted=step.finish != "failed")
        return sorted(steps, key=lambda step: step.key)

    def cancel(self, key: int) -> Step | None:
        """End a text at once and free its place.

        Returns:
            The record that closes it; None where there was no such text any more.
        """
        live = self.live.get(key)
        if live is None:
            return None
        self._end(live, trusted=True)
        live.inbox.append(Step(key, len(live.tokens), finish="cancelled"))
        return live.inbox[-1]

    def abandon(self, key: int) -> None:
        """Cancel a text before the next step; safe at any moment, from any thread, even while a step runs."""
        self._abandoned.append(key)

    def close(self) -> None:
        """End every text, free the kept caches, and close the models that `load` opened for it.

        Models that were handed over open stay so.
        """
        for key in list(self.live):
            self.cancel(key)
        with ExitStack() as all_of_them:  # one that fails keeps no other open
            all_of_them.callback(self._pool.close)
            for each in self._owned:
                all_of_them.callback(each.close)
            self._owned = ()

    def _end(self, live: Live, trusted: bool) -> None:
        del self.live[live.key]
        if trusted:
            self._pool.give(live.cache, live.tokens[: live.cache.length])
        else:
            live.cache.close()
        if self._guard:
            self._guard.stop(live.key)

    def _sweep(self) -> None:
        while self._abandoned:
            self.cancel(self._abandoned.popleft())
