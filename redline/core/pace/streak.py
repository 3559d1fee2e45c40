"""Longer drafts while they are kept whole, shorter ones after a refusal."""

from __future__ import annotations

from redline.core.errors import OptionError, is_whole
from redline.core.pace.fixed import checked
from redline.core.types import Budget, Step


class Streak:
    """The schedule of assisted generation in Transformers: +2 after a draft kept whole, else −1.

    Args:
        depth: Where to start.
        longest: Longest chain of guesses there will be.
        nodes: Guesses in all; as many as the depth where that is more, or when left out.

    Raises:
        OptionError: The depth is below 1, since a streak of nothing never grows, or nodes are.
    """

    def __init__(self, depth: int, longest: int = 32, nodes: int | None = None) -> None:
        if not is_whole(depth) or depth < 1:
            raise OptionError(f"depth is {depth!r}.", "A streak starts from 1 or more guesses.")
        self._depth = depth
        self._nodes = 0 if nodes is None else checked(nodes)
        self._longest = max(depth, longest)

    def budget(self) -> Budget:
        return Budget(self._depth, max(self._depth, self._nodes))

    def update(self, step: Step) -> None:
        if not step.proposed:
            return
        grown = self._depth + 2 if step.refused is None else self._depth - 1
        self._depth = min(max(grown, 1), self._longest)
