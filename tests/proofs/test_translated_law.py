"""A draft model with another vocabulary: the law of the text is the target's, under every exact rule."""

from dataclasses import replace

import numpy as np
import pytest
from proof import CAUGHT, EXACT, Coupled, distance
from test_whole_engine import EXACT_RULES, LIMITS, NO_END, SETTINGS, WARM, emitted, plain, rules, target

from redline.core.dist import Dist
from redline.core.pace import Confidence, Fixed
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.core.verify import Block, Greedy, Matching, Rejection, Tree
from redline.drafters import translated
from redline.drafters.translate import Translated
from redline.drafters.translated import Drawn, Written
from redline.engine import Engine, generate
from redline.testing import ToyBackend, ToyTokenizer, outcomes

WAYS = ("intersect", "reencode")
TOKENIZERS = {
    "other ids": ToyTokenizer([b"c", b"a", b"b"]),
    "other words": ToyTokenizer([b"b", b"ab", b"c", b"a", b"cc"]),
    "not all": ToyTokenizer([b"ba", b"a", b"b"]),
    "one thing twice": ToyTokenizer([b"b", b"a", b"b", b"c"]),
    "one thing": ToyTokenizer([b"a", b"bb"]),
    "ends": ToyTokenizer([b"", b"b", b"a", b""], ends=[0, 3]),
}
SHORT = Limits(max_tokens=3, stop_tokens=NO_END)


def drafter(way, tokenizer="other words", seed=7, sampling=None):
    words = TOKENIZERS[tokenizer]
    small = ToyBackend(words.size, seed=seed, spread=3.0, tokenizer=words)
    return Translated(small, target(), sampling, way=way)


def error(who, rule, sampling, limits=SHORT, pace=None, lengths=None):
    return distance(emitted(who, rule, sampling, limits, pace or Fixed(2), lengths), plain(sampling, limits))


@rules(EXACT_RULES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_vocabularies(rule, way, tokenizer):
    lengths = set()
    assert error(drafter(way, tokenizer), rule, WARM, lengths=lengths) < EXACT
    assert max(lengths) > 0


@rules(EXACT_RULES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_sampling_settings(rule, way, settings):
    for tokenizer in ("other words", "one thing twice"):
        assert error(drafter(way, tokenizer), rule, SETTINGS[settings]) < EXACT


@rules([Greedy(), *EXACT_RULES])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_temperature_zero(rule, way, settings):
    cold = replace(SETTINGS[settings], temperature=0.0)
    for tokenizer in TOKENIZERS:
        for limits in LIMITS.values():
            assert error(drafter(way, tokenizer), rule, cold, limits) < EXACT


@rules(EXACT_RULES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", LIMITS)
def test_endings(rule, way, limits):
    assert error(drafter(way, "ends"), rule, WARM, LIMITS[limits]) < EXACT


@rules(EXACT_RULES)
@pytest.mark.parametrize("way", WAYS)
def test_guesses_drawn_otherwise_than_the_target_draws(rule, way):
    for sampling in (SETTINGS["filters"], SETTINGS["bias"], replace(WARM, temperature=0.0)):
        assert error(drafter(way, sampling=sampling), rule, SETTINGS["frequency"]) < EXACT


@rules(EXACT_RULES)
@pytest.mark.parametrize("way", WAYS)
def test_drafts_that_end_where_the_model_doubts(rule, way):
    """How long a draft gets hangs on what it guessed."""
    lengths, two, limits = set(), replace(WARM, top_k=2), Limits(max_tokens=4, stop_tokens=NO_END)
    assert error(drafter(way, "one thing twice"), rule, two, limits, Confidence(3, 0.3), lengths) < EXACT
    assert lengths >= {1, 2}


class NotTwice:
    """No token stands twice in a row."""

    def __init__(self, last):
        self.last = last

    def allowed(self):
        return np.arange(3) != self.last

    def takes(self, tokens):
        pairs = zip([self.last, *tokens], tokens, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a == b), len(tokens))

    def forced(self):
        return []

    def after(self, token):
        return NotTwice(token)


def constrained(who, rule, sampling, lengths=None):
    def run(noise):
        shared = Coupled(noise)
        engine = Engine(target(), who, rule=rule, pace=lambda: Fixed(2), noise=lambda seed: shared)
        result = generate(engine, [0, 2], sampling, SHORT, seed=0, constraint=NotTwice(2))
        if lengths is not None:
            lengths.update(len(step.proposed) for step in result.steps)
        return result.tokens

    return outcomes(run)


@rules(EXACT_RULES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_constraints(rule, way, temperature):
    sampling = replace(WARM, temperature=temperature)
    expected = constrained(None, Matching(), sampling)
    assert len(expected) == (8 if temperature else 1)
    for tokenizer in TOKENIZERS:
        lengths = set()
        law = constrained(drafter(way, tokenizer), rule, sampling, lengths)
        assert distance(law, expected) < EXACT
        assert way == "reencode" or tokenizer == "one thing" or max(lengths) == 2


# --- drafters with one fault ------------------------------------------------------------------------


def test_certain_guesses_that_are_called_drawn_are_caught(monkeypatch):
    draft = Written.draft

    def boast(self, source):
        made = draft(self, source)
        return Draft.chain(made.tokens, source, [Dist.of(np.ones(3))] * len(made))

    monkeypatch.setattr(Written, "draft", boast)
    who = drafter("reencode")
    who.draws = True  # else the engine catches it
    for rule in (Rejection(), Block(), Tree()):
        assert error(who, rule, WARM) > CAUGHT
    assert error(who, Matching(), WARM) < EXACT  # which does not read q


def test_a_q_that_was_not_drawn_from_is_caught(monkeypatch):
    draft = Drawn.draft

    def flatter(self, source):
        self._dists = [Dist.of(np.sqrt(q.probs), q.ids) for q in self._dists]
        return draft(self, source)

    monkeypatch.setattr(Drawn, "draft", flatter)
    assert error(drafter("intersect", "one thing twice"), Rejection(), WARM) > CAUGHT


def test_a_q_without_the_constraint_that_it_was_drawn_under_is_caught(monkeypatch):
    add, inner = Drawn.add, translated.law

    def blind(self, row):
        token = add(self, row)
        free = inner(self._lexicon.on_target(row), self._sampling, self._scene.history)
        self._dists = [*self._dists[:-1], free] if self._dists else []
        return token

    monkeypatch.setattr(Drawn, "add", blind)
    expected = constrained(None, Matching(), WARM)
    assert distance(constrained(drafter("intersect", "other ids"), Rejection(), WARM), expected) > CAUGHT
