"""How much to guess. `PACES` has every pace by name; one object is made for each text."""

from typing import Protocol

from redline.core.errors import unknown
from redline.core.pace.confidence import Confidence
from redline.core.pace.fixed import Fixed
from redline.core.pace.streak import Streak
from redline.core.pace.whole import Whole, pieces
from redline.core.ports import Drafter, Pace


class Maker(Protocol):
    """Makes the pace of one text."""

    def __call__(self, depth: int, *, nodes: int | None = None) -> Pace:
        """Start from a depth, with so many guesses in all; as many as the depth when left out."""
        ...


PACES: dict[str, Maker] = {"fixed": Fixed, "streak": Streak, "confidence": Confidence}
"""Name to maker."""

DEPTHS = {"fixed": 5, "streak": 5, "confidence": 14}
"""Where each starts unless told otherwise; a drafter that stops by itself may be let run."""


def find_pace(name: str) -> Maker:
    """The maker of paces of that name.

    Raises:
        UnknownName: No pace is called so.
    """
    if name not in PACES:
        raise unknown("pace", name, PACES)
    return PACES[name]


def choose_pace(name: str | None, depth: int | None, drafter: Drafter | None) -> tuple[str, int]:
    """Name and depth, where either may be left out: a drafter that knows its own doubt is stopped by it.

    Raises:
        UnknownName: No pace is called so.
    """
    if name is None:
        name = "confidence" if drafter and drafter.confident else "fixed"
    find_pace(name)
    return name, DEPTHS[name] if depth is None else depth


__all__ = [
    "DEPTHS",
    "PACES",
    "Confidence",
    "Fixed",
    "Maker",
    "Streak",
    "Whole",
    "choose_pace",
    "find_pace",
    "pieces",
]
