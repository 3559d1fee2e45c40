"""The target's text in the draft's tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from redline.drafters.spelling import Lexicon

_PLACE = re.compile(rb"(?<=\S)(?= \S)|(?<=\S\n)(?=\S)")
"""Where no tokenizer joins what stands on both sides: before a single space, and behind a single line's end.
Of several, some tokenizers take the last one apart if a word follows, which is to be seen from both sides."""

SHORTEST, LONGEST = 32, 256
"""Bytes that are encoded together. Longer ones cost more each time that a token is added to them."""


class Transcript:
    """A text of the target in the draft's tokens, kept as it grows: a function of its tokens alone.

    It is encoded in stretches of some dozen bytes that end where no token reaches across. Only the last one
    is encoded again when the text grows.

    Args:
        lexicon: The two vocabularies.

    Attributes:
        tokens: The draft's tokens.
        settled: How many of them will never change.
        tail: The bytes of the others.
        known: How many tokens of the text are in it.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.tokens, self.tail = list(lexicon.draft.opening), b""
        self.settled = len(self.tokens)
        self._lexicon = lexicon
        self.known = 0

    def read(self, text: Sequence[int]) -> None:
        """Take in what is new of a text that only grows."""
        if len(text) == self.known:
            return
        opening = self._lexicon.target.opening
        if self.known == 0 and opening and list(text[: len(opening)]) == opening:
            self.known = len(opening)  # the draft has its own
        del self.tokens[self.settled :]
        for token in text[self.known :]:
            piece = self._lexicon.target.tokenizer.piece(token)
            if piece:
                self.tail += piece
                self._cut()
            else:
                self._control(token)
        self.known = len(text)
        self.tokens += self._lexicon.draft.spell(self.tail)

    def _control(self, token: int) -> None:
        self._settle(len(self.tail))
        own = self._lexicon.control(token)
        if self.tokens != self._lexicon.draft.opening or own != self.tokens:  # the text's own opening
            self.tokens += own
        self.settled = len(self.tokens)

    def _cut(self) -> None:
        """Settle what has an end. Where that is depends on the bytes before it and the next two."""
        while len(self.tail) >= SHORTEST + 2:
            place = _PLACE.search(self.tail, SHORTEST)
            at = place.start() if place else len(self.tail)
            if at > LONGEST:
                if len(self.tail) < LONGEST + 2:
                    return
                at = LONGEST
                while at > LONGEST - 4 and self.tail[at] & 0xC0 == 0x80:  # within a character
                    at -= 1
            elif not place:
                return
            self._settle(at)

    def _settle(self, length: int) -> None:
        self.tokens += self._lexicon.draft.spell(self.tail[:length])
        self.settled, self.tail = len(self.tokens), self.tail[length:]
