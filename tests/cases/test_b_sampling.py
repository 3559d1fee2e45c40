"""Sampled text has the target's law."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from setups import (
    SAMPLERS,
    always,
    draws,
    fits,
    law,
    liar,
    same_law,
    siblings,
    table,
    tiny,
    write,
)

from redline.core.chance import Keyed
from redline.core.dist import Dist
from redline.core.pace import Fixed
from redline.core.ports import Scene
from redline.core.sampling import Sampling
from redline.core.types import Budget, History
from redline.core.verify import RULES
from redline.drafters import ModelDrafter, Ngram
from redline.engine import Engine
from redline.testing import ToyBackend

RANDOM = Sampling(temperature=1.0)
CHAINS = [rule.name for rule in SAMPLERS]
FRESH = [rule.name for rule in SAMPLERS if not rule.shared]  # tied noise has only one law a position
TREES = [rule.name for rule in SAMPLERS if rule.trees]


def texts_of(probs, tokens):
    """The law of `tokens` independent draws."""
    return {
        text: float(np.prod([probs[token] for token in text]))
        for text in product([t for t, p in enumerate(probs) if p], repeat=tokens)
    }


@pytest.mark.parametrize("rule", FRESH)
def test_05_the_law_is_the_targets_whatever_the_draft_model_believes(rule):
    """A token chosen by argmax, but judged as if it had been drawn from the draft model's softmax.

    transformers #32867, PR #33534; speculative-sampling #3; dflash #74; recurrent-drafter #6
    """
    p, q = [0.6, 0.4], [0.8, 0.2]
    for how in (None, Sampling(temperature=0.0), Sampling(temperature=2.0)):
        drafter_of = partial(ModelDrafter, table(q), sampling=how)
        got = law(lambda: table(p), drafter_of, rule, tokens=3)
        expected = texts_of(p, 3)
        assert got.keys() == expected.keys()
        for text, probability in expected.items():
            assert got[text] == pytest.approx(probability, abs=1e-7)  # the rows are float32


@pytest.mark.parametrize("rule", CHAINS)
def test_05_frequencies_of_the_production_noise(rule):
    """The same fault, where enumeration cannot see it: in how the noise is keyed.

    transformers #32867
    """
    p, q = [0.6, 0.4], [0.8, 0.2]
    engine = Engine(table(p), ModelDrafter(table(q), table(p)), rule=RULES[rule], pace=lambda: Fixed(2))
    assert fits(draws(engine, [0], RANDOM), p)


def test_05_negative_control_a_false_q_shows():
    """The frequencies above can fail: the faulty scheme writes token 0 three times in four."""
    engine = Engine(table([0.6, 0.4]), liar([0.8, 0.2]), rule=RULES["rejection"], pace=lambda: Fixed(1))
    counts = draws(engine, [0], RANDOM)
    assert not fits(counts, [0.6, 0.4])
    got = law(lambda: table([0.6, 0.4]), lambda _: liar([0.8, 0.2]), "rejection", tokens=2, depth=1)
    assert got[0, 0] + got[0, 1] == pytest.approx(0.75, abs=1e-7)


LOOKUP = [0.30, 0.15, 0.35, 0.20]


@pytest.mark.parametrize("rule", CHAINS)
def test_07_a_looked_up_guess_is_kept_as_often_as_the_target_says(rule):
    """Candidates copied from the prompt with an invented top probability, so never refused.

    openvino.genai PR #2331
    """
    got = law(lambda: table(LOOKUP), lambda _: Ngram(1, 1), rule, tokens=3, prompt=[1, 0, 1])
    same_law(got, law(lambda: table(LOOKUP), None, tokens=3, prompt=[1, 0, 1]))
    engine = Engine(table(LOOKUP), always(0), rule=RULES[rule], pace=lambda: Fixed(3))
    assert fits(draws(engine, [1], RANDOM), LOOKUP)


def test_07_negative_control_an_invented_probability_shows():
    """A guess that is certain, but claims to have been drawn with p = .30, is kept every time."""
    engine = Engine(table(LOOKUP), liar([0.4, 0.1, 0.3, 0.2]), rule=RULES["tree"], pace=lambda: Fixed(1))
    assert not fits(draws(engine, [1], RANDOM), LOOKUP)


FILTERS = [
    Sampling(temperature=1.5),
    Sampling(temperature=1.0, top_k=2),
    Sampling(temperature=0.7, top_p=0.6),
    Sampling(temperature=1.0, min_p=0.5),
    Sampling(temperature=1.0, bias={0: 1.5, 2: -1.0}),
    Sampling(temperature=1.0, repetition_penalty=1.4),
    Sampling(temperature=1.0, presence_penalty=0.8),
    Sampling(temperature=1.0, frequency_penalty=0.8, penalty_window=2),
]


@pytest.mark.parametrize("rule", CHAINS)
@pytest.mark.parametrize("sampling", FILTERS, ids=range(len(FILTERS)))
def test_08_every_sampling_option_reaches_the_verdict(sampling, rule):
    """Temperature and filters dropped on the speculative path, or the ratio computed at temperature 1.

    sglang PR #31214; rMLX #519; mistral.rs PR #2424; TensorRT-LLM PR #19390; lattice PR #974
    """
    model = lambda: ToyBackend(3, seed=2, order=2, spread=2.0)  # noqa: E731
    plain = law(model, None, sampling=sampling, tokens=3, prompt=[1, 2, 1])
    same_law(law(model, lambda _: Ngram(1, 2), rule, sampling, tokens=3, prompt=[1, 2, 1]), plain)
    if rule != "matching":
        draft = lambda target: ModelDrafter(ToyBackend(3, seed=3, order=1), target)  # noqa: E731
        same_law(law(model, draft, rule, sampling, tokens=3, prompt=[1, 2, 1]), plain)
    without = law(model, None, sampling=RANDOM, tokens=3, prompt=[1, 2, 1])
    assert plain != without, "the option has no effect here, so the test cannot fail"


def test_08_a_flat_target_at_a_high_temperature_writes_every_token():
    """Requests for a temperature above zero that came back greedy. sglang PR #31214"""
    for rule in SAMPLERS:
        engine = Engine(table([1 / 3] * 3), Ngram(1, 2), rule=rule)
        counts = draws(engine, [0], Sampling(temperature=1.5), texts=300, tokens=10)
        assert fits(counts, [1 / 3] * 3)


