"""The whole engine under a constraint: the law of the text is that of plain decoding under the same one."""

import numpy as np
import pytest
from proof import CAUGHT, EXACT, WAYS, distance
from test_whole_engine import (
    EXACT_RULES,
    LIMITS,
    NO_END,
    PAIR,
    SETTINGS,
    WARM,
    emitted,
    engine_error,
    plain,
    rules,
    target,
)

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.verify import Block, Greedy, Matching, Rejection
from redline.drafters import ModelDrafter, model, vocabulary
from redline.drafters import guard as guard_module
from redline.drafters.forced import Forced
from redline.engine import live as live_module
from redline.grammar import after_marker
from redline.testing import Automaton, ToyBackend, ToyTokenizer

CONSTRAINTS = {
    "no token twice": Automaton.no_twins(3),
    "abca": Automaton.exactly(3, [0, 1, 2, 0]),
    "two by two": Automaton(3, lambda state: {0: 1, 1: 1} if state == 0 else {1: 0, 2: 0}),
    "no token twice behind b": after_marker([1], Automaton.no_twins(3), target()),
    "ab or ac behind b": after_marker(
        [1], Automaton(3, lambda state: {0: 1} if state == 0 else {1: 1, 2: 1}), target(), free_after=True
    ),
}
constraints = pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)


@rules(EXACT_RULES)
@constraints
@pytest.mark.parametrize("settings", ["nothing on", "filters", "all penalties in a window", "bias"])
def test_chains(rule, constraint, settings):
    for way in ("with replacement", "top"):
        error = engine_error((-1, 0), way, rule, SETTINGS[settings], LIMITS["a limit"], constraint=constraint)
        assert error < EXACT


@rules(EXACT_RULES)
@constraints
@pytest.mark.parametrize("limits", LIMITS)
def test_endings(rule, constraint, limits):
    assert (
        engine_error((-1, 0), "with replacement", rule, WARM, LIMITS[limits], constraint=constraint) < EXACT
    )


@rules([rule for rule in EXACT_RULES if rule.trees])
@constraints
@pytest.mark.parametrize("way", WAYS)
def test_trees(rule, constraint, way):
    for parents, limits in ((PAIR, "a limit"), ((-1, 0, 0), "the model's own end")):
        assert engine_error(parents, way, rule, WARM, LIMITS[limits], constraint=constraint) < EXACT


@rules([Greedy(), *EXACT_RULES])
@constraints
def test_temperature_zero(rule, constraint):
    cold = Sampling(frequency_penalty=0.9)
    parents = PAIR if rule.trees else (-1, 0)
    for way in ("with replacement", "top"):
        for limits in LIMITS.values():
            assert engine_error(parents, way, rule, cold, limits, constraint=constraint) < EXACT


@rules(EXACT_RULES)
@constraints
@pytest.mark.parametrize("settings", ["nothing on", "all penalties in a window"])
@pytest.mark.parametrize("common", [3, 2])
def test_a_model_that_drafts_within_the_constraint(monkeypatch, rule, constraint, settings, common):
    """With two common tokens, the constraint sometimes leaves none to guess from."""
    monkeypatch.setattr(vocabulary, "COMMON", common)
    monkeypatch.setattr(vocabulary, "RARE", 64)
    small = ToyBackend(3, seed=7, spread=3.0, tokenizer=ToyTokenizer.letters(3, ends=[]))
    limits, lengths = Limits(max_tokens=3, stop_tokens=NO_END), set()
    drafter, sampling = ModelDrafter(small, target()), SETTINGS[settings]
    law = emitted(drafter, rule, sampling, limits, Fixed(2), lengths, constraint=constraint)
    assert distance(law, plain(sampling, limits, constraint=constraint)) < EXACT
    assert max(lengths) == 2


@rules(EXACT_RULES)
@constraints
def test_forced(rule, constraint):
    limits, lengths = Limits(max_tokens=4, stop_tokens=NO_END), set()
    law = emitted(Forced(), rule, WARM, limits, Fixed(3), lengths, constraint=constraint)
    assert distance(law, plain(WARM, limits, constraint=constraint)) < EXACT


# --- engines with one fault -------------------------------------------------------------------------

TWINS, WORD = CONSTRAINTS["no token twice"], CONSTRAINTS["two by two"]


def caught(rule, constraint, way="with replacement", parents=(-1, 0)):
    return engine_error(parents, way, rule, WARM, LIMITS["a limit"], constraint=constraint) > CAUGHT


@pytest.mark.parametrize("rule", [Rejection(), Block()], ids=lambda rule: rule.name)
def test_dropping_a_drawn_guess_that_is_not_allowed_is_caught(monkeypatch, rule):
    real = guard_module.prune
    monkeypatch.setattr(
        guard_module, "prune", lambda draft, constraint, drawn: real(draft, constraint, False)
    )
    assert caught(rule, TWINS)


def test_one_mask_for_the_whole_block_is_caught(monkeypatch):
    monkeypatch.setattr(live_module.Rows, "_state", lambda self, node: self._states[-1])
    assert caught(Matching(), WORD)


def test_no_mask_behind_the_first_row_is_caught(monkeypatch):
    monkeypatch.setattr(live_module.Rows, "_state", lambda self, node: self._states.get(node))
    assert caught(Matching(), TWINS)


def test_a_text_whose_state_moves_by_its_last_token_only_is_caught(monkeypatch):
    real = live_module.Live.add

    def add(self, emitted):
        before = self.constraint
        real(self, emitted)
        self.constraint = before.after(emitted[-1])

    monkeypatch.setattr(live_module.Live, "add", add)
    assert caught(Matching(), WORD, "top")


def test_a_model_that_draws_within_the_constraint_and_says_otherwise_is_caught(monkeypatch):
    real = model.distribution

    class Says:
        """Draws as it should, and tells the law without the mask."""

        def __init__(self, logits, sampling, history, mask):
            self.true = real(logits, sampling, history, mask)
            self.told = real(logits, sampling, history, None)

    def draw(self, guess, logits):
        said = Says(logits, guess.sampling, guess.scene.history, guess.constraint.allowed())
        token = guess.scene.chance.pick(said.true, at=len(guess.tokens))
        guess.tokens.append(token)
        guess.dists.append(said.told)
        guess.constraint = guess.constraint.after(token)

    monkeypatch.setattr(ModelDrafter, "_draw", draw)
    small = ToyBackend(3, seed=7, spread=3.0, tokenizer=ToyTokenizer.letters(3, ends=[]))
    drafter, limits = ModelDrafter(small, target()), LIMITS["a limit"]
    law = emitted(drafter, Rejection(), WARM, limits, Fixed(2), constraint=TWINS)
    assert distance(law, plain(WARM, limits, constraint=TWINS)) > CAUGHT


def test_the_constraints_leave_texts_that_differ():
    laws = [plain(WARM, LIMITS["a limit"], constraint=constraint) for constraint in CONSTRAINTS.values()]
    supports = [frozenset(law) for law in laws]
    assert len(set(supports)) == len(supports)
    assert all(np.isclose(sum(law.values()), 1) for law in laws)
