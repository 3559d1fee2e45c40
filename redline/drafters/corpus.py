"""Answers of the past, as many as fit: in this process, and in a folder if there is one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from redline.core.errors import OptionError, is_whole
from redline.drafters.automaton import SEPARATOR, Automaton
from redline.drafters.memory import Folder

LIMIT_BYTES = 16 << 20
"""Of memory, by default: 50,000 to 400,000 tokens, which take less than a second to read."""

BYTES = 300
"""A token takes 40 bytes in a text that repeats itself, and at most about so many in one that does not."""

SHORTEST = 8
"""Shorter answers are not worth their place."""


class Generation:
    """Answers in one automaton, and which of them have been of use."""

    def __init__(self) -> None:
        self.automaton = Automaton()
        self._starts: list[int] = []
        self._used: set[int] = set()

    def add(self, answer: Sequence[int]) -> None:
        """One more answer."""
        self._starts.append(len(self.automaton.text))
        for token in (*answer, SEPARATOR):
            self.automaton.append(token)

    def use(self, place: int) -> list[int] | None:
        """The answer at a place has been of use; it is returned the first time."""
        which = bisect_right(self._starts, place) - 1
        if which in self._used:
            return None
        self._used.add(which)
        return self.answer(which)

    def answer(self, which: int) -> list[int]:
        """The tokens of an answer."""
        text, start = self.automaton.text, self._starts[which]
        return text[start : text.index(SEPARATOR, start)].tolist()

    def used(self) -> list[list[int]]:
        """The answers that have been of use, oldest first."""
        return [self.answer(which) for which in sorted(self._used)]


class Corpus:
    """Two generations of answers. When the younger one has filled its part of the memory, the older one goes.

    What was of use since moves on into a new one, so that the least recently used answers are forgotten.

    Args:
        limit_bytes: Memory for both.
        folder: Where answers are kept for other processes and days; see `Folder`.

    Raises:
        OptionError: The limit is no whole number above 0.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES, folder: Folder | None = None) -> None:
        if not is_whole(limit_bytes) or limit_bytes < 1:
            raise OptionError(f"limit_bytes is {limit_bytes!r}.", "It must be a whole number, 1 or more.")
        self._limit, self._folder = limit_bytes, folder
        self._old, self._young = Generation(), Generation()

    @property
    def nbytes(self) -> int:
        """Memory, nearly."""
        return self._old.automaton.nbytes + self._young.automaton.nbytes

    def automata(self) -> list[Automaton]:
        """Where to look, the latest answers first; other processes' answers are in it too."""
        if self._folder:
            for answer in self._folder.news():
                self._take(answer)
        return [self._young.automaton, self._old.automaton]

    def add(self, answer: Sequence[int]) -> None:
        """An answer has ended."""
        answer = answer[-self._limit // (8 * BYTES) :]  # so that not even one alone breaks the bound
        if len(answer) >= SHORTEST:
            self._take(answer)
            if self._folder:
                self._folder.add(answer)

    def use(self, automaton: Automaton, place: int) -> None:
        """Guesses were taken from a place in one of the automata."""
        for generation in (self._young, self._old):
            if generation.automaton is automaton and (answer := generation.use(place)) and self._folder:
                self._folder.use(answer)

    def _take(self, answer: Sequence[int]) -> None:
        self._young.add(answer)
        if self._young.automaton.nbytes > 3 * self._limit // 8:  # by one answer at most, so by an eighth
            self._old, survivors = self._young, self._old.used()
            self._young = Generation()
            for each in reversed(survivors):
                if self._young.automaton.nbytes < self._limit // 4:
                    self._young.add(each)
