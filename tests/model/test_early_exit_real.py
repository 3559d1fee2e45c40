"""The real model drafts for itself and writes what it writes alone."""

import pytest

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.drafters.early_exit import EarlyExit
from redline.engine import Engine, generate_many

pytestmark = pytest.mark.model

WARM = Sampling(temperature=0.8, top_p=0.9)
PROMPTS = ["Once upon a time", "def add(a, b):\n    return", "1, 2, 3, 4, 5, 6, 7,"]


@pytest.mark.parametrize("model", ["smollm2", "smollm2_in_floats"])
@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0.8, top_p=0.9)], ids=["greedy", "warm"]
)
def test_it_writes_what_plain_decoding_writes(model, sampling, request):
    target = request.getfixturevalue(model)
    plain = [r.tokens for r in generate_many(Engine(target), PROMPTS, sampling, Limits(16), seed=7)]
    for layers in (1, 15, 24, 29):
        engine = Engine(target, EarlyExit(target, layers), pace=lambda: Fixed(4))
        found = generate_many(engine, PROMPTS, sampling, Limits(16), seed=7)
        assert [r.tokens for r in found] == plain
        assert not any(step.fault for r in found for step in r.steps)
