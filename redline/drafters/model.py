"""A smaller model of the family guesses, token by token."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from redline.backends.pool import shared_prefix
from redline.core.dist import Dist
from redline.core.legal import any_left
from redline.core.ports import Backend, Chunk, Constraint, Scene
from redline.core.sampling import Sampling, adjusted, distribution
from redline.core.types import Draft, Verdict
from redline.drafters.breadth import Tree, broaden
from redline.drafters.readings import Readings
from redline.drafters.siblings import Odds
from redline.drafters.text import Text
from redline.drafters.vocabulary import below, check_vocabulary, guessable

AHEAD = 2
"""Tokens that are looked up and read along: a pass over three rows takes a tenth longer than one over one."""
FAR = 8
"""So many at most, where all of the last ones were right: a pass over nine takes the time of three."""


@dataclass(slots=True)
class Guess:
    """A draft in the making.

    Attributes:
        scene, text: What it is for.
        sampling: How to draw.
        depth: How many guesses it may have.
        unread: Tokens of the text or of the draft that the model has not read.
        vocabulary: Guesses are below this.
        copied: What may follow `unread`, to be read with it.
        tokens, dists, trust: The guesses.
        survival: How probable the model finds the favourites in their places, all of them together.
        constraint: What the next one may be, if not anything.
    """

    scene: Scene
    text: Text
    sampling: Sampling
    depth: int = 0
    unread: list[int] = field(default_factory=list)
    vocabulary: int = 0
    copied: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    dists: list[Dist] = field(default_factory=list)
    trust: list[float] = field(default_factory=list)
    survival: float = 1.0
    constraint: Constraint | None = None

    @property
    def grows(self) -> bool:
        return len(self.tokens) < self.depth

    def draft(self, source: str) -> Draft:
        return Draft.chain(self.tokens, source, self.dists, self.trust)

    def chunk(self) -> Chunk:
        tokens = [*self.unread, *self.copied]
        return Chunk(self.text.cache, tokens, "all" if self.copied else "last", vocabulary=self.vocabulary)


class ModelDrafter:
    """Draws guesses from a model, and says truthfully what it drew them from.

    Samples as the target does unless told otherwise; under shared noise that makes it agree with the
    target as often as coupled draws can. Any other temperature or filter is as exact, for q is what it
    drew from; only acceptance changes.

    It guesses from the common tokens as a rule (`guessable`). Where rows keep their bits it looks up what it
    is probably going to guess next and reads that in the same pass: the same guesses in fewer passes. Where a
    budget has more nodes than depth and all take trees it guesses a `Tree` instead.

    Args:
        backend: The draft model.
        target: The model it drafts for.
        sampling: How to draw guesses; as the target does when left out.
        keep: Caches kept after their text has ended.

    Raises:
        VocabularyError: Their token ids mean different texts.
        OptionError: The draft model cannot forget its refused guesses.
    """

    confident = True
    draws = True

    def __init__(
        self, backend: Backend, target: Backend, sampling: Sampling | None = None, keep: int = 1
    ) -> None:
        check_vocabulary(target.tokenizer, backend.tokenizer)
        self.name = backend.name
        self._backend, self._sampling = backend, sampling
        self._width = min(backend.traits.vocab_size, target.traits.vocab_size)
        self._looks_up = backend.traits.row_invariant
        self._texts = Readings[Text](backend, keep)

    @property
    def backend(self) -> Backend:
        """The draft model."""
        return self._backend

    def start(self, key: int, tokens: Sequence[int]) -> None:
        cache = self._texts.take(tokens)
        self._texts[key] = Text(cache, list(tokens[: cache.length]), cache.length)

    def read(self, key: int, tokens: Sequence[int]) -> None:
        text = self._texts[key]
        if self._looks_up:
            text.index.read(tokens)
        unread = list(tokens[text.cache.length : self._backend.traits.context])
        if unread and max(unread) < self._backend.traits.vocab_size:
            with self._texts.guarded([key]):
                self._backend.extend([Chunk(text.cache, unread, "none")])
            text.read += unread
            text.agreed = len(text.read)

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        with self._texts.guarded([scene.key for scene in scenes]):
            guesses = [broaden(self._open(scene), self._backend) for scene in scenes]
            while growing := [guess for guess in guesses if guess.grows]:
                rows = self._backend.extend([self._chunk(guess) for guess in growing])
                for guess, own in zip(growing, rows, strict=True):
                    if isinstance(guess, Tree):
                        guess.take(own)
                    else:
                        self._grow(guess, own[-1 - len(guess.copied) :, : guess.vocabulary])
        return [guess.draft(self.name) for guess in guesses]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """The next scene's history says it all."""

    def stop(self, key: int) -> None:
        self._texts.give(key)

    def close(self) -> None:
        """Free caches and model."""
        self._texts.close()

    def _open(self, scene: Scene) -> Guess:
        """Forget the guesses that were refused and line up what the text has gained since."""
        text, tokens = self._texts[scene.key], scene.history.tokens
        room = self._backend.traits.context - len(tokens)
        depth = min(scene.budget.depth, room + 1)  # the last guess is never read
        vocabulary = guessable(tokens, self._width)
        sampling, free = below(vocabulary, self._sampling or scene.sampling)
        unread = list(tokens[text.agreed :])
        if depth > 0 and max(unread, default=0) >= self._backend.traits.vocab_size and not text.lost:
            text.lost = True
            warnings.warn(
                f"{self.name} cannot read token {max(unread)}; it guesses no more in this text.",
                stacklevel=2,
            )
        if depth <= 0 or text.lost or not free:
            return Guess(scene, text, sampling)
        # The last token stays unread, so that there is always a row to draw the first guess from.
        keep = text.agreed + min(shared_prefix(text.read[text.agreed :], unread), len(unread) - 1)
        text.cache.rewind(keep)
        text.read, text.agreed = text.read[:keep], keep
        unread = list(tokens[keep:])
        return Guess(scene, text, sampling, depth, unread, vocabulary, constraint=scene.constraint)

    def _chunk(self, guess: Guess | Tree) -> Chunk:
        if isinstance(guess, Guess):
            guess.copied = self._look_up(guess)
        return guess.chunk()

    def _look_up(self, guess: Guess) -> list[int]:
        """What the model may be going to guess, to be read in the same pass.

        Only where rows keep their bits: then it changes no guess, only how many passes they take.
        """
        text = guess.text
        count = min(max(AHEAD, min(text.copied, FAR)), guess.depth - len(guess.tokens) - 1)
        # What is read with a copy gets logits for every row: of a long text that would be many.
        if count <= 0 or len(guess.unread) > AHEAD or not self._looks_up:
            return []
        text.index.read(guess.scene.history.tokens)
        return text.index.copy(count, guess.tokens)

    def _grow(self, guess: Guess, rows: NDArray[np.float32]) -> None:
        """Draw a guess from a row, and from the next one too where the copy said the same.

        Args:
            guess: What there is.
            rows: Logits after the last unread token and after every copied one, (copied + 1, vocabulary).
        """
        text, cache = guess.text, guess.text.cache
        text.read += guess.unread
        for at, row in enumerate(rows):
            self._draw(guess, row)
            guess.unread = guess.tokens[-1:]
            if len(guess.tokens) == guess.depth or guess.copied[at : at + 1] != guess.unread:
                cache.rewind(cache.length - len(guess.copied) + at)
                text.copied = 2 * at if at == len(guess.copied) else at
                return
            text.read += guess.unread

    def _draw(self, guess: Guess, logits: NDArray[np.float32]) -> None:
        """One more guess, the last one if the model does not trust in all of them."""
        history, sampling = guess.scene.history, guess.sampling
        if sampling.reads_history:
            history = history.then(guess.tokens)
        mask = guess.constraint.allowed() if guess.constraint else None
        mask = None if mask is None else mask[: len(logits)]
        if not any_left(mask, sampling):
            guess.depth = len(guess.tokens)
            return
        q = distribution(logits, sampling, history, mask)
        token = guess.scene.chance.pick(q, at=len(guess.tokens))
        guess.tokens.append(token)
        guess.dists.append(q)
        guess.constraint = guess.constraint.after(token) if guess.constraint else None
        seen = adjusted(logits, sampling, history, mask)
        odds = Odds(seen)
        guess.trust.append(odds.of(token))
        if guess.scene.budget.confidence > 0:
            guess.survival *= (odds if seen is logits else Odds(logits)).top
        # Nothing follows the end of an answer.
        if guess.survival < guess.scene.budget.confidence or token in self._backend.tokenizer.ends:
            guess.depth = len(guess.tokens)
