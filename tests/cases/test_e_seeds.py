"""A seed means one text; no seed means a new one."""

import pytest
from setups import follow, tiny, twin, write

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.verify import RULES
from redline.drafters import Ngram
from redline.engine import Engine, generate, generate_many

HOT = Sampling(temperature=1.0)
RANDOM_RULES = ["matching", "rejection", "tree", "block", "typical"]


@pytest.mark.parametrize("rule", RANDOM_RULES)
@pytest.mark.parametrize("drafting", [False, True])
def test_27_a_seed_decides_the_text_and_different_seeds_differ(rule, drafting):
    """A seed that was ignored, or a text that was the same whatever the seed.

    vllm #6038, #13196; TensorRT-LLM PR #17599
    """

    def text(seed):
        drafter = twin(tiny, tiny()) if drafting else None
        return write(tiny(), [1, 2], drafter, rule=rule, sampling=HOT, seed=seed, limits=12).tokens

    texts = {text(seed) for seed in range(20)}
    assert len(texts) == 20
    assert {text(seed) for seed in range(20)} == texts


def test_27_texts_without_a_seed_differ_and_say_what_repeats_them():
    """Unseeded requests that shared one stream and came out identical. TensorRT-LLM #19487; vllm #9441"""
    engine = Engine(tiny(), Ngram(1, 2))
    serial = [generate(engine, [1, 2], HOT, Limits(16)) for _ in range(20)]
    batched = generate_many(engine, [[1, 2]] * 20, HOT, Limits(16))
    results = [*serial, *batched]
    assert len({result.tokens for result in results}) == len({result.seed for result in results}) == 40
    for result in results:
        assert generate(engine, [1, 2], HOT, Limits(16), result.seed).tokens == result.tokens


@pytest.mark.parametrize("rule", RANDOM_RULES)
def test_27_a_seeded_text_does_not_depend_on_its_neighbours(rule):
    """Seeded and unseeded requests in one batch gave gibberish; earlier calls changed later ones.

    vllm PR #10863
    """
    alone = write(tiny(), [1, 2], twin(tiny, tiny()), rule=rule, sampling=HOT, seed=3).tokens
    engine = Engine(tiny(), twin(tiny, tiny()), rule=RULES[rule], pace=lambda: Fixed(4))
    for _ in range(2):
        keys = [engine.submit([1, 2], HOT, Limits(24), seed) for seed in (None, None, 3, None, 3, 0)]
        text = {key: [] for key in keys}
        for step in follow(engine, keys):
            text[step.key] += step.emitted
        assert tuple(text[keys[2]]) == tuple(text[keys[4]]) == alone
        assert len({tuple(tokens) for tokens in text.values()}) == 5
