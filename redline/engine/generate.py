"""Text in, text out: whole, or in pieces that say where they come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from redline.core.errors import OptionError, RedlineError, is_whole
from redline.core.metrics import Metrics, fold, inexact_widths
from redline.core.ports import Constraint
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Finish, Step
from redline.engine.check import check_length
from redline.engine.engine import Engine

Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, str]]
"""A raw text, token ids, or a conversation of messages with `role` and `content`."""

KINDS = "Give a text, a list of ids, or a list of messages with role and content."

Origin: TypeAlias = Literal["guess", "correction", "bonus", "plain"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A bit of text as it streams.

    Attributes:
        text: Never half a character, never part of a stop string; may be empty.
        token: The id behind it.
        origin: "guess": a kept guess. "correction": the target's own word after a refused guess.
            "bonus": its own word after guesses that were all kept. "plain": nothing had been guessed.
        source: Who had guessed it, or what it corrects or follows; "" where nobody had.
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
        inexact_widths: Rows of those passes whose bits may not be those of one-row passes, so that a near-tie
            may have fallen otherwise than in plain decoding; none on a row-invariant target.
    """

    text: str
    tokens: tuple[int, ...]
    finish: Finish
    seed: int
    steps: tuple[Step, ...]
    inexact_widths: tuple[int, ...] = ()

    @property
    def metrics(self) -> Metrics:
        return fold(self.steps)


def to_tokens(engine: Engine, prompt: Prompt) -> list[int]:
    """The ids of a prompt of any kind.

    Raises:
        OptionError: It is of no kind, or of two.
    """
    if isinstance(prompt, str):
        check_length(engine.target, prompt)
        return engine.target.tokenizer.encode(prompt)
    if not isinstance(prompt, Iterable) or isinstance(prompt, bytes):
        raise OptionError(f"{prompt!r} is not a prompt.", KINDS)
    messages = [item for item in prompt if isinstance(item, Mapping)]
    if messages and len(messages) == len(prompt):
        for message in messages:
            if not all(isinstance(message.get(part), str) for part in ("role", "content")):
                hint = "It needs a role and a content, both text."
                raise OptionError(f"{message!r} is not a message.", hint)
            check_length(engine.target, message["content"])
        return engine.target.tokenizer.chat(messages)
    if not all(is_whole(token) for token in prompt):
        raise OptionError(f"{prompt!r} is not a prompt.", KINDS)
    return [int(token) for token in prompt if not isinstance(token, Mapping)]


def pieces(step: Step) -> list[Piece]:
    """The text of a step, token by token, each with its origin."""
    own: Origin = "plain"
    if step.proposed:
        own = "bonus" if step.refused is None else "correction"
    return [
        Piece(text, token, "guess" if i < step.accepted else own, _source(step, i))
        for i, (token, text) in enumerate(zip(step.emitted, step.texts, strict=True))
    ]


def _source(step: Step, i: int) -> str:
    """Who is behind the i-th emitted token: guessed it, was corrected by it, or led to it."""
    node = step.path[i] if i < step.accepted else step.refused_node
    if node is None and step.path:
        node = step.path[-1]
    return "" if node is None else step.sources[node]


