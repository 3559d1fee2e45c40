"""Whatever a drafter does, the texts are the target's, and what it did is on record."""

import logging

import pytest

from redline.core.dist import Dist
from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.core.verify import RULES
from redline.drafters import Compose, Ngram, Replay, Suffix
from redline.engine import Engine, generate, generate_many
from redline.testing import ToyBackend

PROMPTS = [[1, 2, 3, 1, 2], [4], [5, 6] * 5]
HOT = Sampling(temperature=1.0)


def target():
    return ToyBackend(16, order=3)


def plain(sampling=None):
    return [r.tokens for r in generate_many(Engine(target()), PROMPTS, sampling, Limits(20), seed=3)]


def run(drafter, sampling=None, rule="matching"):
    engine = Engine(target(), drafter, rule=RULES[rule], pace=lambda: Fixed(3, nodes=6))
    return generate_many(engine, PROMPTS, sampling, Limits(20), seed=3)


class Fails(Ngram):
    """Fails in one method at its n-th call."""

    name = "fails"

    def __init__(self, method, at=0):
        super().__init__(1, 3)
        true = getattr(self, method)

        def fail(*args):
            nonlocal at
            at -= 1
            if at < 0:
                raise ZeroDivisionError("the drafter divides")
            return true(*args)

        setattr(self, method, fail)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("method", ["start", "read", "propose", "observe", "stop"])
def test_an_error_costs_guesses_and_nothing_else(method, at, caplog):
    results = run(Fails(method, at))
    assert [result.tokens for result in results] == plain()
    assert "The drafter fails failed and is asked no more in this text: ZeroDivisionError" in caplog.text
    if method != "stop":
        faulty = [next((s for s in r.steps if s.fault), None) for r in results]
        assert any(faulty)
        for result, first in zip(results, faulty, strict=True):
            if first:
                after = result.steps[result.steps.index(first) + 1 :]
                assert all(step.fault == first.fault and not step.proposed for step in after)


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize("error", [Unspeakable(), SystemExit(3)])
@pytest.mark.parametrize("mix", [False, True])
def test_neither_an_error_without_words_nor_an_exit_ends_the_program(error, mix):
    class Leaves(Ngram):
        name = "leaves"

        def propose(self, scenes):
            raise error

    results = run(Compose([Leaves(), Suffix()], "merge") if mix else Leaves())
    assert [result.tokens for result in results] == plain()
    assert all(type(error).__name__ in result.steps[-1].fault for result in results)


def test_one_that_fails_as_it_closes_keeps_no_other_open():
    closed = []

    class Closes(Ngram):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def close(self):
            closed.append(self.name)
            raise OSError(self.name)

    engine = Engine(target(), owned=[Compose([Closes("a"), Closes("b")]), Closes("c")])
    with pytest.raises(OSError, match="a"):
        engine.close()
    assert sorted(closed) == ["a", "b", "c"]
    engine.close()


def test_one_text_does_not_take_the_guesses_of_the_others():
    class Poisoned(Ngram):
        """Cannot read one of the texts, as a draft model that does not know a token."""

        def propose(self, scenes):
            if any(scene.history.tokens[0] == 4 for scene in scenes):
                raise ValueError("a four")
            return super().propose(scenes)

    results, healthy = run(Poisoned(1, 3)), run(Ngram(1, 3))
    assert [result.tokens for result in results] == plain()
    assert [bool(result.steps[-1].fault) for result in results] == [False, True, False]
    for i in (0, 2):
        assert results[i].metrics.proposed == healthy[i].metrics.proposed > 0


@pytest.mark.parametrize("made", [0, 5])
def test_a_wrong_number_of_drafts(made):
    class Counts(Ngram):
        def propose(self, scenes):
            return [Draft.empty()] * made

    results = run(Counts())
    assert [result.tokens for result in results] == plain()
    assert all("drafts for 1 texts" in result.steps[-1].fault for result in results)


def test_a_traceback_is_shown_to_who_asks(caplog):
    caplog.set_level(logging.DEBUG, "redline")
    run(Fails("propose"))
    assert "Traceback" in caplog.text


class Malicious(Ngram):
    """Tries everything that a drafter must not do."""

    def __init__(self):
        super().__init__()
        self.turn = 0

    def propose(self, scenes):
        self.turn += 1
        for scene in scenes:
            for act in (
                lambda h: h.tokens.append(0),
                lambda h: h.tokens.__setitem__(0, 0),
                lambda h: h.tokens[:].clear(),
                lambda h: setattr(h, "tokens", []),
            ):
                try:
                    act(scene.history)
                except (AttributeError, TypeError):
                    continue
            if self.turn % 2:
                scene.chance.pick(Dist.of([1.0, 1.0]), 0)
        token = self.turn % 16
        return [Draft.chain([token] * scene.budget.depth, "malicious") for scene in scenes]

    def start(self, key, tokens):
        self.read(key, tokens)

    def read(self, key, tokens):
        if hasattr(tokens, "clear"):
            tokens.clear()

    def observe(self, key, emitted, verdict):
        if hasattr(emitted, "clear"):
            emitted.clear()


@pytest.mark.parametrize("sampling", [Sampling(), HOT], ids=["greedy", "sampled"])
def test_no_drafter_can_change_a_text(sampling):
    results = run(Malicious(), sampling)
    assert [result.tokens for result in results] == plain(sampling)
    assert not any(step.fault for result in results for step in result.steps)


def test_seconds_are_those_of_who_was_asked():
    result = generate(Engine(target(), Replay([[1] * 40], 16)), [1, 1], limits=Limits(9))
    for step in result.steps[:-1]:
        assert step.spent.keys() <= {"replay"}
        assert sum(step.spent.values()) <= step.draft_s
    assert result.metrics.sources["replay"].seconds > 0
