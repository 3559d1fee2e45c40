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
        OptionError: The depth is negative, or nodes are.
    """

    def __init__(self, depth: int, nodes: int | None = None, confidence: float = 0.0) -> None:
        if not is_whole(depth) or depth < 0:
            raise OptionError(f"depth is {depth!r}.", "It must be 0 or more; 0 decodes plainly.")
        self._budget = Budget(depth, depth if nodes is None else checked(nodes), confidence)

    def budget(self) -> Budget:
        return self._budget

    def update(self, step: Step) -> None:
        """A fixed pace learns nothing."""


def checked(nodes: int) -> int:
    """The nodes that were asked for.

    Raises:
        OptionError: They are negative.
    """
    if not is_whole(nodes) or nodes < 0:
        raise OptionError(f"nodes is {nodes!r}.", "It must be 0 or more; more than the depth makes trees.")
    return nodes
