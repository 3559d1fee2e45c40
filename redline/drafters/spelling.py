"""What two vocabularies have in common, and how each of them writes a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import RedlineError
from redline.core.ports import Tokenizer

_BROKEN = re.compile("([\udc80-\udcff]+)")  # how bytes that are no text come out of "surrogateescape"

_REACH = 32  # bytes of a token that is looked for by its bytes


def name(tokenizer: Tokenizer, token: int) -> bytes | str:
    """What a token means whatever its id: its bytes, or the label of a control token."""
    return tokenizer.piece(token) or tokenizer.label(token)


class Speller:
    """Writes bytes in a tokenizer's tokens as they stand in the middle of a text.

    That is what `Tokenizer.encode` does for whole texts, without the opening token and the space that some
    put before a text, without taking what looks like a control token for one, and for any bytes.

    Args:
        tokenizer: Whose tokens.

    Attributes:
        opening: What every text begins with.
        ids: From a token's `name` to its id. Where several have one name it is the last of them: where
            SentencePiece has a byte both as a byte and as a letter, the letter comes later, and it writes it.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.opening = tokenizer.encode("")
        self.ids = {name(tokenizer, token): token for token in range(tokenizer.size)}

    def spell(self, data: bytes) -> list[int]:
        """The tokens that write these bytes. A byte that no token writes is left out."""
        parts = _BROKEN.split(data.decode("utf-8", "surrogateescape"))
        tokens: list[int] = []
        for i, part in enumerate(parts):
            found = self._encode(part) if i % 2 == 0 else None
            tokens += self._piece_by_piece(part) if found is None else found
        return tokens

    def continue_(self, text: bytes, more: bytes) -> list[int]:
        """The tokens that write `more` behind a text, as far as there are such tokens.

        What is encoded alone may come out otherwise than behind a text: with a space before it, or split
        elsewhere. So both are encoded together, and the tokens behind the border are taken. Where a token
        lies across the border it is not what the text was written with, and `more` is encoded alone.

        Args:
            text: The end of the text.
            more: What follows.
        """
        tokens = self._last(self.spell(text + more), len(more))
        return self._true(tokens if self.written(tokens) == more else self.spell(more), more)

    def written(self, tokens: Sequence[int]) -> bytes:
        """What these tokens write."""
        return b"".join(map(self.tokenizer.piece, tokens))

    def _true(self, tokens: Sequence[int], data: bytes) -> list[int]:
        """The first tokens, as far as they write `data`."""
        found, at = list[int](), 0
        for token in tokens:
            piece = self.tokenizer.piece(token)
            if not data.startswith(piece, at):
                break
            found.append(token)
            at += len(piece)
        return found

    def _encode(self, text: str) -> list[int] | None:
        """The tokenizer's own tokens; None where they do not write this text."""
        for before in ("", "\n"):  # behind a line's end nobody adds a space
            try:
                tokens = self.tokenizer.encode(before + text)
            except RedlineError:  # it cannot write this
                return None
            if self.opening and tokens[: len(self.opening)] == self.opening:
                tokens = tokens[len(self.opening) :]
            if before:
                tokens = self._last(tokens, len(text.encode()))
            if self.written(tokens) == text.encode() and all(map(self.tokenizer.piece, tokens)):
                return tokens
        return None

    def _last(self, tokens: list[int], length: int) -> list[int]:
        """The last tokens that write so many bytes; more bytes where one lies across the border."""
        at = len(tokens)
        while length > 0 and at > 0:
            at -= 1
            length -= len(self.tokenizer.piece(tokens[at]))
        return tokens[at:]

    def _piece_by_piece(self, text: str) -> list[int]:
        """The longest token, and then the next one."""
        data, tokens, at = text.encode("utf-8", "surrogateescape"), list[int](), 0
        while at < len(data):
            ends = range(min(len(data), at + _REACH), at, -1)
            end = next((end for end in ends if data[at:end] in self.ids), None)
            if end:
                tokens.append(self.ids[data[at:end]])
            at = end or at + 1
        return tokens


class Lexicon:
    """Which tokens of two vocabularies are the same: those with the same bytes, or with the same label.

    A draft's end of an answer that has no such counterpart is the target's end of an answer, and the other
    way round.

    Args:
        target, draft: The tokenizers.
        widths: How many ids the two models have, in this order.

    Attributes:
        target, draft: Their spellers.
        to_target, to_draft: From one's ids to the other's, where there is a counterpart.
        back: For every token that a guess can be drawn from, one of the draft tokens that mean it.
    """

    def __init__(self, target: Tokenizer, draft: Tokenizer, widths: tuple[int, int]) -> None:
        self.target, self.draft = Speller(target), Speller(draft)
        self._width = widths[0]
        self.to_target = _counterparts(draft, target, self.target.ids, (widths[1], widths[0]))
        self.to_draft = _counterparts(target, draft, self.draft.ids, widths)
        self.back = {token: own for own, token in self.to_target.items()}
        pairs = np.array([*self.to_target.items()], np.int64).reshape(-1, 2)
        first = np.unique(pairs[:, 1], return_index=True)[1]
        self._once, self._again = pairs[first], np.delete(pairs, first, axis=0)

    def on_target(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The draft's logits by target id; −inf for ids without a counterpart.

        Where several draft tokens have one counterpart, its logit is that of all their mass.

        Args:
            logits: A row of the draft, shape (its width,).

        Returns:
            Shape (the target's width,).
        """
        row = np.full(self._width, -np.inf, np.float32)
        row[self._once[:, 1]] = logits[self._once[:, 0]]
        np.logaddexp.at(row, self._again[:, 1], logits[self._again[:, 0]])
        return row

    def control(self, token: int) -> list[int]:
        """A control token of the target in draft tokens: its counterpart, or its label as text."""
        if token in self.to_draft:
            return [self.to_draft[token]]
        return self.draft.spell(self.target.tokenizer.label(token).encode("utf-8", "surrogateescape"))


def _counterparts(
    of: Tokenizer, into: Tokenizer, ids: dict[bytes | str, int], widths: tuple[int, int]
) -> dict[int, int]:
    found, end = {}, min((token for token in into.ends if not into.piece(token)), default=None)
    for token in range(min(of.size, widths[0])):
        other = ids.get(name(of, token)) if name(of, token) else None
        if other is None and token in of.ends and not of.piece(token):
            other = end
        if other is not None and other < widths[1]:
            found[token] = other
    return found
