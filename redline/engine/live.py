"""One text in the making, and the target's distributions along its draft."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from redline.core.dist import Dist
from redline.core.ports import Cache, Constraint, Logits, Noise, Pace
from redline.core.sampling import Sampling, distribution
from redline.core.stop import Ending
from redline.core.topology import ROOT
from redline.core.types import Budget, Draft, History, Step, Text
from redline.engine.check import check_mask


@dataclass(slots=True)
class Live:
    """One text. Between steps its cache holds all of its tokens but the last.

    Attributes:
        constraint: What the next token may be, if not anything.
        inbox: Its records, until a reader takes them.
        fault: What ended it, where that was an error.
    """

    key: int
    tokens: list[int]
    prompt: int
    cache: Cache
    ending: Ending
    pace: Pace
    sampling: Sampling
    seed: int
    noise: Noise
    constraint: Constraint | None = None
    passes: int = 0
    inbox: deque[Step] = field(default_factory=deque)
    fault: BaseException | None = None

    @property
    def unread(self) -> int:
        """Prompt tokens that the cache lacks, without the last one, which the first guess follows."""
        return len(self.tokens) - 1 - self.cache.length

    @property
    def history(self) -> History:
        return History(Text(self.tokens), self.prompt)

    def add(self, emitted: Sequence[int]) -> None:
        """More of the text is certain."""
        self.tokens += emitted
        if self.constraint and not self.ending.finish:  # what ends a text is no part of it
            for token in emitted:
                self.constraint = self.constraint.after(token)

    def budget(self) -> Budget:
        """What the pace asks for, cut so that the target's own token still fits behind the deepest guess.

        What is asked for beside a chain stays, as long as the cache has room for it.
        """
        asked = self.pace.budget()
        depth = max(0, min(asked.depth, asked.nodes, self.ending.left - 1))
        beside = max(0, asked.nodes - asked.depth)
        return Budget(depth, min(depth + beside, self.ending.room), asked.confidence)


class Rows(dict[int, Dist]):
    """The target's law after each node of a draft, made when a rule first asks for it.

    Args:
        live: The text that the draft continues.
        draft: The guesses.
        logits: The target's rows after the text and after each guess, 1 + len(draft).

    Attributes:
        waited_s: For rows that the target computed only when they were asked for.
    """

    def __init__(self, live: Live, draft: Draft, logits: Logits) -> None:
        super().__init__()
        self.waited_s = 0.0
        self._live, self._draft, self._logits = live, draft, logits
        self._last = live.tokens[-1]
        self._seen: dict[int, NDArray[np.float32]] = {}
        self._states = {ROOT: live.constraint}

    @property
    def looked_at(self) -> tuple[list[int], list[NDArray[np.float32]]]:
        """Tokens whose rows were asked for, and those rows."""
        nodes, guesses = list(self._seen), self._draft.tokens
        return [guesses[node] if node != ROOT else self._last for node in nodes], [*self._seen.values()]

    def __missing__(self, node: int) -> Dist:
        sampling, history = self._live.sampling, self._live.history
        if sampling.reads_history:
            history = history.then(self._draft.path(node))
        began = perf_counter()
        row = self._seen[node] = self._logits[node + 1]
        self.waited_s += perf_counter() - began
        state = self._state(node)
        mask = check_mask(state.allowed(), len(row)) if state else None
        self[node] = distribution(row, sampling, history, mask)
        return self[node]

    def _state(self, node: int) -> Constraint | None:
        """What may follow a node; rules ask for a parent's law first, so its state is there."""
        if node not in self._states:
            before = self._state(self._draft.parents[node])
            self._states[node] = before.after(self._draft.tokens[node]) if before else None
        return self._states[node]
