"""An oracle of chosen accuracy: it has read the text before. For tests and for what-if benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from redline.core.chance import derive, uniforms
from redline.core.ports import Scene
from redline.core.types import Draft, Verdict


class Replay:
    """Guesses tokens of texts it was given, some of them wrong on purpose.

    Args:
        texts: Whole texts, prompt included; a scene is helped by the first one that it is a beginning of.
        vocab_size: A wrong guess is the right id plus one, modulo this.
        accuracy: Probability of each guess to be right, decided by its position alone.
        script: Instead of `accuracy`: how many right guesses and then how many wrong ones to make for the
            token at a position.
        seed: Of the decisions.
    """

    name = "replay"
    confident = False
    draws = False

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        vocab_size: int,
        accuracy: float = 1.0,
        script: Callable[[int], tuple[int, int]] | None = None,
        seed: int = 0,
    ) -> None:
        self._texts = [list(text) for text in texts]
        self._vocab_size = vocab_size
        self._accuracy = accuracy
        self._script = script
        self._seed = seed

    def start(self, key: int, tokens: Sequence[int]) -> None:
        """Nothing to prepare."""

    def read(self, key: int, tokens: Sequence[int]) -> None:
        """It knows the text already."""

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        return [self._recall(scene) for scene in scenes]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """Nothing to learn."""

    def stop(self, key: int) -> None:
        """Nothing to forget."""

    def close(self) -> None:
        """Nothing to free."""

    def _recall(self, scene: Scene) -> Draft:
        said = list(scene.history.tokens)
        at, depth = len(said), scene.budget.depth
        text = next((text for text in self._texts if text[:at] == said), [])
        guesses = text[at : at + depth]
        if self._script:
            right, wrong = self._script(at)
            guesses = guesses[: right + wrong]
            rights = [i < right for i in range(len(guesses))]
        else:
            places = np.arange(at, at + len(guesses))
            rights = (uniforms(derive(self._seed), places) < self._accuracy).tolist()
        tokens = [
            token if right else (token + 1) % self._vocab_size
            for token, right in zip(guesses, rights, strict=True)
        ]
        return Draft.chain(tokens, self.name)
