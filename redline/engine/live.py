"""One text in the making, and the target's distributions along its draft."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from time import perf_counter

from redline.core.dist import Dist
from redline.core.ports import Cache, Logits, Noise, Pace
from redline.core.sampling import Sampling, distribution
from redline.core.stop import Ending
from redline.core.types import Budget, Draft, History, Step


@dataclass(slots=True)
class Live:
    """One text. Between steps its cache holds all of its tokens but the last.

    Attributes:
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
    passes: int = 0
    inbox: deque[Step] = field(default_factory=deque)
    fault: BaseException | None = None

    @property
    def unread(self) -> int:
        """Prompt tokens that the cache lacks, without the last one, which the first guess follows."""
        return len(self.tokens) - 1 - self.cache.length

    @property
    def history(self) -> History:
        return History(self.tokens, self.prompt)

    def budget(self) -> Budget:
        """What the pace asks for, cut so that the target's own token still fits behind the guesses."""
        asked = self.pace.budget()
        nodes = max(0, min(asked.nodes, self.ending.left - 1))
        return Budget(max(0, min(asked.depth, nodes)), nodes, asked.confidence)


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

    def __missing__(self, node: int) -> Dist:
        sampling, history = self._live.sampling, self._live.history
        if sampling.reads_history:
            history = history.then(self._draft.path(node))
        began = perf_counter()
        row = self._logits[node + 1]
        self.waited_s += perf_counter() - began
        self[node] = distribution(row, sampling, history)
        return self[node]
