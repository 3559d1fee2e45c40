"""A smaller model of the family guesses, one token after another."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from redline.backends.pool import Pool, shared_prefix
from redline.core.dist import Dist
from redline.core.errors import OptionError, VocabularyError
from redline.core.ports import Backend, Cache, Chunk, Scene, Tokenizer
from redline.core.sampling import Sampling, distribution
from redline.core.types import Draft, Verdict
from redline.drafters.ngram import Index


def check_vocabulary(target: Tokenizer, draft: Tokenizer) -> None:
    """Refuse a drafter whose token ids mean other texts.

    Heads padded to different widths are fine. Control tokens that differ are named in a note: a guess of
    one is wrong more often, and no text suffers from that.

    Raises:
        VocabularyError: Names the first token that differs.
    """
    special: list[str] = []
    for token in range(min(target.size, draft.size)):
        theirs, ours = target.label(token), draft.label(token)
        if theirs == ours:
            continue
        if target.piece(token) or draft.piece(token):
            raise VocabularyError(
                f"Target and drafter have different vocabularies: token {token} is {theirs!r} and {ours!r}.",
                "Draft with a model of the target's family, or with ngram.",
            )
        special.append(f"{token} is {theirs!r} and {ours!r}")
    if special:
        more = f", and {len(special) - 3} more" if len(special) > 3 else ""
        _log.warning("Target and drafter have different control tokens: %s%s.", "; ".join(special[:3]), more)


_log = logging.getLogger("redline")

COMMON = 1 << 16
"""Tokens to guess from as a rule. Tokenizers number tokens by how common they are, and where a small model
has a large vocabulary, its head is a quarter of what a guess costs (cf. FR-Spec, arXiv 2502.14856)."""

RECENT, RARE = 64, 6
"""Guesses are from all tokens where more than so many of a text's last ones are none of the common ones."""


AHEAD = 2
"""Tokens that are looked up and read along: a pass over three rows takes a tenth longer than one over one."""


@dataclass(slots=True)
class Text:
    """What the draft model has read of one text.

    Attributes:
        cache: Its cache.
        read: The tokens in it, guesses included.
        agreed: How many of them are known to be the text's.
        lost: The text has a token that the draft model does not know.
        index: Where to look up what may follow.
    """

    cache: Cache
    read: list[int] = field(default_factory=list)
    agreed: int = 0
    lost: bool = False
    index: Index = field(default_factory=lambda: Index(2, 5))


@dataclass(slots=True)
class Guess:
    """A draft in the making, of tokens below `vocabulary`."""

    scene: Scene
    text: Text
    depth: int
    unread: list[int]
    vocabulary: int = 0
    tokens: list[int] = field(default_factory=list)
    dists: list[Dist] = field(default_factory=list)
    trust: float = 1.0


