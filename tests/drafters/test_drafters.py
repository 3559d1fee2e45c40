"""Every drafter keeps the contract."""

from dataclasses import replace

import numpy as np
import pytest

from redline.core.dist import Dist
from redline.core.pace import Confidence
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.core.verify import RULES
from redline.drafters import ModelDrafter, Ngram, Replay, model
from redline.drafters.ngram import Index
from redline.engine import Engine, generate_many
from redline.testing import DrafterContract, ToyBackend, ToyTokenizer


class TestNgram(DrafterContract):
    @pytest.fixture(params=[(1, 1), (1, 3), (2, 5)])
    def drafter(self, request):
        return Ngram(*request.param)


class TestModel(DrafterContract):
    @pytest.fixture(params=[None, 2])
    def drafter(self, request):
        return ModelDrafter(ToyBackend(order=request.param), ToyBackend(seed=1))


def drafted(monkeypatch, ahead, rule="matching", sampling=None, batch=1, row_invariant=True):
    """The steps of texts that repeat themselves, and the rows of every pass of the draft model."""
    monkeypatch.setattr(model, "AHEAD", ahead)
    tokenizer = ToyTokenizer.letters(12, ends=[])
    target, small = (ToyBackend(12, seed=3, order=2, spread=9.0, tokenizer=tokenizer) for _ in range(2))
    small.traits = replace(small.traits, row_invariant=row_invariant)
    engine = Engine(target, ModelDrafter(small, target), rule=RULES[rule], pace=lambda: Confidence(9, 0.2))
    limits, sampling = Limits(60), sampling or Sampling()
    prompts = [[1, 2, 3 + text] for text in range(batch)]
    results = generate_many(engine, prompts, sampling, limits, seed=5)
    steps = [[(step.emitted, step.proposed) for step in result.steps] for result in results]
    return steps, small.passes


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("rule", ["matching", "rejection", "block", "tree"])
def test_reading_ahead_changes_passes_and_no_guess(monkeypatch, batch, rule, temperature):
    ways = [drafted(monkeypatch, n, rule, Sampling(temperature=temperature), batch) for n in range(5)]
    assert all(steps == ways[0][0] for steps, _ in ways)
    passes = [len(rows) for _, rows in ways]
    assert passes == sorted(passes, reverse=True)
    assert passes[4] < passes[0]


def test_rows_that_depend_on_their_pass_are_read_one_by_one(monkeypatch):
    assert drafted(monkeypatch, 4, row_invariant=False) == drafted(monkeypatch, 0, row_invariant=False)


def test_a_copy_goes_on_as_if_its_tokens_were_text():
    rng = np.random.default_rng(0)
    for _ in range(300):
        text = rng.integers(0, 3, rng.integers(1, 20)).tolist()
        after = rng.integers(0, 3, rng.integers(0, 4)).tolist()
        known, whole = Index(1, 3), Index(1, 3)
        known.read(text)
        whole.read([*text, *after])
        copied, last = known.copy(6, after), [*text, *after]
        sizes = [n for n in (3, 2, 1) if n <= len(last)]
        found = [(n, at) for n in sizes for at in range(n, len(text)) if last[at - n : at] == last[-n:]]
        if not after:
            assert copied == whole.copy(6)
        if not found:
            assert copied == []
            continue
        longest = max(n for n, _ in found)
        at = max(at for n, at in found if n == longest)
        for _ in range(6):
            last.append(last[at])
            at += 1
        assert copied == last[-6:]


class Liar(Ngram):
    """Guesses one token for certain and says it drew it from all of them."""

    def propose(self, scenes):
        law = Dist.of(np.ones(16))
        return [Draft.chain([1], "liar", [law]) for _ in scenes]


def test_the_contract_finds_a_drafter_that_lies_about_its_draws():
    with pytest.raises(AssertionError):
        DrafterContract().test_guesses_were_drawn_from_what_is_said(Liar())


class TestReplay(DrafterContract):
    @pytest.fixture(params=[1.0, 0.5, 0.0])
    def drafter(self, request):
        return Replay([self.text(60)], self.vocab_size, request.param)
