"""The target guesses for itself: its first layers, then its own norm and head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from redline.core.dist import Dist
from redline.core.errors import OptionError, is_whole
from redline.core.ports import Backend, Cache, Chunk, Constraint, Exits, Scene
from redline.core.sampling import distribution
from redline.core.types import Draft, Verdict
from redline.drafters.vocabulary import guessable


@dataclass(slots=True)
class Guess:
    """A draft in the making.

    Attributes:
        scene: What it is for.
        cache: The target's.
        depth: How many guesses it may have.
        vocabulary: Guesses are below this.
        state: What may come next, if not anything.
        tokens, dists, trust: The guesses.
        sure: How probable the exit finds its favourites, all of them.
    """

    scene: Scene
    cache: Cache
    depth: int
    vocabulary: int
    state: Constraint | None
    tokens: list[int] = field(default_factory=list)
    dists: list[Dist] = field(default_factory=list)
    trust: list[float] = field(default_factory=list)
    sure: float = 1.0

    def chunk(self) -> Chunk:
        """The pending token and all guesses; the backend knows which of them it has read."""
        tokens = [self.scene.history.tokens[-1], *self.tokens]
        return Chunk(self.cache, tokens, "last", vocabulary=self.vocabulary)


class EarlyExit:
    """Draws guesses from what the target makes of a text after its first layers.

    After LayerSkip (arXiv 2404.16710). It needs no second model and no cache of its own: it reads in the
    target's, behind its end, and when the guesses are checked the target goes on from the layer where the
    exit left them. Nothing is kept between drafts. A model that was not trained to be left early agrees with
    itself only after most of its layers, where a guess costs nearly what a token does: docs/drafters.md has
    the numbers.

    Args:
        target: The model whose text comes out; one that implements `ports.Exits`.
        layers: After how many layers to leave. Left out, all but the last one, which was the least slow on
            two models that were not trained for it.

    Raises:
        OptionError: The target cannot be left early, or not there.
    """

    name = "early_exit"
    confident = True
    draws = True

    def __init__(self, target: Backend, layers: int | None = None) -> None:
        if not isinstance(target, Exits):
            raise OptionError(
                f"{target.name} cannot be left after a few layers, so it cannot draft for itself.",
                "Open the target with the native backend, or draft with ngram or a smaller model.",
            )
        exits = target.exits
        if not exits:
            raise OptionError(f"{target.name} has a single layer, so there is none to leave early after.")
        self.layers = exits[-1] if layers is None else layers
        if not is_whole(self.layers) or self.layers not in exits:
            raise OptionError(
                f"layers is {layers!r}, and {target.name} can be left after {exits[0]} to {exits[-1]}.",
                "Leave it out, or give a whole number in this range.",
            )
        self._target, self._width = target, target.traits.vocab_size
        self._ends = target.tokenizer.ends

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        guesses = [self._open(scene) for scene in scenes]
        while growing := [guess for guess in guesses if len(guess.tokens) < guess.depth]:
            rows = self._target.extend_exit([guess.chunk() for guess in growing], self.layers)
            for guess, own in zip(growing, rows, strict=True):
                self._draw(guess, own[0, : guess.vocabulary])
        return [Draft.chain(guess.tokens, self.name, guess.dists, guess.trust) for guess in guesses]

    def start(self, key: int, tokens: Sequence[int]) -> None:
        """A scene says it all."""

    def read(self, key: int, tokens: Sequence[int]) -> None:
        """The target has read it."""

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """The next scene says it all."""

    def stop(self, key: int) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """The target is somebody else's."""

    def _open(self, scene: Scene) -> Guess:
        if scene.cache is None:
            raise OptionError(
                "A draft by early exit is made in the target's cache, and the scene has none.",
                "Give it scenes of redline.engine.Engine as they are.",
            )
        # A constraint or a bias may leave rare tokens only.
        free = scene.constraint is None and not scene.sampling.bias
        vocabulary = guessable(scene.history.tokens, self._width) if free else self._width
        return Guess(scene, scene.cache, scene.budget.depth, vocabulary, scene.constraint)

    def _draw(self, guess: Guess, logits: NDArray[np.float32]) -> None:
        """One more guess, the last one if all of them together are in doubt."""
        scene, history = guess.scene, guess.scene.history
        if scene.sampling.reads_history:
            history = history.then(guess.tokens)
        allowed = guess.state.allowed() if guess.state else None
        q = distribution(logits, scene.sampling, history, allowed)
        token = scene.chance.pick(q, at=len(guess.tokens))
        trust, favourite = probabilities(logits, token, allowed)
        guess.tokens.append(token)
        guess.dists.append(q)
        guess.trust.append(trust)
        guess.sure *= favourite
        # Nothing follows the end of an answer.
        if guess.sure < scene.budget.confidence or token in self._ends:
            guess.depth = len(guess.tokens)
        elif guess.state:
            guess.state = guess.state.after(token)


def probabilities(
    logits: NDArray[np.float32], token: int, allowed: NDArray[np.bool_] | None
) -> tuple[float, float]:
    """How probable a row finds a token and its own favourite at temperature 1, whatever the sampling."""
    if allowed is not None:
        logits = np.where(allowed, logits, -np.inf)
    weights = np.exp(logits - logits.max())
    total = float(weights.sum(dtype=np.float64))
    return min(1.0, float(weights[token]) / total), 1 / total