class ModelDrafter:
    """Draws guesses from a model, and says truthfully what it drew them from.

    Samples as the target does unless told otherwise; under shared noise that makes it agree with the
    target as often as coupled draws can. Any other temperature or filter is as exact, for q is what it
    drew from; only acceptance changes.

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

    def __init__(
        self, backend: Backend, target: Backend, sampling: Sampling | None = None, keep: int = 1
    ) -> None:
        check_vocabulary(target.tokenizer, backend.tokenizer)
        if backend.traits.rollback != "truncate":
            raise OptionError(
                f"{backend.name} cannot forget refused guesses, so it cannot draft.",
                "Draft with a model whose cache can be cut at any place, or with ngram.",
            )
        self.name = backend.name
        self._backend, self._sampling = backend, sampling
        self._width = min(backend.traits.vocab_size, target.traits.vocab_size)
        self._pool = Pool(backend, keep)
        self._texts: dict[int, Text] = {}

    @property
    def backend(self) -> Backend:
        """The draft model."""
        return self._backend

    def start(self, key: int, tokens: Sequence[int]) -> None:
        cache = self._pool.take(tokens)
        self._texts[key] = Text(cache, list(tokens[: cache.length]), cache.length)

    def read(self, key: int, tokens: Sequence[int]) -> None:
        text = self._texts[key]
        unread = list(tokens[text.cache.length : self._backend.traits.context])
        if unread and max(unread) < self._backend.traits.vocab_size:
            with self._guarded([key]):
                self._backend.extend([Chunk(text.cache, unread, "none")])
            text.read += unread
            text.agreed = len(text.read)

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        with self._guarded([scene.key for scene in scenes]):
            guesses = [self._open(scene) for scene in scenes]
            while growing := [guess for guess in guesses if len(guess.tokens) < guess.depth]:
                copies = [self._look_up(guess) for guess in growing]
                chunks = [
                    Chunk(
                        guess.text.cache,
                        [*guess.unread, *copied],
                        "all" if copied else "last",
                        vocabulary=guess.vocabulary,
                    )
                    for guess, copied in zip(growing, copies, strict=True)
                ]
                rows = self._backend.extend(chunks)
                for guess, copied, own in zip(growing, copies, rows, strict=True):
                    self._grow(guess, copied, own[-1 - len(copied) :, : guess.vocabulary])
        return [Draft.chain(guess.tokens, self.name, guess.dists) for guess in guesses]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """The next scene's history says it all."""

    def stop(self, key: int) -> None:
        if text := self._texts.pop(key, None):
            self._pool.give(text.cache, text.read)

    def close(self) -> None:
        """Free caches and model."""
        for key in list(self._texts):
            self.stop(key)
        self._pool.close()
        self._backend.close()

    @contextmanager
    def _guarded(self, keys: Sequence[int]) -> Iterator[None]:
        """Forget these texts if a pass is cut short: it leaves caches that nobody can trust."""
        try:
            yield
        except BaseException:
            for key in keys:
                if text := self._texts.pop(key, None):
                    text.cache.close()
            raise

    def _open(self, scene: Scene) -> Guess:
        """Forget the guesses that were refused and line up what the text has gained since."""
        text, tokens = self._texts[scene.key], scene.history.tokens
        room = self._backend.traits.context - len(tokens)
        depth = min(scene.budget.depth, room + 1)  # the last guess is never read
        unread = list(tokens[text.agreed :])
        if depth > 0 and max(unread, default=0) >= self._backend.traits.vocab_size and not text.lost:
            text.lost = True
            warnings.warn(
                f"{self.name} cannot read token {max(unread)}; it guesses no more in this text.",
                stacklevel=2,
            )
        if depth <= 0 or text.lost:
            return Guess(scene, text, 0, [])
        # The last token stays unread, so that there is always a row to draw the first guess from.
        keep = text.agreed + min(shared_prefix(text.read[text.agreed :], unread), len(unread) - 1)
        text.cache.rewind(keep)
        text.read, text.agreed = text.read[:keep], keep
        rare = sum(token >= COMMON for token in tokens[-RECENT:])
        vocabulary = self._width if rare > RARE else min(self._width, COMMON)
        return Guess(scene, text, depth, list(tokens[keep:]), vocabulary)

    def _look_up(self, guess: Guess) -> list[int]:
        """What the model may be going to guess, to be read in the same pass.

        Only where rows keep their bits: then it changes no guess, only how many passes they take.
        """
        count = min(AHEAD, guess.depth - len(guess.tokens) - 1)
        if count <= 0 or len(guess.unread) > AHEAD or not self._backend.traits.row_invariant:
            return []
        guess.text.index.read(guess.scene.history.tokens)
        return guess.text.index.copy(count, guess.tokens)

    def _grow(self, guess: Guess, copied: list[int], rows: NDArray[np.float32]) -> None:
        """Draw a guess from a row, and from the next one if the copy said the same.

        Args:
            guess: What there is.
            copied: What was read behind it.
            rows: Logits after the last unread token and after every copied one, (copied + 1, vocabulary).
        """
        cache, read = guess.text.cache, guess.text.read
        read += guess.unread
        for at, row in enumerate(rows):
            token = self._draw(guess, row)
            if len(guess.tokens) == guess.depth or copied[at : at + 1] != [token]:
                cache.rewind(cache.length - len(copied) + at)
                guess.unread = [token]
                return
            read.append(token)

    def _draw(self, guess: Guess, logits: NDArray[np.float32]) -> int:
        """One more guess, the last one if the model does not trust in all of them."""
        sampling = self._sampling or guess.scene.sampling
        if sampling.bias:
            bias = {token: b for token, b in sampling.bias.items() if token < guess.vocabulary}
            sampling = replace(sampling, bias=bias)
        history = guess.scene.history
        q = distribution(logits, sampling, history.then(guess.tokens) if sampling.reads_history else history)
        token = guess.scene.chance.pick(q, at=len(guess.tokens))
        guess.tokens.append(token)
        guess.dists.append(q)
        if guess.scene.budget.confidence > 0:
            guess.trust *= top_probability(logits)
        # Nothing follows the end of an answer.
        if guess.trust < guess.scene.budget.confidence or token in self._backend.tokenizer.ends:
            guess.depth = len(guess.tokens)
        return token


def top_probability(logits: NDArray[np.float32]) -> float:
    """How probable the model finds its own favourite at temperature 1, whatever the sampling."""
    return 1 / float(np.exp(logits - logits.max()).sum(dtype=np.float64))
