"""How much to guess. `PACES` has every pace by name; one object is made for each text."""

from collections.abc import Callable

from redline.core.errors import unknown
from redline.core.pace.confidence import Confidence
from redline.core.pace.fixed import Fixed
from redline.core.pace.streak import Streak
from redline.core.ports import Pace

PACES: dict[str, Callable[[int], Pace]] = {"fixed": Fixed, "streak": Streak, "confidence": Confidence}
"""Name to maker; every maker takes the depth to start from."""


def find_pace(name: str) -> Callable[[int], Pace]:
    """The maker of paces of that name.

    Raises:
        UnknownName: No pace is called so.
    """
    if name not in PACES:
        raise unknown("pace", name, PACES)
    return PACES[name]


__all__ = ["PACES", "Confidence", "Fixed", "Streak", "find_pace"]
