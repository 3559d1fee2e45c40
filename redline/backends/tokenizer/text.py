"""`ModelTokenizer`: the model's vocabulary behind `ports.Tokenizer`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import tokenizers

from redline.backends.tokenizer.chat import Template
from redline.core.errors import RedlineError


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the ids mean.

    Attributes:
        labels: The name of every id; "" for ids without meaning.
        pieces: The bytes that every id adds to a text; b"" for control tokens.
        control: Text of every control token → its id.
        ends: Ids that end an answer.
        opening: Ids that every text begins with.
    """

    labels: Sequence[str]
    pieces: Sequence[bytes]
    control: Mapping[str, int] = field(default_factory=dict)
    ends: frozenset[int] = frozenset()
    opening: tuple[int, ...] = ()


class ModelTokenizer:
    """A model's own tokenizer. Implements `ports.Tokenizer`.

    The pieces of `encode(text)` put together are `text.encode()`, except where the model's own rules
    change a text first: SentencePiece models put a space before it, some Hugging Face folders bring it
    into Unicode's composed form, and a few vocabularies (SmolLM2's) lack bytes of rare scripts, which
    such a model cannot read.

    Args:
        core: Splits and merges plain text; it must not know the control tokens.
        vocabulary: What the ids mean.
        template: How a conversation is written, or None.

    Attributes:
        size: Ids from here on mean nothing; the model's logits may be wider.
        ends: Ids that end an answer.
    """

    def __init__(self, core: tokenizers.Tokenizer, vocabulary: Vocabulary, template: Template | None) -> None:
        self.size = len(vocabulary.labels)
        self.ends = vocabulary.ends
        self._core, self._vocabulary, self._template = core, vocabulary, template
        # A name of one letter cannot be told from the letter.
        texts = sorted((text for text in vocabulary.control if len(text) > 1), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    def encode(self, text: str) -> list[int]:
        tokens = [token for part in self._split(text) for token in self._ids(part)]
        opening = list(self._vocabulary.opening)
        return tokens if tokens[: len(opening)] == opening else opening + tokens

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        if self._template is None:
            raise RedlineError(
                "This model has no chat template.", "Give it a raw prompt instead of messages."
            )
        mark = _unused_mark(text for message in messages for text in message.values())
        broken = [{part: self._broken(text, mark) for part, text in message.items()} for message in messages]
        text = self._template.render(broken)
        parts = (part if isinstance(part, int) else part.replace(mark, "") for part in self._split(text))
        return [token for part in parts for token in self._ids(part)]

    def piece(self, token: int) -> bytes:
        return self._vocabulary.pieces[token] if 0 <= token < self.size else b""

    def label(self, token: int) -> str:
        return self._vocabulary.labels[token] if 0 <= token < self.size else ""

    def _ids(self, part: int | str) -> list[int]:
        if isinstance(part, int):
            return [part]
        try:
            part.encode()
        except UnicodeEncodeError:
            raise RedlineError(
                "The text holds half of a surrogate pair, which no tokenizer can read.",
                "Decode the input with the right encoding.",
            ) from None
        return self._core.encode(part, add_special_tokens=False).ids

    def _split(self, text: str) -> Iterator[int | str]:
        """Control tokens as ids, and the plain text between them."""
        at = 0
        for match in self._control.finditer(text):
            if match.start() > at:
                yield text[at : match.start()]
            yield self._vocabulary.control[match[0]]
            at = match.end()
        if at < len(text):
            yield text[at:]

    def _broken(self, text: str, mark: str) -> str:
        """A role or content with a mark inside everything that looks like a control token.

        Marking rather than replacing lets templates trim, search and cut the text as they are used to.
        """
        return self._control.sub(lambda match: mark.join(match[0]), text)


def _unused_mark(contents: Iterable[str]) -> str:
    """A Unicode noncharacter that occurs in none of the contents."""
    used = set().union(*contents)
    for code in range(0xFDD0, 0xFDF0):
        if chr(code) not in used:
            return chr(code)
    raise RedlineError(
        "The messages use all of Unicode's noncharacters.", "Remove some; they have no meaning."
    )
