"""Drafts in the making of a model with a vocabulary of its own: drawn token by token, or written as text."""

from __future__ import annotations

import math
from codecs import getincrementaldecoder
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from redline.core.dist import Dist
from redline.core.errors import VocabularyError
from redline.core.ports import Constraint, Scene
from redline.core.sampling import Sampling, adjusted, distribution
from redline.core.types import Draft, History
from redline.drafters.spelling import Lexicon
from redline.drafters.transcript import Transcript

WORDY = 4
"""Draft tokens written for a guess, at most and on average."""


class Drawn:
    """Guesses drawn from what the draft model thinks of the tokens that both vocabularies have.

    Its logits are put where the target has these tokens, and are then sampled as the target's own are: with
    its bias, its penalties on its own history, and its constraint.

    Args:
        scene: What to guess for.
        lexicon: The two vocabularies.
        sampling: How to draw.
        depth: How many guesses to make.

    Raises:
        VocabularyError: No token is in both.
    """

    def __init__(self, scene: Scene, lexicon: Lexicon, sampling: Sampling, depth: int) -> None:
        if not lexicon.back:
            raise VocabularyError(
                "Target and drafter have no token in common.", 'Draft with way="reencode", or with ngram.'
            )
        self._scene, self._lexicon, self._sampling, self._depth = scene, lexicon, sampling, depth
        self._state: Constraint | None = scene.constraint
        self.tokens: list[int] = []
        self._dists: list[Dist] = []
        self._trust: list[float] = []
        self._survival = 1.0

    def add(self, row: NDArray[np.float32]) -> int | None:
        """One more guess.

        Args:
            row: The draft model's logits, shape (its width,).

        Returns:
            The draft token to read before the next one; None where no more is to be guessed.
        """
        logits, history = self._lexicon.on_target(row), self._scene.history
        if self._sampling.reads_history:
            history = history.then(self.tokens)
        q = law(logits, self._sampling, history, self._state.allowed() if self._state else None)
        if q is None:
            return None
        token = self._scene.chance.pick(q, at=len(self.tokens))
        self.tokens.append(token)
        self._dists.append(q)
        self._trust.append(probability(row, logits[token]))
        self._survival *= probability(row, logits.max())
        ended = token in self._lexicon.target.tokenizer.ends
        doubts = self._survival < self._scene.budget.confidence
        if ended or doubts or len(self.tokens) == self._depth:
            return None
        self._state = self._state.after(token) if self._state else None
        return self._lexicon.back[token]

    def draft(self, source: str) -> Draft:
        """All of them."""
        return Draft.chain(self.tokens, source, self._dists, self._trust)


class Written:
    """Guesses that the draft model writes as text, with its likeliest token each time.

    They are a function of the text before them, whatever becomes of it on its way from one vocabulary into
    the other, so each of them is certain.

    Args:
        scene: What to guess for.
        lexicon: The two vocabularies.
        sampling: How to choose.
        depth: How many guesses to make.
        transcript: The text in the draft's tokens.
        prompt: How many of those were the prompt.
    """

    def __init__(
        self,
        scene: Scene,
        lexicon: Lexicon,
        sampling: Sampling,
        depth: int,
        transcript: Transcript,
        prompt: int,
    ) -> None:
        self._scene, self._lexicon, self._depth = scene, lexicon, depth
        own = {lexicon.to_draft[token]: b for token, b in sampling.bias.items() if token in lexicon.to_draft}
        self._sampling = replace(sampling, temperature=0.0, bias=own)
        self._transcript, self._prompt = transcript, prompt
        self._own: list[int] = []
        self._data = b""
        self._trust: list[tuple[int, float]] = []
        self.tokens: list[int] = []

    def add(self, row: NDArray[np.float32]) -> int | None:
        """As `Drawn.add`."""
        history = self._scene.history
        if self._sampling.reads_history:
            history = History([*self._transcript.tokens, *self._own], self._prompt)
        choice = law(row, self._sampling, history)
        if choice is None:
            return None
        own, tokenizer = choice.top, self._lexicon.draft.tokenizer
        piece = tokenizer.piece(own)
        self._trust.append((len(self._data), probability(row, row[own])))
        self._own.append(own)
        self._data += piece
        ended = not piece or own in tokenizer.ends
        stuck = not self._translate(ended)
        if not piece and not stuck and own in self._lexicon.to_target:
            self.tokens.append(self._lexicon.to_target[own])
        doubts = math.prod(trust for _, trust in self._trust) < self._scene.budget.confidence
        many = len(self.tokens) >= self._depth or len(self._own) == WORDY * self._depth
        return None if ended or stuck or doubts or many else own

    def draft(self, source: str) -> Draft:
        """All of them."""
        tokens = self.tokens[: self._depth]
        if self._scene.constraint:
            tokens = tokens[: self._scene.constraint.takes(tokens)]
        trust, at = list[float](), 0
        for token in tokens:
            end = at + len(self._lexicon.target.tokenizer.piece(token))
            trust.append(math.prod(p for start, p in self._trust if at <= start < end or at == start == end))
            at = end
        return Draft.chain(tokens, source, trust=trust)

    def _translate(self, ended: bool) -> bool:
        """Say it in the target's tokens, and whether that can be done and any of it be of use."""
        data, target = self._data if ended else whole(self._data), self._lexicon.target
        self.tokens = target.continue_(self._transcript.tail, data)
        if target.written(self.tokens) != data:
            return False
        # A last token that took the draft model several may yet become a longer one; what it has itself is a
        # word that it would have written otherwise, had it meant a longer one.
        last = max((start for start, _ in self._trust if start < len(data)), default=0)
        if not ended and self.tokens and len(data) - len(target.tokenizer.piece(self.tokens[-1])) < last:
            self.tokens.pop()
        constraint = self._scene.constraint
        return constraint is None or constraint.takes(self.tokens) == len(self.tokens)


def law(
    logits: NDArray[np.float32],
    sampling: Sampling,
    history: History,
    allowed: NDArray[np.bool_] | None = None,
) -> Dist | None:
    """As `distribution`; None where bias and constraint leave no token that the draft model has."""
    left = adjusted(logits, sampling, history, allowed)
    return None if left.max() == -np.inf else distribution(logits, sampling, history, allowed)


def probability(row: NDArray[np.float32], logit: float) -> float:
    """How probable the model finds a token of this logit, at temperature 1 whatever the sampling."""
    top = row.max()
    return min(1.0, float(np.exp(logit - top) / np.exp(row - top).sum(dtype=np.float64)))


def whole(data: bytes) -> bytes:
    """The bytes without the beginning of a character at their end."""
    decoder = getincrementaldecoder("utf-8")("surrogateescape")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]
