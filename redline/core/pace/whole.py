"""No pass half empty, where a wide check has to be made in several passes."""

from __future__ import annotations

from dataclasses import replace

from redline.core.ports import Pace
from redline.core.types import Budget, Step


class Whole:
    """Another pace, cut so that the target's passes are full.

    A target that reads at most `width` rows a pass checks depth + 1 rows in several of them. One guess more
    than fills them would cost a whole pass for itself.

    Args:
        pace: Chooses the depth.
        width: Rows of the widest pass.
    """

    def __init__(self, pace: Pace, width: int) -> None:
        self._pace, self._width = pace, width

    def budget(self) -> Budget:
        asked = self._pace.budget()
        rows = asked.depth + 1
        full = rows // self._width * self._width if rows > self._width else rows
        return replace(asked, depth=full - 1, nodes=min(asked.nodes, full - 1))

    def update(self, step: Step) -> None:
        self._pace.update(step)
