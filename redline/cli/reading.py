"""What the command line reads before a model is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from redline import grammar
from redline.core.errors import OptionError
from redline.core.ports import Backend, Constraint


def read_prompt(prompt: str) -> str:
    """The prompt itself, or stdin's text for "-"."""
    try:
        text = sys.stdin.buffer.read().decode() if prompt == "-" else prompt
    except UnicodeDecodeError as error:
        hint = "Convert it, with iconv for example."
        raise OptionError(f"The prompt on stdin is not UTF-8: {error.reason}.", hint) from error
    if not text:
        raise OptionError("The prompt is empty.", "Give a text to go on from, or - to read it from stdin.")
    return text


def read_constraint(schema: Path | None, regex: str | None) -> Callable[[Backend], Constraint | None]:
    """Look at the options before a model is loaded, and make the constraint for it afterwards."""
    if schema is not None and regex is not None:
        raise OptionError("--schema and --regex were both given.", "Give one of them.")
    if regex is not None:
        return partial(grammar.regex, regex)
    if schema is None:
        return lambda _: None
    try:
        text = schema.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise OptionError(f"Cannot read the schema {schema}: {reason}.", "--schema takes a file.") from error
    grammar.check_document(text)
    return partial(grammar.schema, text)
