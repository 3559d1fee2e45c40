"""Drafters by name: redline's own, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from redline.core.errors import OptionError
from redline.core.ports import Backend, Drafter
from redline.drafters.early_exit import EarlyExit
from redline.drafters.forced import Forced
from redline.drafters.ngram import Ngram
from redline.drafters.recycle import Recycle
from redline.drafters.suffix import Suffix

Maker: TypeAlias = Callable[[Backend], Drafter]
"""Makes a drafter for a target."""

GROUP = "redline.drafters"
"""The group of entry points in which a package names its makers."""

BUILT_IN: Mapping[str, Maker] = {
    "ngram": lambda _: Ngram(),
    "suffix": lambda _: Suffix(),
    "recycle": lambda _: Recycle(),
    "early_exit": EarlyExit,
    "forced": lambda _: Forced(),
}
"""Drafters that a name alone can make. Any other name is a draft model's."""


@cache
def plugins() -> Mapping[str, EntryPoint]:
    """What other packages bring, by name; a name of redline's own stays redline's."""
    taken = {*BUILT_IN, "none", "auto"}
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in taken}


def names() -> list[str]:
    """All names of drafters, redline's own first."""
    return [*BUILT_IN, *sorted(plugins())]


def make(name: str, target: Backend) -> Drafter:
    """The drafter of that name.

    Raises:
        OptionError: The package that brings it fails; says which one.
    """
    if name in BUILT_IN:
        return BUILT_IN[name](target)
    point = plugins()[name]
    try:
        drafter = point.load()(target)
    except Exception as error:
        raise OptionError(
            f"The drafter {name} of {origin(name)} cannot be made: {type(error).__name__}: {error}.",
            "Report it to that package, or draft with another.",
        ) from error
    if not isinstance(drafter, Drafter) or not isinstance(drafter.name, str):
        raise OptionError(
            f"The drafter {name} of {origin(name)} is no Drafter: {drafter!r}.",
            "See redline.core.ports.Drafter; it has a name, too.",
        )
    return drafter


def origin(name: str) -> str:
    """Where a drafter comes from: redline, or a package and its version."""
    if name in BUILT_IN:
        return "redline"
    dist = plugins()[name].dist
    return f"{dist.name} {dist.version}" if dist else plugins()[name].value
