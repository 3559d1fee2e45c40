"""The same number of guesses at every step."""

from __future__ import annotations

from redline.core.errors import OptionError, is_whole
from redline.core.types import Budget, Step


class Fixed:
    """Always `depth` guesses.

    Args:
        depth: Longest chain of guesses; 0 decodes plainly.
        nodes: Guesses in all; as many as `depth` when left out.
        confidence: See `Budget`.

    Raises:
        OptionError: The depth is negative, or there are fewer nodes than that.
    """

    def __init__(self, depth: int, nodes: int | None = None, confidence: float = 0.0) -> None:
        if not is_whole(depth) or depth < 0:
            raise OptionError(f"depth is {depth!r}.", "It must be 0 or more; 0 decodes plainly.")
        self._budget = Budget(depth, checked_nodes(nodes, depth), confidence)

    def budget(self) -> Budget:
        return self._budget

    def update(self, step: Step) -> None:
        """A fixed pace learns nothing."""


def checked_nodes(nodes: int | None, depth: int) -> int:
    """Guesses in all; as many as the depth when left out.

    Raises:
        OptionError: They are not enough for one chain.
    """
    if nodes is None:
        return depth
    if not is_whole(nodes) or nodes < depth:
        raise OptionError(f"nodes is {nodes!r}.", f"It must be at least the depth, {depth}.")
    return nodes