class Stream(Iterator[Piece]):
    """One text in the making: iterate over its pieces, or take its records with `step`. Made by `stream`.

    Attributes:
        seed: Repeats the run when given again.
        steps: The records so far.
    """

    def __init__(self, engine: Engine, key: int) -> None:
        self._engine, self._live = engine, engine.live[key]
        self._pieces = deque[Piece]()
        self.seed = self._live.seed
        self.steps: list[Step] = []

    def step(self) -> Step | None:
        """The next record of this text; None once it has ended. Moves the engine's other texts along.

        Raises:
            Exception: What ended the text, if that was an error.
        """
        if self.steps and self.steps[-1].finish:
            return None
        while not self._live.inbox:
            if self._live.key not in self._engine.live:
                raise self._live.fault or RedlineError("The text has been lost.", "Begin it again.")
            self._engine.step()
        self.steps.append(self._live.inbox.popleft())
        if self.steps[-1].finish == "failed" and self._live.fault:
            raise self._live.fault
        return self.steps[-1]

    def __next__(self) -> Piece:
        while not self._pieces:
            step = self.step()
            if step is None:
                raise StopIteration
            self._pieces.extend(pieces(step))
        return self._pieces.popleft()

    @property
    def result(self) -> Result:
        """The whole text.

        Raises:
            OptionError: It has not ended yet.
        """
        finish = self.steps[-1].finish if self.steps else None
        if finish is None:
            raise OptionError("The text has not ended yet.", "Read the stream to its end, or close it.")
        return Result(
            text="".join(text for step in self.steps for text in step.texts),
            tokens=tuple(token for step in self.steps for token in step.emitted),
            finish=finish,
            seed=self.seed,
            steps=tuple(self.steps),
            inexact_widths=inexact_widths(self._engine.target.traits, self.steps),
        )

    def close(self) -> None:
        """Stop here: the text's place is free at once, and `result` is what there is so far."""
        self._engine.cancel(self._live.key)
        self.steps.extend(self._live.inbox)
        self._live.inbox.clear()
        self._pieces.clear()
        if not (self.steps and self.steps[-1].finish):  # its last pass was cut short
            self.steps.append(Step(self._live.key, len(self._live.tokens), finish="cancelled"))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:  # a reader that just walks away leaves nothing behind
        if hasattr(self, "_live"):
            self._engine.abandon(self._live.key)


def stream(
    engine: Engine,
    prompt: Prompt,
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    seed: int | None = None,
    constraint: Constraint | None = None,
) -> Stream:
    """Write one text piece by piece; closing the stream cancels it. Arguments as for `generate`.

    Several streams of one engine may be read in turns: whoever reads moves them all.
    """
    key = engine.submit(to_tokens(engine, prompt), sampling, limits, seed, constraint)
    return Stream(engine, key)


def generate(
    engine: Engine,
    prompt: Prompt,
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    seed: int | None = None,
    constraint: Constraint | None = None,
) -> Result:
    """Write one text.

    Args:
        engine: Target, drafter, rule and pace.
        prompt: A raw text, token ids, or a conversation.
        sampling: How the target samples; greedy when left out.
        limits: Where to end; at the model's own stop tokens or the end of the context when left out.
        seed: Repeats an earlier run; a fresh one when left out. The result tells it.
        constraint: What may come at all, such as JSON of a schema; see `redline.grammar`.

    Raises:
        RedlineError: The prompt is empty or too long, or an option cannot be honoured.
    """
    return generate_many(engine, [prompt], sampling, limits, seed, constraint)[0]


def generate_many(
    engine: Engine,
    prompts: Sequence[Prompt],
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    seed: int | Sequence[int] | None = None,
    constraint: Constraint | None = None,
) -> list[Result]:
    """Write several texts as one batch; each is what it would have been alone. See `generate`.

    Args:
        engine, sampling, limits, constraint: As for `generate`.
        prompts: One a text.
        seed: One for all of them, so that equal prompts give equal texts; or a list with one for each.
    """
    if isinstance(prompts, str):
        raise OptionError("One prompt was given for several.", "Use generate, or put it into a list.")
    seeds = list(seed) if isinstance(seed, Sequence) else [seed] * len(prompts)
    if len(seeds) != len(prompts):
        raise OptionError(f"{len(seeds)} seeds were given for {len(prompts)} prompts.", "Give one for each.")
    tokens = [to_tokens(engine, prompt) for prompt in prompts]
    streams: list[Stream] = []
    try:
        for prompt, own in zip(tokens, seeds, strict=True):
            streams.append(stream(engine, prompt, sampling, limits, own, constraint))
        for each in streams:
            while each.step():
                pass
    except BaseException:
        for each in streams:
            each.close()
        raise
    return [each.result for each in streams]
