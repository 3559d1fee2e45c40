"""Text in, text out: whole, or in pieces that say where they come from."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Literal, TypeAlias

from redline.core.errors import OptionError
from redline.core.metrics import Metrics, fold
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Finish, Step
from redline.engine.engine import Engine

Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, str]]
"""A raw text, token ids, or a conversation of messages with `role` and `content`."""

Origin: TypeAlias = Literal["guess", "correction", "bonus", "plain"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A bit of text as it streams.

    Attributes:
        text: Never half a character, never part of a stop string; may be empty.
        token: The id behind it.
        origin: "guess": a kept guess. "correction": the target's own word after a refused guess.
            "bonus": its own word after guesses that were all kept. "plain": nothing had been guessed.
        source: Who had guessed.
    """

    text: str
    token: int
    origin: Origin
    source: str


@dataclass(frozen=True, slots=True)
class Result:
    """One finished text.

    Attributes:
        text: What was written, without the prompt and without a stop string.
        tokens: Its ids, a stop token included.
        finish: Why it ended.
        seed: Repeats the run when given again.
        steps: The record of every pass.
    """

    text: str
    tokens: tuple[int, ...]
    finish: Finish
    seed: int
    steps: tuple[Step, ...]

    @property
    def metrics(self) -> Metrics:
        return fold(self.steps)


def to_tokens(engine: Engine, prompt: Prompt) -> list[int]:
    """The ids of a prompt of any kind."""
    if isinstance(prompt, str):
        return engine.target.tokenizer.encode(prompt)
    messages = [item for item in prompt if isinstance(item, Mapping)]
    if messages and len(messages) == len(prompt):
        return engine.target.tokenizer.chat(messages)
    try:
        return [index(token) for token in prompt]  # type: ignore[arg-type]  # what is no id raises
    except TypeError:
        hint = "Give a text, a list of ids, or a list of messages with role and content."
        raise OptionError(f"{prompt!r} is not a prompt.", hint) from None


def pieces(step: Step) -> list[Piece]:
    """The text of a step, token by token, each with its origin."""
    own: Origin = "plain"
    if step.proposed:
        own = "bonus" if step.refused is None else "correction"
    return [
        Piece(text, token, "guess" if i < step.accepted else own, step.source)
        for i, (token, text) in enumerate(zip(step.emitted, step.texts, strict=True))
    ]


def follow(engine: Engine, keys: Sequence[int]) -> Generator[Step]:
    """Step the engine until the texts `keys` have ended; yields their records as they come.

    Leaving early, by an error or by closing the iterator, cancels what has not ended. The records of other
    live texts are not kept: a program with several readers calls `Engine.step` itself.
    """
    waiting = set(keys)
    try:
        while waiting:
            for step in engine.step():
                if step.key not in waiting:
                    continue
                if step.finish:
                    waiting.discard(step.key)
                yield step
    finally:
        for key in waiting:
            engine.cancel(key)


class Stream(Iterator[Piece]):
    """One text piece by piece. Made by `stream`.

    Attributes:
        seed: Repeats the run when given again.
        steps: The records so far.
    """

    def __init__(self, engine: Engine, key: int) -> None:
        self.seed = engine.live[key].seed
        self.steps: list[Step] = []
        self._engine, self._key = engine, key
        self._pieces = _read(follow(engine, [key]), self.steps)

    def __next__(self) -> Piece:
        return next(self._pieces)

    @property
    def result(self) -> Result:
        """The whole text, once it has ended."""
        return to_result(self.steps, self.seed)

    def close(self) -> None:
        """Stop here; the text's place is free at once."""
        self._pieces.close()
        self._engine.cancel(self._key)

    def __del__(self) -> None:  # a reader that just walks away leaves nothing behind
        self.close()


def _read(records: Iterator[Step], steps: list[Step]) -> Generator[Piece]:
    """The pieces of records, which are kept in `steps`."""
    for step in records:
        steps.append(step)
        yield from pieces(step)


def stream(
    engine: Engine,
    prompt: Prompt,
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    seed: int | None = None,
) -> Stream:
    """Write one text piece by piece; closing the stream cancels it. Arguments as for `generate`."""
    return Stream(engine, engine.submit(to_tokens(engine, prompt), sampling, limits, seed))


def generate(
    engine: Engine,
    prompt: Prompt,
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    seed: int | None = None,
) -> Result:
    """Write one text.

    Args:
        engine: Target, drafter, rule and pace.
        prompt: A raw text, token ids, or a conversation.
        sampling: How the target samples; greedy when left out.
        limits: Where to end; at the model's own stop tokens or the end of the context when left out.
        seed: Repeats an earlier run; a fresh one when left out. The result tells it.

    Raises:
        RedlineError: The prompt is empty or too long, or an option cannot be honoured.
    """
    return generate_many(engine, [prompt], sampling, limits, seed)[0]


def generate_many(
    engine: Engine,
    prompts: Sequence[Prompt],
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    seed: int | None = None,
) -> list[Result]:
    """Write several texts as one batch; each is what it would have been alone. See `generate`."""
    if isinstance(prompts, str):
        raise OptionError("One prompt was given for several.", "Use generate, or put it into a list.")
    tokens = [to_tokens(engine, prompt) for prompt in prompts]
    keys: list[int] = []
    try:
        for prompt in tokens:
            keys.append(engine.submit(prompt, sampling, limits, seed))
    except BaseException:
        for key in keys:
            engine.cancel(key)
        raise
    seeds = {key: engine.live[key].seed for key in keys}
    steps: dict[int, list[Step]] = {key: [] for key in keys}
    for step in follow(engine, keys):
        steps[step.key].append(step)
    return [to_result(steps[key], seeds[key]) for key in keys]


def to_result(steps: Sequence[Step], seed: int) -> Result:
    """The text that the records of one finished text add up to."""
    finish = steps[-1].finish
    assert finish, "the last record of a text says why it ended"
    return Result(
        text="".join(text for step in steps for text in step.texts),
        tokens=tuple(token for step in steps for token in step.emitted),
        finish=finish,
        seed=seed,
        steps=tuple(steps),
    )
