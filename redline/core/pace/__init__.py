"""How much to guess. `PACES` has every pace by name; one object is made for each text."""

from collections.abc import Callable

from redline.core.errors import unknown
from redline.core.pace.confidence import Confidence
from redline.core.pace.fixed import Fixed
from redline.core.pace.streak import Streak
from redline.core.pace.whole import Whole, pieces
from redline.core.ports import Drafter, Pace

PACES: dict[str, Callable[[int], Pace]] = {"fixed": Fixed, "streak": Streak, "confidence": Confidence}
"""Name to maker; every maker takes the depth to start from."""

DEPTHS = {"fixed": 5, "streak": 5, "confidence": 14}
"""Where each starts unless told otherwise; a drafter that stops by itself may be let run."""


def find_pace(name: str) -> Callable[[int], Pace]:
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


__all__ = ["DEPTHS", "PACES", "Confidence", "Fixed", "Streak", "Whole", "choose_pace", "find_pace", "pieces"]
