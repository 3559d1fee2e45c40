"""Constraints in the engine: any draft writes what plain decoding writes under the same constraint."""

from dataclasses import replace

import numpy as np
import pytest
from matrix import EXACT, SAMPLINGS

from redline.core.dist import Dist
from redline.core.errors import OptionError
from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.core.verify import RULES
from redline.drafters import ModelDrafter, Ngram, Replay, vocabulary
from redline.drafters.forced import Forced
from redline.engine import Engine, generate, generate_many
from redline.engine.generate import stream
from redline.grammar import after_marker
from redline.testing import Automaton, DrafterContract, ToyBackend, ToyTokenizer

SIZE = 8
PROMPTS = [[1, 2, 3, 1, 2], [4], [5, 5, 5, 5], [0, 7, 3]]


def target(ends=(), **options):
    return ToyBackend(SIZE, tokenizer=ToyTokenizer.letters(SIZE, ends), **{"seed": 3, "order": 2, **options})


def pairs(state):
    """A letter of the first half, then one behind it in the alphabet; 7 is never."""
    return {t: t + 1 for t in range(4)} if state == 0 else dict.fromkeys(range(state, 7), 0)


CONSTRAINTS = {
    "no twins": Automaton.no_twins(SIZE),
    "a word": Automaton.exactly(SIZE, [3, 1, 4, 1, 5, 2, 6]),
    "pairs": Automaton(SIZE, pairs),
    "no twins behind a token": after_marker([2, 3], Automaton.no_twins(SIZE), target()),
    "a word behind a token": after_marker([1], Automaton.exactly(SIZE, [0, 0, 4]), target()),
}


class Always:
    """Guesses the same tokens every time, from what it claims to have drawn them from."""

    name = "always"
    confident = False
    draws = True

    def __init__(self, tokens, law=None):
        self._tokens, self._law = tokens, law

    def propose(self, scenes):
        return [
            Draft.chain(tokens, "always", self._law and [self._law] * len(tokens))
            for scene in scenes
            for tokens in [self._tokens[: scene.budget.depth]]
        ]

    def start(self, key, tokens): ...
    def read(self, key, tokens): ...
    def observe(self, key, emitted, verdict): ...
    def stop(self, key): ...
    def close(self): ...


def drafters(texts):
    return {
        "ngram": Ngram,
        "forced": Forced,
        "self": lambda: ModelDrafter(target(), target()),
        "other": lambda: ModelDrafter(target(seed=4), target()),
        "oracle": lambda: Replay(texts, SIZE),
        "half": lambda: Replay(texts, SIZE, accuracy=0.5),
        "liar": lambda: Replay(texts, SIZE, accuracy=0.0),
        "always illegal": lambda: Always([7, 7, 7, 7, 7, 7]),
        "claims to have drawn": lambda: Always([7, 7, 7, 7, 7, 7], Dist.of(np.ones(SIZE))),
    }


def decode(drafter, rule, sampling, constraint, prompts=PROMPTS, depth=5, limits=24, ends=(), **options):
    engine = Engine(target(ends, **options), drafter, rule=rule, pace=lambda: Fixed(depth), prefill=3)
    limits = Limits(limits) if isinstance(limits, int) else limits
    results = generate_many(engine, prompts, sampling, limits, 11, constraint)
    assert not engine.live
    assert not any(step.fault for result in results for step in result.steps)
    return [result.tokens for result in results]


def plain(sampling, constraint, **options):
    return decode(None, RULES["matching"], sampling, constraint, **options)


def whole(texts):
    return [[*prompt, *tokens] for prompt, tokens in zip(PROMPTS, texts, strict=True)]


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
@pytest.mark.parametrize("drafter", list(drafters([])))
def test_any_draft_writes_what_none_writes(drafter, constraint):
    for sampling in SAMPLINGS.values():
        expected = plain(sampling, constraint)
        make = drafters(whole(expected))[drafter]
        for rollback in ("truncate", "snapshot"):
            assert decode(make(), RULES["matching"], sampling, constraint, rollback=rollback) == expected
        for prompt, tokens in zip(PROMPTS, expected, strict=True):
            assert decode(make(), RULES["matching"], sampling, constraint, [prompt], depth=2) == [tokens]


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_every_exact_rule_at_temperature_zero_is_greedy_decoding(rule, constraint):
    sampling = Sampling(frequency_penalty=0.2)
    expected = plain(sampling, constraint)
    for make in drafters(whole(expected)).values():
        assert decode(make(), rule, sampling, constraint) == expected


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
def test_texts_keep_to_their_constraint_under_any_rule(rule):
    sampling = Sampling() if rule.name == "greedy" else Sampling(temperature=1.3)
    for name in ("no twins", "pairs", "a word"):
        for make in drafters([]).values():
            for tokens in decode(make(), rule, sampling, CONSTRAINTS[name]):
                assert CONSTRAINTS[name].takes(tokens) == len(tokens)


