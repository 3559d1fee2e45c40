"""`redline explain`: what the rules, drafters, paces and numbers are, read from the code itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from redline.core.errors import unknown
from redline.core.metrics import DEFINITIONS
from redline.core.pace import PACES
from redline.core.verify import RULES
from redline.drafters import DRAFTERS, registry


def topics() -> Mapping[str, Mapping[str, str]]:
    """Everything that can be explained: a text for each name of each topic."""
    return {
        "rules": {name: f"{rule.summary}\n{_about(type(rule))}" for name, rule in RULES.items()},
        "drafters": {
            **{name: f"from redline\n{_about(drafter)}" for name, drafter in DRAFTERS.items()},
            **{name: f"from {registry.origin(name)}\n{_about_plugin(name)}" for name in registry.plugins()},
        },
        "paces": {name: _about(pace) for name, pace in PACES.items()},
        "metrics": dict(DEFINITIONS),
    }


def explain(
    topic: Annotated[
        str | None, typer.Argument(help="rules, drafters, paces, metrics, or one name of theirs.")
    ] = None,
) -> None:
    """Say in a few lines what a rule, a drafter, a pace or a number is."""
    known = topics()
    every = {name: text for texts in known.values() for name, text in texts.items()}
    if topic is None:
        chosen = known
    elif topic in known:
        chosen = {topic: known[topic]}
    elif topic in every:
        chosen = {"": {topic: every[topic]}}
    else:
        raise unknown("topic", topic, [*known, *every])
    console = Console(highlight=False)
    for title, texts in chosen.items():
        if title:
            console.print(title, style="bold underline")
        for name, text in texts.items():
            console.print(f"[bold]{name}[/]")
            console.print(Padding(Text(text), (0, 0, 0, 2)))
        console.print()


def _about_plugin(name: str) -> str:
    """What a package says of its drafter, or why it cannot: the others are shown all the same."""
    try:
        return _about(registry.plugins()[name].load())
    except Exception as error:
        return f"It cannot be loaded: {type(error).__name__}: {error}"


def _about(thing: object) -> str:
    """The prose of a docstring, a line a paragraph, without its sections of arguments and errors."""
    prose = re.split(r"\n(?:Args|Attributes|Raises|Returns):\n", inspect.getdoc(thing) or "")[0]
    return "\n".join(" ".join(paragraph.split()) for paragraph in prose.strip().split("\n\n"))
