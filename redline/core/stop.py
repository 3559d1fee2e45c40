"""When a text ends: a stop token, a stop string, or a limit, decided token by token inside a block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redline.core.errors import OptionError, is_whole
from redline.core.ports import Tokenizer
from redline.core.text import TextStream
from redline.core.types import Finish


@dataclass(frozen=True, slots=True)
class Limits:
    """Where an output ends.

    Attributes:
        max_tokens: Tokens to emit at most; None goes on to the end of the context.
        stop: Texts that end the output and are not part of it; a single one may stand for itself.
        stop_tokens: Ids that end it, emitted but adding no text; the model's own when None.

    Raises:
        OptionError: `max_tokens` is no whole number from 0 up, or a stop is no text.
    """

    max_tokens: int | None = None
    stop: str | Sequence[str] = ()
    stop_tokens: frozenset[int] | None = None

    def __post_init__(self) -> None:
        if self.max_tokens is not None and not (is_whole(self.max_tokens) and self.max_tokens >= 0):
            raise OptionError(f"max_tokens is {self.max_tokens!r}.", "It must be a whole number, 0 or more.")
        if not isinstance(self.stop, Iterable) or not all(isinstance(text, str) for text in self.stop):
            raise OptionError(f"stop is {self.stop!r}.", "It must be a text, or several in a list.")

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end the output."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class Ending:
    """Follows one output and knows where it ends. What is emitted behind the end never comes out.

    Args:
        limits: Where to end.
        room: Tokens that still fit the context.
        tokenizer: Knows the bytes of a token, and the model's own stop tokens.

    Attributes:
        left: Tokens still to come at most.
        room: Tokens that still fit the context.
        finish: Why the text has ended, if it has.
    """

    def __init__(self, limits: Limits, room: int, tokenizer: Tokenizer) -> None:
        if not isinstance(limits, Limits):
            raise OptionError(f"limits is {limits!r}.", "Give a redline.Limits.")
        self._text = TextStream(limits.stops)
        self._stop_tokens = tokenizer.ends if limits.stop_tokens is None else limits.stop_tokens
        self._piece = tokenizer.piece
        self.room = room
        self.left = room if limits.max_tokens is None else min(int(limits.max_tokens), room)
        self.finish: Finish | None = None if self.left else "length"

    def take(self, tokens: Sequence[int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Add one step's tokens.

        Returns:
            The tokens up to the end of the output, and the text that became certain with each of them.
        """
        emitted: list[int] = []
        texts: list[str] = []
        for token in tokens:
            if self.finish:
                break
            emitted.append(token)
            self.left -= 1
            self.room -= 1
            if token in self._stop_tokens:
                self.finish = "stop"
                texts.append("")
            else:
                texts.append(self._text.push(self._piece(token)))
                self.finish = "stop" if self._text.stopped else None if self.left else "length"
        if self.finish and texts:
            texts[-1] += self._text.flush()
        return tuple(emitted), tuple(texts)
