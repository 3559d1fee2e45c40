"""Eight prompts at once under llama.cpp write what each writes alone."""

import pytest
from tiny_gguf import save

from redline.backends import llamacpp
from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.drafters import Ngram
from redline.engine import Engine

PROMPTS = [
    "The capital of France is",
    "def add(a, b):\n    return",
    "1, 2, 3, 4, 1, 2, 3,",
    "Once upon a time there was a",
    "x = 1\ny = 2\nz = x + y\nprint(",
    "Der Hund läuft über die",
    '{"name": "Ada", "age":',
    "a",
]


def texts(backend, prompts, drafter, sampling, limits, together):
    """What comes out, prompts submitted at once or one after the other."""
    engine = Engine(backend, drafter and drafter(), pace=lambda: Fixed(4), keep=0)
    written = {}
    groups = [prompts] if together else [[prompt] for prompt in prompts]
    for first, group in enumerate(groups):
        keys = [engine.submit(prompt, sampling, limits, seed=first + i) for i, prompt in enumerate(group)]
        for key in keys:
            written[key] = []
        while engine.live:
            for step in engine.step():
                written[step.key] += step.emitted
    engine.close()
    return list(written.values())


def check(backend, drafter, sampling, tokens):
    prompts = [backend.tokenizer.encode(prompt) for prompt in PROMPTS]
    limits = Limits(tokens, stop_tokens=frozenset())
    alone = texts(backend, prompts, drafter, sampling, limits, together=False)
    assert [len(text) for text in alone] == [tokens] * 8
    assert texts(backend, prompts, drafter, sampling, limits, together=True) == alone


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.9)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("drafter", [None, Ngram], ids=["plain", "ngram"])
class TestEight:
    @pytest.mark.parametrize("shape", ["llama", "recurrent", "hybrid", "mixed window"])
    def test_tiny(self, tmp_path, shape, drafter, sampling):
        backend = llamacpp.load(save(shape, tmp_path / "tiny.gguf"), threads=1)
        check(backend, drafter, sampling, 30)
        backend.close()

    @pytest.mark.model
    def test_smollm2(self, smollm2_llamacpp, drafter, sampling):
        check(smollm2_llamacpp, drafter, sampling, 12)


@pytest.fixture(scope="module")
def smollm2_llamacpp(smollm2_path):
    backend = llamacpp.load(smollm2_path, threads=1)  # on a busy machine, threads wait for each other
    yield backend
    backend.close()
