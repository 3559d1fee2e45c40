"""Free text up to a marker, a constraint behind it, and perhaps free text again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from redline.core.ports import Constraint
from redline.grammar.free import FREE


class Marker:
    """What to look for: tokens, or bytes however they are cut into tokens (Knuth, Morris and Pratt, 1977).

    A token that has a marker's last bytes and more besides is not allowed, for the constraint could not see
    the rest of it: so a constraint always begins with a whole token.

    Args:
        symbols: The marker; at least one symbol.
        pieces: The bytes of every token where symbols are bytes; None where they are tokens.
        width: Of a mask.
    """

    def __init__(self, symbols: Sequence[int], pieces: Sequence[bytes] | None, width: int) -> None:
        self.symbols, self._pieces, self._width = tuple(symbols), pieces, width
        self._back = [0]
        for symbol in self.symbols[1:]:
            self._back.append(self._follow(self._back[-1], symbol))
        self._masks: dict[int, NDArray[np.bool_] | None] = {}
        self._suspects = [t for t, piece in enumerate(pieces or ()) if self.symbols[-1] in piece[:-1]]

    def after(self, matched: int, token: int) -> int | None:
        """How much of the marker stands at the end of the text; None if it ended within this token."""
        symbols: Sequence[int] = (token,)
        if self._pieces is not None:
            symbols = self._pieces[token] if token < len(self._pieces) else b""
        for symbol in symbols:
            if matched == len(self.symbols):
                return None
            matched = self._follow(matched, symbol)
        return matched

    def allowed(self, matched: int) -> NDArray[np.bool_] | None:
        """All tokens but those within which the marker would end, shape (V,); None for all."""
        if matched not in self._masks:
            across = [token for token in self._suspects if self.after(matched, token) is None]
            mask = np.ones(self._width, bool)
            mask[across] = False
            self._masks[matched] = mask if across else None
        known = self._masks[matched]
        return None if known is None else known.copy()

    def _follow(self, matched: int, symbol: int) -> int:
        while matched and self.symbols[matched] != symbol:
            matched = self._back[matched - 1]
        return matched + (self.symbols[matched] == symbol)


class Before:
    """The marker has not come yet. Implements `ports.Constraint`.

    Args:
        marker: What to look for.
        inner: What comes behind it.
        matched: How much of the marker stands at the end of the text.
    """

    def __init__(self, marker: Marker, inner: Constraint, matched: int = 0) -> None:
        self._marker, self._inner, self._matched = marker, inner, matched

    def allowed(self) -> NDArray[np.bool_] | None:
        return self._marker.allowed(self._matched)

    def takes(self, tokens: Sequence[int]) -> int:
        matched = self._matched
        for count, token in enumerate(tokens):
            if matched == len(self._marker.symbols):
                return count + self._inner.takes(tokens[count:])
            following = self._marker.after(matched, token)
            if following is None:
                return count
            matched = following
        return len(tokens)

    def forced(self) -> list[int]:
        return []

    def after(self, token: int) -> Constraint:
        matched = self._marker.after(self._matched, token)
        if matched is None:
            return FREE
        return (
            self._inner
            if matched == len(self._marker.symbols)
            else Before(self._marker, self._inner, matched)
        )


class Within:
    """A constraint that is over as soon as it may be. Implements `ports.Constraint`.

    Args:
        inner: The constraint.
        ends: Ids that end an answer; where it allows one of them, any text may come.
    """

    def __init__(self, inner: Constraint, ends: frozenset[int]) -> None:
        self._inner, self._ends = inner, ends

    def allowed(self) -> NDArray[np.bool_] | None:
        mask = self._inner.allowed()
        return None if mask is None or mask[sorted(self._ends)].any() else mask

    def takes(self, tokens: Sequence[int]) -> int:
        state: Constraint = self
        for count, token in enumerate(tokens):
            mask = state.allowed()
            if mask is None:
                break
            if not (0 <= token < len(mask) and mask[token]):
                return count
            state = state.after(token)
        return len(tokens)

    def forced(self) -> list[int]:
        found: list[int] = []
        state: Constraint = self
        for token in self._inner.forced():
            if state.allowed() is None:
                break
            found.append(token)
            state = state.after(token)
        return found

    def after(self, token: int) -> Constraint:
        return FREE if self.allowed() is None else Within(self._inner.after(token), self._ends)