@pytest.mark.parametrize("drafter", ["ngram", "oracle", "other", "always illegal", "claims to have drawn"])
@pytest.mark.parametrize("depth", [1, 3, 8])
def test_endings(drafter, depth):
    constraint = CONSTRAINTS["no twins"]
    for limits in (
        Limits(1),
        Limits(5),
        Limits(30, stop=("ab", "c", "hg")),
        Limits(30, stop_tokens=frozenset({6})),
    ):
        expected = plain(Sampling(), constraint, limits=limits, ends=(0,))
        make = drafters(whole(expected))[drafter]
        found = decode(
            make(), RULES["matching"], Sampling(), constraint, limits=limits, ends=(0,), depth=depth
        )
        assert found == expected


def test_a_token_that_is_not_allowed_costs_no_row():
    engine = Engine(target(), Always([7] * 6), pace=lambda: Fixed(6))
    result = generate(engine, [1], limits=Limits(8), constraint=CONSTRAINTS["pairs"])
    assert result.metrics.proposed == 0
    assert result.metrics.tokens_per_step == 1.0


def test_forced_tokens_take_one_pass():
    engine = Engine(target(), Forced(), pace=lambda: Fixed(9))
    for sampling in SAMPLINGS.values():
        result = generate(engine, [1], sampling, Limits(8), seed=1, constraint=CONSTRAINTS["a word"])
        assert result.tokens[:7] == (3, 1, 4, 1, 5, 2, 6)
        assert (result.metrics.acceptance, result.metrics.steps) == (1.0, 1)


def test_a_constraint_that_begins_inside_a_block_binds_the_guesses_behind_the_marker():
    """Guesses run over the marker: the row behind it must be masked in the same pass."""
    constraint = after_marker([1], Automaton.exactly(SIZE, [2, 5]), target())
    model = ToyBackend(SIZE, order=1, logits=lambda state: np.eye(SIZE)[(state[-1] + 1) % SIZE] * 9)
    engine = Engine(model, Always([1, 2, 3, 4, 5]), pace=lambda: Fixed(5))
    result = generate(engine, [0], limits=Limits(6), constraint=constraint)
    assert result.tokens == generate(Engine(model), [0], limits=Limits(6), constraint=constraint).tokens
    assert result.tokens == (1, 2, 5, 6, 7, 0)
    first = result.steps[0]
    assert (first.proposed, first.accepted, first.emitted) == ((1, 2), 2, (1, 2, 5))


class Recorded:
    """Remembers the way to it."""

    def __init__(self, inner, path=()):
        self.inner, self.path = inner, path

    def allowed(self):
        return self.inner.allowed()

    def takes(self, tokens):
        return self.inner.takes(tokens)

    def forced(self):
        return self.inner.forced()

    def after(self, token):
        return Recorded(self.inner.after(token), (*self.path, token))


@pytest.mark.parametrize("drafter", list(drafters([])))
def test_a_constraint_has_read_the_text_and_nothing_else(drafter):
    constraint = CONSTRAINTS["no twins"]
    texts = whole(plain(Sampling(), constraint))
    engine = Engine(target(), drafters(texts)[drafter](), pace=lambda: Fixed(4))
    start = Recorded(constraint)
    for prompt in PROMPTS:
        engine.submit(prompt, limits=Limits(20), constraint=start)
    while engine.live:
        engine.step()
        for live in engine.live.values():
            assert live.constraint.path == tuple(live.tokens[live.prompt :])
    assert start.path == ()


def test_an_end_token_ends_and_what_was_guessed_behind_it_is_gone():
    """The text is a, b, then the end; the drafter guesses past it, or the end too early."""
    constraint = Automaton(SIZE, lambda state: {0: {0: 1}, 1: {1: 2}, 2: {6: -1}}[state])
    for guess in ([0, 1, 6, 3, 3], [0, 1, 3], [6, 0, 1], [0, 6, 1], [0, 1, 6, 6, 6, 6]):
        for rule in EXACT:
            engine = Engine(target((6,)), Always(guess), rule=rule, pace=lambda: Fixed(6))
            result = generate(engine, [1], limits=Limits(20), constraint=constraint)
            assert (result.tokens, result.text, result.finish) == ((0, 1, 6), "ab", "stop")


