"""States of a grammar that llguidance follows."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import OptionError
from redline.grammar.free import FREE, Free

if TYPE_CHECKING:
    from llguidance import LLMatcher

RECENT = 64
"""States kept for whoever comes to them again within a step: drafter, pruning, target, text."""

FAR = 64
"""Forced tokens looked up at once; no draft is longer."""


class Shared:
    """What all states of one grammar share.

    Attributes:
        width: Of a mask; ids past the tokenizer's own are never allowed.
        ends: Ids that end an answer, allowed where the grammar is complete.
        lock: llguidance refuses to be asked about one state from two threads at once.
        recent: Keeps states alive a little longer, since states do not keep those that follow them: the first
            one, which is everybody's, would keep all texts ever written.
    """

    def __init__(self, size: int, width: int, ends: frozenset[int]) -> None:
        self.size, self.width, self.ends = size, width, ends
        self.lock = threading.RLock()
        self.recent: deque[Matched] = deque(maxlen=RECENT)


class Matched:
    """One state. Implements `ports.Constraint`.

    Text that must come is to come in its usual tokens: a mask then allows the next one of them and no other
    spelling. `takes` says the same without computing masks.

    Args:
        shared: What it shares with the others.
        matcher: llguidance in this state; it is copied and never moved.
    """

    def __init__(self, shared: Shared, matcher: LLMatcher) -> None:
        self._shared, self._matcher = shared, matcher
        self._bits: NDArray[np.uint8] | None = None
        self._after: WeakValueDictionary[int, Matched | Free] = WeakValueDictionary()

    def allowed(self) -> NDArray[np.bool_]:
        """Which tokens may come next, shape (V,).

        Raises:
            OptionError: The grammar is too complex, or cannot be satisfied in this vocabulary.
        """
        with self._shared.lock:
            if self._bits is None:
                self._bits = self._mask()
        mask = np.zeros(self._shared.width, bool)
        bits = np.unpackbits(self._bits, bitorder="little")[: min(self._shared.size, len(mask))]
        mask[: len(bits)] = bits
        return mask

    def takes(self, tokens: Sequence[int]) -> int:
        state: Matched | Free = self
        for count, token in enumerate(tokens):
            if isinstance(state, Free):
                break
            if not state._permits(token):
                return count
            state = state.after(token)
        return len(tokens)

    def forced(self) -> list[int]:
        """The tokens to come as far as there is no choice; the first ones, if they are many."""
        found: list[int] = []
        state: Matched | Free = self
        while isinstance(state, Matched) and len(found) < FAR and (token := state._only()) is not None:
            found.append(token)
            state = state.after(token)
        return found

    def after(self, token: int) -> Matched | Free:
        with self._shared.lock:
            known = self._after.get(token)
            if known is None:
                known = self._after[token] = self._follow(token)
            return known

    def _mask(self) -> NDArray[np.uint8]:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if error := self._matcher.get_error():
            if error.startswith("NoExtension"):
                raise OptionError(
                    "No text of this model's tokens satisfies the grammar from here on.", "Ask for less."
                )
            raise OptionError(f"The grammar cannot be followed: {said(error)}.", "Simplify it.")
        return bits

    def _permits(self, token: int) -> bool:
        if not 0 <= token < min(self._shared.size, self._shared.width):
            return False
        with self._shared.lock:
            if token in self._shared.ends:
                return bool(self._matcher.is_accepting())
            usual = self._matcher.compute_ff_tokens()
            return bool(usual[0] == token if usual else self._matcher.validate_tokens([token]) == 1)

    def _only(self) -> int | None:
        """The one token that may come; None where there are several."""
        with self._shared.lock:
            usual = self._matcher.compute_ff_tokens()
        if usual:
            return int(usual[0])
        ids = np.flatnonzero(self.allowed())
        return int(ids[0]) if len(ids) == 1 else None

    def _follow(self, token: int) -> Matched | Free:
        if token in self._shared.ends or not self._permits(token):
            return FREE
        matcher = self._matcher.deep_copy()
        matcher.consume_token(token)
        state = Matched(self._shared, matcher)
        self._shared.recent.append(state)
        return state


def said(error: str) -> str:
    """The point of what llguidance says in many lines."""
    point = re.search(r"^\s*error: (.+)$", error, re.MULTILINE)
    line = point[1] if point else next(iter(error.splitlines()), "it gives no reason")
    return line.rstrip(".")
