"""Questions to measure with: a workload set of our own, or a file in the format of Spec-Bench."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from redline.core.errors import OptionError, unknown


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation's user turns, and what kind of task it is."""

    id: int | str
    category: str
    turns: tuple[str, ...]


def read_questions(
    path: Path | None = None, categories: Sequence[str] = (), limit: int | None = None
) -> list[Question]:
    """The questions of a file, one JSON object a line with `question_id`, `category` and `turns`.

    Args:
        path: The file; the built-in set when left out.
        categories: Keep only these.
        limit: Keep the first so many of every category.

    Raises:
        OptionError: The file cannot be read, or a line of it is no question.
        UnknownName: No question has such a category.
    """
    source = path or files("redline.bench").joinpath("workloads.jsonl")
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        hint = "Give a text file with one JSON object a line."
        raise OptionError(f"Cannot read the questions in {path}: {error}.", hint) from error
    questions = [_question(line, f"line {i} of {path}") for i, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise OptionError(f"{path} has no questions.", "Give one JSON object a line.")
    known = {question.category for question in questions}
    for category in categories:
        if category not in known:
            raise unknown("category", category, known)
    kept, seen = list[Question](), Counter[str]()
    for question in questions:
        seen[question.category] += 1
        wanted = not categories or question.category in categories
        if wanted and (limit is None or seen[question.category] <= limit):
            kept.append(question)
    return kept


def _question(line: str, where: str) -> Question:
    try:
        record = json.loads(line)
        turns = record["turns"]
        if not isinstance(turns, list) or not turns:
            raise ValueError
        if not all(isinstance(turn, str) and turn for turn in turns):
            raise ValueError
        return Question(record["question_id"], str(record["category"]), tuple(turns))
    except (ValueError, KeyError, TypeError) as error:
        hint = 'A line is {"question_id": 1, "category": "chat", "turns": ["…"]}.'
        raise OptionError(f"There is no question on {where}.", hint) from error
