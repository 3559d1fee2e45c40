"""Prompt lookup: what followed the last few tokens when they stood here before?"""

from __future__ import annotations

from collections.abc import Sequence

from redline.core.errors import OptionError
from redline.core.ports import Scene
from redline.core.types import Draft, Verdict


class Index:
    """One text and where every run of its tokens was last followed by something.

    Args:
        shortest, longest: Lengths of the runs.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self.text: list[int] = []
        self._sizes = range(longest, shortest - 1, -1)
        self._last: dict[tuple[int, ...], int] = {}

    def read(self, tokens: Sequence[int]) -> None:
        """Take in what is new of a text that only grows: time in proportion to the new tokens."""
        for token in tokens[len(self.text) :]:
            end = len(self.text)
            for size in self._sizes:
                if size <= end:
                    self._last[tuple(self.text[end - size :])] = end
            self.text.append(token)

    def copy(self, count: int, after: Sequence[int] = ()) -> list[int]:
        """What followed the longest, most recent earlier copy of the last tokens; nothing without one.

        Args:
            count: How many.
            after: Tokens to think of behind the text.
        """
        end = len(self.text) + len(after)
        last = [*self.text[-self._sizes.start :], *after][-self._sizes.start :]
        for size in self._sizes:
            at = self._last.get(tuple(last[-size:])) if size <= len(last) else None
            if at is not None:
                copied = [*self.text[at : at + count], *after][:count]
                while len(copied) < count:  # it runs into itself: a period
                    copied.append(copied[at - end])
                return copied
        return []


class Ngram:
    """Guesses that the text goes on as it did after the same tokens: the longest match, the latest first.

    Costs nothing but a few dictionary look-ups, and is right wherever text is copied: edits, quotes, code,
    summaries (Saxena, prompt lookup decoding, 2023; Yang et al., LLMA, arXiv 2304.04487). Guesses are
    deterministic, so every rule judges them by p alone.

    Args:
        shortest: Matches of fewer tokens are no reason to guess.
        longest: Longer matches are not told apart.

    Raises:
        OptionError: Not 1 ≤ shortest ≤ longest.
    """

    name = "ngram"
    confident = False
    draws = False

    def __init__(self, shortest: int = 2, longest: int = 5) -> None:
        if not 1 <= shortest <= longest:
            raise OptionError(
                f"ngram cannot match from {shortest} to {longest} tokens.", "1 <= shortest <= longest."
            )
        self._shortest, self._longest = shortest, longest
        self._indexes: dict[int, Index] = {}

    def start(self, key: int, tokens: Sequence[int]) -> None:
        self._indexes[key] = Index(self._shortest, self._longest)

    def read(self, key: int, tokens: Sequence[int]) -> None:
        self._indexes[key].read(tokens)

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        return [self._copy(scene) for scene in scenes]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """The next scene's history says it all."""

    def stop(self, key: int) -> None:
        self._indexes.pop(key, None)

    def close(self) -> None:
        self._indexes.clear()

    def _copy(self, scene: Scene) -> Draft:
        index = self._indexes[scene.key]
        index.read(scene.history.tokens)
        return Draft.chain(index.copy(scene.budget.depth), self.name)
