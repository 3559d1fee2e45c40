"""Every drafter keeps the contract."""

import numpy as np
import pytest

from redline.core.dist import Dist
from redline.core.types import Draft
from redline.drafters import ModelDrafter, Ngram, Replay
from redline.testing import DrafterContract, ToyBackend


class TestNgram(DrafterContract):
    @pytest.fixture(params=[(1, 1), (1, 3), (2, 5)])
    def drafter(self, request):
        return Ngram(*request.param)


class TestModel(DrafterContract):
    @pytest.fixture(params=[None, 2])
    def drafter(self, request):
        return ModelDrafter(ToyBackend(order=request.param), ToyBackend(seed=1))


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
