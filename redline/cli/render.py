"""Redlined text: what was guessed and kept, what the target struck out, and what it wrote instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from redline.core.ports import Tokenizer
from redline.core.types import Step
from redline.engine.generate import pieces

STYLES = {"guess": "green", "correction": "bold red", "bonus": "bold blue", "plain": ""}
STRUCK = "dim red strike"


def redlined(step: Step, tokenizer: Tokenizer, console: Console) -> Text:
    """One step's text in colour, with the refused first guess struck out before its correction.

    Where there is no colour, [-struck-] and {+correction+} stand in brackets, as wdiff writes them.
    """
    text = Text()
    for piece in pieces(step):
        correction = piece.origin == "correction"
        if correction and step.refused is not None:
            struck = tokenizer.piece(step.refused).decode(errors="replace").replace("\n", "↵")
            struck = struck or tokenizer.label(step.refused)
            text.append(_bracketed(struck, "[--]", console), STRUCK)
        written = _bracketed(piece.text, "{++}", console) if correction else piece.text
        text.append(written, STYLES[piece.origin])
    return text


def legend(console: Console) -> None:
    """What the colours mean."""
    text = Text("kept guess", STYLES["guess"])
    text.append("  ").append(_bracketed("refused guess", "[--]", console), STRUCK)
    text.append("  ").append(_bracketed("correction", "{++}", console), STYLES["correction"])
    text.append("  ").append("bonus", STYLES["bonus"])
    text.append("  plain")
    console.print(text)


def time_split(share: Mapping[str, float]) -> str:
    """Where the time went, in one line."""
    return "time: " + " · ".join(f"{part} {value:.0%}" for part, value in share.items())


def by_source(sources: Mapping[str, Mapping[str, Any]]) -> str:
    """Who guessed how much and how long it took, in one line; "" where one drafter was alone.

    Args:
        sources: As in `Metrics.to_json`.
    """
    if len(sources) < 2:
        return ""
    parts = [
        f"{name} {each['accepted']} of {each['proposed']} kept, {1e3 * each['seconds']:.0f} ms"
        for name, each in sources.items()
    ]
    return "guesses: " + " · ".join(parts)


def _bracketed(text: str, brackets: str, console: Console) -> str:
    plain = console.no_color or not console.is_terminal
    return f"{brackets[:2]}{text}{brackets[2:]}" if plain else text
