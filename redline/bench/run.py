"""Running every question through every arm, in turns, so that a noisy machine is noisy to all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from redline.bench.prompts import Question
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.engine import Engine, Prompt, Result, generate

WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer of one arm.

    Attributes:
        question, turn, repeat: Which answer: trials that share these three are comparable.
        category: The question's.
        arm: Which engine.
        result: What it wrote, and the record of every step.
    """

    question: int | str
    turn: int
    repeat: int
    category: str
    arm: str
    result: Result


def run(
    arms: Mapping[str, Engine],
    questions: Sequence[Question],
    sampling: Sampling,
    limits: Limits,
    *,
    seed: int = 0,
    repeats: int = 1,
    chat: bool = True,
) -> Iterator[Trial]:
    """Answer every turn of every question with every arm; the arms take turns in going first.

    Args:
        arms: Engines by name, the first of them the baseline whose answers a conversation goes on with.
            They should keep no caches, so that each reads its prompt itself.
        questions: What to ask.
        sampling, limits, seed: The same for all.
        repeats: How often to measure each answer.
        chat: Put the turns into the model's chat template; else each is a raw prompt.
    """
    for engine in arms.values():
        generate(engine, _prompt([questions[0].turns[0]], chat), sampling, Limits(WARM_UP_TOKENS), seed)
    for number, question in enumerate(questions):
        said: list[str] = []
        for turn, text in enumerate(question.turns):
            said.append(text)
            answers: dict[str, str] = {}
            for repeat in range(repeats):
                names = list(arms)
                first = (number + turn + repeat) % len(names)
                for name in names[first:] + names[:first]:
                    result = generate(arms[name], _prompt(said, chat), sampling, limits, seed)
                    answers[name] = result.text
                    yield Trial(question.id, turn, repeat, question.category, name, result)
            said.append(answers[next(iter(arms))])


def _prompt(said: Sequence[str], chat: bool) -> Prompt:
    """The conversation so far, user first."""
    if not chat:
        return said[-1]
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
