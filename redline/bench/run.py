"""Running every question through every arm, in turns, so that a noisy machine is noisy to all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from redline.bench.prompts import Question
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.engine import Engine, Prompt, Result, generate
from redline.engine.generate import to_tokens

WARM_UP_TOKENS = 32
"""Written once by every arm, unmeasured: some dozen passes, after the longest prompt, so that whatever grows
or is made on first use has been."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer of one arm.

    Attributes:
        question, turn, repeat: Which answer: trials that share these three are comparable.
        category: The question's.
        arm: Which engine.
        prompt: The tokens that were answered.
        result: What it wrote, and the record of every step.
        past_end: How many of its tokens stand behind the first one with which the model would have ended.
    """

    question: int | str
    turn: int
    repeat: int
    category: str
    arm: str
    prompt: tuple[int, ...]
    result: Result
    past_end: int = 0

    @property
    def answer(self) -> tuple[int | str, int, int]:
        """What trials of two arms must share to be compared."""
        return self.question, self.turn, self.repeat


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
    _warm_up(arms, questions, sampling, seed, chat)
    baseline = next(iter(arms))
    ends = arms[baseline].target.tokenizer.ends
    for number, question in enumerate(questions):
        said: list[str] = []
        for turn, text in enumerate(question.turns):
            said.append(text)
            prompt = to_tokens(arms[baseline], _prompt(said, chat))
            answers: dict[str, Result] = {}
            for repeat in range(repeats):
                names = list(arms)
                first = (number + turn + repeat) % len(names)
                for name in names[first:] + names[:first]:
                    result = answers[name] = generate(arms[name], prompt, sampling, limits, seed)
                    past = len(result.tokens) - _length(result.tokens, ends)
                    key = question.id, turn, repeat, question.category, name
                    yield Trial(*key, tuple(prompt), result, past)
            said.append(_text(answers[baseline], arms[baseline]))


def _warm_up(
    arms: Mapping[str, Engine], questions: Sequence[Question], sampling: Sampling, seed: int, chat: bool
) -> None:
    longest = _prompt([max((question.turns[0] for question in questions), key=len)], chat)
    for engine in arms.values():
        generate(engine, longest, sampling, Limits(WARM_UP_TOKENS, stop_tokens=frozenset()), seed)


def _length(tokens: Sequence[int], ends: frozenset[int]) -> int:
    """How many tokens there are up to the first end, which counts."""
    return next((i for i, token in enumerate(tokens, 1) if token in ends), len(tokens))


def _text(result: Result, engine: Engine) -> str:
    """The answer up to where the model would have ended it: what a conversation goes on with."""
    tokenizer = engine.target.tokenizer
    own = result.tokens[: _length(result.tokens, tokenizer.ends)]
    return b"".join(map(tokenizer.piece, own)).decode(errors="ignore")


def _prompt(said: Sequence[str], chat: bool) -> Prompt:
    """The conversation so far, user first."""
    if not chat:
        return said[-1]
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
