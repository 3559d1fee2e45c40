"""What a grammar leaves no choice about needs no guessing."""

from __future__ import annotations

from collections.abc import Sequence

from redline.core.ports import Scene
from redline.core.types import Draft, Verdict


class Forced:
    """Guesses the tokens that must come: keys, quotes and brackets of JSON, and whatever a pattern fixes.

    Each is the only token that the text's constraint allows, so the target has no other choice either and
    every guess that it reads is kept. Says nothing where there is no constraint, or a choice.
    """

    name = "forced"
    confident = True
    draws = False

    def start(self, key: int, tokens: Sequence[int]) -> None:
        """Nothing to prepare."""

    def read(self, key: int, tokens: Sequence[int]) -> None:
        """The constraint has read it."""

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        return [self._must(scene) for scene in scenes]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """Nothing to learn."""

    def stop(self, key: int) -> None:
        """Nothing to forget."""

    def close(self) -> None:
        """Nothing to free."""

    def _must(self, scene: Scene) -> Draft:
        tokens = scene.constraint.forced() if scene.constraint else []
        return Draft.chain(tokens[: min(scene.budget.depth, scene.budget.nodes)], self.name)
