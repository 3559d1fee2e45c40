"""The longest end of the text that stood somewhere before: here, or in an answer of the past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from redline.core.ports import Scene
from redline.core.types import Draft, Verdict
from redline.drafters.automaton import ROOT, Automaton
from redline.drafters.corpus import Corpus
from redline.drafters.trust import DOUBT, Trust, check_doubt

RUNS = 8
"""Matches to follow at most: the longest one and its own ends, which have more occurrences to count."""


@dataclass(slots=True)
class Reader:
    """One text on its way through an automaton, and how often that was right about what comes next.

    Attributes:
        automaton: The text's own, or that of past answers.
        own: It is the text's own.
        trust: How often a match of some length has been right in this text.
        state, length: In an automaton of others: the longest end of the text that is in it.
    """

    automaton: Automaton
    own: bool
    trust: Trust = field(default_factory=Trust)
    state: int = ROOT
    length: int = 0

    def read(self, token: int) -> None:
        """One more token, after a look at whether it was expected."""
        for state, length in islice(self.runs(), 1):
            if expected := self.automaton.goes_on(state):
                guess, _, share = expected
                self.trust.learn(length, share, guess == token)
        if self.own:
            self.automaton.append(token)
        else:
            self.state, self.length = self.automaton.advance(self.state, self.length, token)

    def runs(self) -> Iterator[tuple[int, int]]:
        """The ends of the text that stood somewhere before, longest first."""
        if self.own:
            return self.automaton.runs(*self.automaton.shorter(self.automaton.last))
        return self.automaton.runs(self.automaton.place(self.state, self.length), self.length)

    def follow(self, state: int, length: int, depth: int, doubt: float) -> Path:
        """What came after a run, as long as it is probable enough that all of it comes again."""
        path, survival = Path(self.automaton.end(state)), 1.0
        while len(path.tokens) < depth:
            found = self.automaton.goes_on(state)
            while found is None and self.own and state != ROOT:  # it has come to the end: a period
                state, length = self.automaton.shorter(state)
                found = self.automaton.goes_on(state) if state != ROOT else None
            if found is None:
                break
            token, state, share = found
            trust = self.trust.of(length, share)
            survival *= trust
            if survival < doubt:
                break
            path.tokens.append(token)
            path.trust.append(trust)
            path.worth += survival
            length += 1
        return path


@dataclass(slots=True)
class Path:
    """A chain of guesses.

    Attributes:
        place: Where the match stood.
        tokens, trust: The guesses, and how probable each is after those before it.
        worth: How many of them may be expected to be kept.
    """

    place: int = 0
    tokens: list[int] = field(default_factory=list)
    trust: list[float] = field(default_factory=list)
    worth: float = 0.0


@dataclass(slots=True)
class Text:
    """One text.

    Attributes:
        here: Looks into the text itself.
        past: Look into answers of the past.
        answer: What has been written.
    """

    here: Reader
    past: list[Reader]
    answer: list[int] = field(default_factory=list)

    def read(self, tokens: Sequence[int]) -> None:
        """What is new of the text."""
        for token in tokens[len(self.here.automaton.text) :]:
            for reader in (self.here, *self.past):
                reader.read(token)


class Suffix:
    """Guesses that the text goes on as it did after the longest run of tokens that it ends with.

    A suffix automaton over the text knows every such run, in constant time a token, how often each
    continuation followed, and where it did last (Hu et al., SAM Decoding, arXiv 2411.10666; Oliaro et al.,
    SuffixDecoding, arXiv 2411.04975). Where it is asked to stop in doubt, it guesses as long as all of its
    guesses together are probable enough. How probable a guess is after a match of some length it learns from
    the text itself, at no cost: every token that is read is compared with what it would have guessed. Guesses
    are deterministic.

    Args:
        corpus: Answers of the past to look into as well; they count where they promise more. Its own answers
            are added when they end.
        doubt: Stop below this probability of all guesses together, where the pace has a confidence at all.

    Raises:
        OptionError: `doubt` is no probability.
    """

    name = "suffix"
    confident = True
    draws = False

    def __init__(self, corpus: Corpus | None = None, doubt: float = DOUBT) -> None:
        self._corpus, self._doubt = corpus, check_doubt(doubt)
        self._texts: dict[int, Text] = {}

    def start(self, key: int, tokens: Sequence[int]) -> None:
        past = [Reader(each, own=False) for each in self._corpus.automata()] if self._corpus else []
        self._texts[key] = Text(Reader(Automaton(), own=True), past)

    def read(self, key: int, tokens: Sequence[int]) -> None:
        self._texts[key].read(tokens)

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        return [self._guess(self._texts[scene.key], scene) for scene in scenes]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        if self._corpus:
            self._texts[key].answer += emitted

    def stop(self, key: int) -> None:
        if (text := self._texts.pop(key, None)) and self._corpus:
            self._corpus.add(text.answer)

    def close(self) -> None:
        self._texts.clear()

    def _guess(self, text: Text, scene: Scene) -> Draft:
        """The chain that promises most, of matches here and in past answers; of equals one from here."""
        text.read(scene.history.tokens)
        doubt, depth = min(self._doubt, scene.budget.confidence), scene.budget.depth
        best, found = Path(), text.here
        for reader in (text.here, *text.past):
            for state, length in islice(reader.runs(), RUNS):
                path = reader.follow(state, length, depth, doubt)
                if path.worth > best.worth:
                    best, found = path, reader
        if self._corpus and not found.own and best.tokens:
            self._corpus.use(found.automaton, best.place)
        return Draft.chain(best.tokens, "suffix" if found.own else "memory", trust=best.trust)
