"""Records on disk: `trace.jsonl` has a line about the run and then one line a step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from redline.core.errors import RedlineError
from redline.core.types import Step
from redline.engine.files import write_whole

FORMAT = "redline-trace-1"


def write(path: Path, steps: Iterable[Step], about: Mapping[str, Any]) -> None:
    """Write a trace; an existing file is replaced only once the new one is whole.

    Args:
        path: Where to.
        steps: The records.
        about: Whatever describes the run: model, drafter, settings, prompt tokens. JSON values only.

    Raises:
        RedlineError: The file cannot be written.
    """
    records = ({"format": FORMAT, **about}, *map(asdict, steps))
    write_whole(path, (json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def read(path: Path) -> tuple[dict[str, Any], list[Step]]:
    """Read a trace back.

    Returns:
        What the run was about, and its records.

    Raises:
        RedlineError: The file cannot be read, or a line of it is not what `write` writes.
    """
    try:
        # Not splitlines: that also splits at separators that may stand inside a text.
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RedlineError(
            f"Cannot read the trace {path}: {error}.", "Name a file that redline wrote."
        ) from error
    steps: list[Step] = []
    whole = 0
    try:
        about = json.loads(lines[0])
        if about.pop("format") != FORMAT:
            raise ValueError
        whole = 1
        for line in lines[1:]:
            steps.append(_to_step(json.loads(line)))
            whole += 1
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        hint = "The file is damaged or cut short, or was not written by redline."
        raise RedlineError(f"{path} is not a trace from line {whole + 1} on.", hint) from error
    return about, steps


def _to_step(record: dict[str, Any]) -> Step:
    if record.keys() != {field.name for field in fields(Step)}:
        raise ValueError
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
    }
    return Step(**values)
