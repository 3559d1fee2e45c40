"""A draft model with a vocabulary of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from redline.backends.pool import shared_prefix
from redline.core.errors import OptionError
from redline.core.ports import Backend, Cache, Chunk, Scene
from redline.core.sampling import Sampling
from redline.core.types import Draft, Verdict
from redline.drafters.readings import Readings
from redline.drafters.spelling import Lexicon
from redline.drafters.transcript import Transcript
from redline.drafters.translated import Drawn, Written

Way: TypeAlias = Literal["auto", "intersect", "reencode"]

WARM = 0.9
"""The hotter the target, the more rarely it takes the likeliest token, which is all that "reencode" guesses,
and the more often two draws agree. For the pair in docs/drafters.md that crosses between 0.8 and 1."""


@dataclass(slots=True)
class Text:
    """What the draft model has read of one text.

    Attributes:
        cache: Its cache.
        transcript: The text in its tokens.
        prompt: How many of them were the prompt.
        read: The tokens in the cache, guesses included.
        agreed: How many of them are known to be the transcript's for good.
    """

    cache: Cache
    transcript: Transcript
    prompt: int
    read: list[int] = field(default_factory=list)
    agreed: int = 0

    def rewind(self) -> list[int]:
        """Forget what does not stand in the transcript, and say which of its tokens are to be read."""
        tokens = self.transcript.tokens
        keep = self.agreed + shared_prefix(self.read[self.agreed :], tokens[self.agreed :])
        keep = min(keep, len(tokens) - 1)  # so that there is always a row to guess from
        self.cache.rewind(keep)
        del self.read[keep:]
        self.agreed = min(keep, self.transcript.settled)
        return list(tokens[keep:])


@dataclass(slots=True)
class Job:
    """A draft in the making, and what the draft model has to read for it.

    Attributes:
        text, guess: Whose, and what there is of it.
        unread: Nothing where it is done.
    """

    text: Text
    guess: Drawn | Written
    unread: list[int]


class Translated:
    """Guesses with a model whose tokens are not the target's (Timor et al., arXiv 2502.05202).

    There are two ways. "reencode": the model writes on greedily, and what it wrote is encoded in the target's
    tokens. "intersect": it draws from the tokens that both have, which under shared noise makes it agree with
    the target as often as coupled draws can. Both are exact under every rule; "auto" takes the one that is
    right more often: reencode up to a temperature of 0.9, and intersect above.

    Args:
        backend: The draft model.
        target: The model it drafts for.
        sampling: How to draw guesses; as the target does when left out.
        keep: Caches kept after their text has ended.
        way: "auto", "intersect" or "reencode".

    Raises:
        OptionError: There is no such way, or the draft model cannot forget its refused guesses.
    """

    confident = True
    draws = True

    def __init__(
        self,
        backend: Backend,
        target: Backend,
        sampling: Sampling | None = None,
        keep: int = 1,
        way: Way = "auto",
    ) -> None:
        if way not in ("auto", "intersect", "reencode"):
            raise OptionError(f"There is no way {way!r} to translate.", "Take auto, intersect or reencode.")
        self.name, self.draws = backend.name, way != "reencode"
        self._backend, self._target, self._sampling, self._way = backend, target, sampling, way
        self._texts = Readings[Text](backend, keep)

    @property
    def backend(self) -> Backend:
        """The draft model."""
        return self._backend

    @cached_property
    def lexicon(self) -> Lexicon:
        """The two vocabularies, compared when the first text begins."""
        widths = self._target.traits.vocab_size, self._backend.traits.vocab_size
        return Lexicon(self._target.tokenizer, self._backend.tokenizer, widths)

    def start(self, key: int, tokens: Sequence[int]) -> None:
        transcript = Transcript(self.lexicon)
        transcript.read(tokens)
        own = transcript.tokens
        cache = self._texts.take(own)
        self._texts[key] = Text(cache, transcript, len(own), own[: cache.length])

    def read(self, key: int, tokens: Sequence[int]) -> None:
        text = self._texts[key]
        # As much of it as the target has read, and no more than is sure to stay.
        part = len(tokens) / max(1, text.transcript.known)
        end = min(int(part * text.transcript.settled), self._backend.traits.context)
        if unread := text.transcript.tokens[len(text.read) : end]:
            with self._texts.guarded([key]):
                self._backend.extend([Chunk(text.cache, unread, "none")])
            text.read += unread

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        with self._texts.guarded([scene.key for scene in scenes]):
            jobs = [self._open(scene) for scene in scenes]
            while growing := [job for job in jobs if job.unread]:
                rows = self._backend.extend([Chunk(job.text.cache, job.unread, "last") for job in growing])
                for job, own in zip(growing, rows, strict=True):
                    job.text.read += job.unread
                    token = job.guess.add(own[-1])
                    full = len(job.text.read) == self._backend.traits.context
                    job.unread = [] if token is None or full else [token]
        return [job.guess.draft(self.name) for job in jobs]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """The next scene's history says it all."""

    def stop(self, key: int) -> None:
        self._texts.give(key)

    def close(self) -> None:
        """Free caches and model."""
        self._texts.close()

    def _open(self, scene: Scene) -> Job:
        """Take in what the text has gained since, and forget what did not become text."""
        text, budget = self._texts[scene.key], scene.budget
        text.transcript.read(scene.history.tokens)
        sampling = self._sampling or scene.sampling
        way = self._way
        if way == "auto":
            way = "intersect" if sampling.temperature > WARM else "reencode"
        depth = min(budget.depth, budget.nodes)
        guess: Drawn | Written = (
            Drawn(scene, self.lexicon, sampling, depth)
            if way == "intersect"
            else Written(scene, self.lexicon, sampling, depth, text.transcript, text.prompt)
        )
        fits = 0 < len(text.transcript.tokens) <= self._backend.traits.context
        return Job(text, guess, text.rewind() if depth > 0 and fits else [])
