"""No pass half empty, where a wide check has to be made in several passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redline.core.ports import Pace
from redline.core.types import Budget, Step


def pieces(rows: int, widths: Sequence[int]) -> list[int]:
    """`rows` as a sum of few widths, the widest first; 1 must be among them."""
    found: list[int] = []
    while rows:
        found.append(max(width for width in widths if width <= rows))
        rows -= found[-1]
    return found


class Whole:
    """Another pace, cut so that the target's passes are full.

    A target that may only be asked for some widths checks depth + 1 rows in several passes. A guess that
    needs one more of them for a row or two costs more than it can bring, so the depth is the one with the
    most rows a pass; the larger one on a tie.

    Args:
        pace: Chooses the depth.
        widths: Rows that a pass may have, ascending, with 1.
    """

    def __init__(self, pace: Pace, widths: Sequence[int]) -> None:
        self._pace, self._widths = pace, tuple(widths)

    def budget(self) -> Budget:
        asked = self._pace.budget()
        rows = max(range(1, asked.depth + 2), key=lambda n: (n / len(pieces(n, self._widths)), n))
        return replace(asked, depth=rows - 1, nodes=min(asked.nodes, rows - 1))

    def update(self, step: Step) -> None:
        self._pace.update(step)