def test_a_model_guesses_nothing_where_no_common_token_may_come(monkeypatch):
    monkeypatch.setattr(vocabulary, "COMMON", 4)
    monkeypatch.setattr(vocabulary, "RARE", 64)
    word = Automaton.exactly(SIZE, [1, 6, 2, 3, 7, 7])
    for sampling in (
        Sampling(),
        Sampling(temperature=1.0, bias={0: -np.inf}),
        Sampling(presence_penalty=0.5),
    ):
        engine = Engine(target(), ModelDrafter(target(seed=9), target()), pace=lambda: Fixed(3))
        result = generate(engine, [1], sampling, Limits(9), seed=1, constraint=word)
        assert result.tokens[:6] == (1, 6, 2, 3, 7, 7)
        assert not any(step.fault for step in result.steps)
        assert [step.proposed for step in result.steps[:4]] == [(1,), (2, 3), (), result.steps[3].proposed]


def test_a_model_guesses_nothing_where_a_bias_bans_what_may_come():
    drafter, word = ModelDrafter(target(seed=9), target()), Automaton.exactly(SIZE, [1, 3, 2])
    drafter.start(0, [1])
    scene = replace(DrafterContract().scene(0, [1]), sampling=Sampling(bias={3: -np.inf}), constraint=word)
    for _ in range(2):
        assert drafter.propose([scene])[0].tokens == (1,)


def test_a_constraint_that_leaves_nothing_ends_its_text_alone():
    empty = Automaton(SIZE, lambda state: {0: {1: 1}, 1: {}}[state])
    engine = Engine(target(), Ngram(1, 2), pace=lambda: Fixed(3))
    alone = generate(engine, PROMPTS[0], limits=Limits(12)).tokens
    good, bad = stream(engine, PROMPTS[0], limits=Limits(12)), stream(engine, PROMPTS[1], constraint=empty)
    with pytest.raises(OptionError, match="No token can be chosen"):
        list(bad)
    list(good)
    assert good.result.tokens == alone
    with pytest.raises(OptionError, match="No token can be chosen"):
        generate_many(engine, PROMPTS, constraint=empty)
    assert not engine.live
    assert generate(engine, PROMPTS[0], limits=Limits(12)).tokens == alone


def test_a_mask_of_another_width_is_refused_and_harms_no_other_text():
    engine = Engine(target(), ModelDrafter(target(), target()))
    other = after_marker([1], Automaton.no_twins(SIZE - 1), target())
    keys = [
        engine.submit([1, 0], limits=Limits(40), constraint=c)
        for c in (None, Automaton.no_twins(SIZE + 1), other)
    ]
    faults = {key: engine.live[key] for key in keys}
    ends = {}
    while engine.live:
        ends |= {step.key: step.finish for step in engine.step() if step.finish}
    assert [ends[key] for key in keys] == ["length", "failed", "failed"]
    assert "(9,)" in str(faults[keys[1]].fault)
    assert "8 tokens" in str(faults[keys[1]].fault)


def test_what_is_no_constraint_is_refused():
    with pytest.raises(OptionError, match=r"redline\.grammar"):
        generate(Engine(target()), [1], constraint={"type": "object"})


def test_texts_share_a_constraint_and_streams_take_one():
    engine = Engine(target(), Forced())
    start = CONSTRAINTS["a word"]
    texts = [stream(engine, prompt, limits=Limits(9), constraint=start) for prompt in PROMPTS]
    written = [[piece.token for piece in text] for text in texts]
    assert [tokens[:7] for tokens in written] == [[3, 1, 4, 1, 5, 2, 6]] * len(PROMPTS)
    assert start.state == 0


class TestForced(DrafterContract):
    @pytest.fixture
    def drafter(self):
        return Forced()


class TestForcedUnderAConstraint(DrafterContract):
    @pytest.fixture
    def drafter(self):
        return Forced()

    def scene(self, *args, **more):
        constraint = Automaton.exactly(self.vocab_size, [5, 6, 7, 8, 9])
        return replace(super().scene(*args, **more), constraint=constraint)

    def test_it_guesses_as_far_as_it_may(self, drafter):
        for depth in (1, 4, 9):
            draft = drafter.propose([self.scene(0, [1], depth)])[0]
            assert draft.tokens == (5, 6, 7, 8, 9)[:depth]
            assert set(draft.trust) == {1.0}
