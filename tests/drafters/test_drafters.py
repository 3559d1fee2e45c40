"""Every drafter keeps the contract."""

import pytest

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


class TestReplay(DrafterContract):
    @pytest.fixture(params=[1.0, 0.5, 0.0])
    def drafter(self, request):
        return Replay([self.text(60)], self.vocab_size, request.param)
