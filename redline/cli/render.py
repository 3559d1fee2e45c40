"""Redlined text: what was guessed and kept, what the target struck out, and what it wrote instead."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from redline.core.ports import Tokenizer
from redline.core.topology import ROOT
from redline.core.types import Step
from redline.engine.generate import pieces

STYLES = {"guess": "green", "correction": "bold red", "bonus": "bold blue", "plain": ""}
STRUCK = "dim red strike"


def redlined(step: Step, tokenizer: Tokenizer) -> Text:
    """One step's text in colour, with the refused first guess struck out before its correction."""
    text = Text()
    for piece in pieces(step):
        if piece.origin == "correction" and (token := refused(step)) is not None:
            text.append(tokenizer.piece(token).decode(errors="replace").strip("\n"), STRUCK)
        text.append(piece.text, STYLES[piece.origin])
    return text


def refused(step: Step) -> int | None:
    """The first guess that was not kept, if the step ended with a refusal."""
    node = ROOT
    for token in step.emitted:
        children = [i for i, parent in enumerate(step.parents) if parent == node]
        node_or_none = next((i for i in children if step.proposed[i] == token), None)
        if node_or_none is None:
            return step.proposed[children[0]] if children else None
        node = node_or_none
    return None


def legend(console: Console) -> None:
    """What the colours mean."""
    text = Text("kept guess", STYLES["guess"])
    text.append("  ").append("refused guess", STRUCK)
    text.append("  ").append("correction", STYLES["correction"])
    text.append("  ").append("bonus", STYLES["bonus"])
    text.append("  plain")
    console.print(text)