def test_08_an_option_alone_means_what_it_means_plainly():
    """top_k given and the temperature left out: the speculative path decided otherwise than the plain one.

    TensorRT-LLM PR #19390
    """
    for sampling in (Sampling(top_k=50), Sampling(top_p=0.5), Sampling(min_p=0.1)):
        plain = write(tiny(), [1], sampling=sampling).tokens
        assert write(tiny(), [1], ModelDrafter(tiny(), tiny()), sampling=sampling).tokens == plain


SHARP = [
    ([0.5, 0.5, 0.0], [0.5, 0.5, 0.0]),
    ([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
    ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
    ([0.0, 0.5, 0.5], [1.0, 0.0, 0.0]),
    ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ([1 - 1e-7, 1e-7, 0.0], [1 - 2e-7, 2e-7, 0.0]),
]


@pytest.mark.parametrize("rule", CHAINS)
@pytest.mark.parametrize("sampling", [RANDOM, Sampling(temperature=1e-4), Sampling(temperature=1.0, top_k=1)])
def test_10_what_the_target_still_owes_is_never_empty(sampling, rule):
    """Two equal sharp distributions subtracted leave nothing, then NaN or a crash.

    speculative-sampling #5; MTPLX #82
    """
    for p, q in SHARP:
        for seed in range(20):
            target = table(p)
            drafter = ModelDrafter(table(q), target)
            tokens = write(target, [0], drafter, 3, rule, sampling, limits=12, seed=seed).tokens
            assert len(tokens) == 12
            assert all(p[token] > 0 for token in tokens)


class Witness:
    """Chance that remembers what it was asked to draw from."""

    def __init__(self, chance):
        self._chance, self.asked = chance, []

    def pick(self, dist, at):
        self.asked.append(dist)
        return self._chance.pick(dist, at)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_11_the_reported_q_is_the_one_that_was_drawn_from(temperature):
    """The draw in one precision, the ratio in another. DeepSpec #31, PR #48"""
    backend = ToyBackend(64, seed=1)
    drafter = ModelDrafter(backend, backend)
    sampling = Sampling(temperature=temperature, top_p=0.9)
    for seed in range(50):
        drafter.start(0, [1, 2])
        witness = Witness(Keyed(seed).stream("draft", 0))
        draft = drafter.propose([Scene(0, History([1, 2], 2), Budget(4, 4), sampling, witness)])[0]
        assert all(said is drawn for said, drawn in zip(draft.dists, witness.asked, strict=True))
        again = Keyed(seed).stream("draft", 0)
        assert draft.tokens == tuple(again.pick(q, at=i) for i, q in enumerate(draft.dists))
        drafter.stop(0)


@pytest.mark.parametrize("rule", TREES)
def test_12_several_candidates_keep_the_law(rule):
    """A fresh target draw after each refused candidate. fms-extras #12"""
    plain = law(lambda: table(LOOKUP), None, tokens=2)
    for order in ([0, 1, 2, 3], [3, 1], [2, 2, 0]):
        same_law(law(lambda: table(LOOKUP), lambda _, o=order: siblings(o), rule, tokens=2), plain)
    engine = Engine(table(LOOKUP), siblings([1, 3]), rule=RULES[rule], pace=lambda: Fixed(2))
    assert fits(draws(engine, [0], RANDOM), LOOKUP)


def test_12_negative_control_a_draw_of_its_own_for_each_candidate_shows():
    """Matching with noise that is fresh at every candidate, which the shared draw forbids."""

    class Redrawing:
        name, exact, trees, needs_q, samples, shared = "redrawing", True, True, False, True, False

        def __call__(self, draft, target, chance):
            for node in draft.children(-1):
                if chance.pick(target[-1], at=0) == draft.tokens[node]:
                    return RULES["matching"](draft.cut(0), {-1: Dist.point(draft.tokens[node])}, chance)
            return RULES["matching"](draft.cut(0), target, chance)

    engine = Engine(table(LOOKUP), siblings([1, 3]), rule=Redrawing(), pace=lambda: Fixed(2))
    assert not fits(draws(engine, [0], RANDOM), LOOKUP)
