"""Greedy text is plain greedy text."""

import numpy as np
import pytest
from setups import EXACT, always, script, siblings, silent, tiny, twin, write, wrong

from redline.core.sampling import Sampling
from redline.drafters import Ngram
from redline.testing import ToyBackend

PROMPTS = [[3], [3, 1], [3, 1, 4], [(7 * i) % 12 for i in range(520)]]


@pytest.mark.parametrize("depth", [1, 2, 5, 20])
@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: f"{len(prompt)} tokens")
def test_01_a_prompt_of_any_length_goes_on_as_plain_decoding_does(prompt, depth):
    """Positions advanced wrongly after a round, seen with one-token prompts.

    transformers #30042, #30413
    """
    expected = write(tiny(), prompt, limits=30).tokens
    text = [*prompt, *expected]
    drafters = [wrong(text), silent(text, depth), Ngram(1, 3), twin(tiny, tiny())]
    drafters += [script(text, rights, depth) for rights in {0, 1, depth // 2, depth - 1, depth}]
    for drafter in drafters:
        assert write(tiny(), prompt, drafter, depth, limits=30).tokens == expected


def coarse():
    """Only three different logits, so that nearly every row has its maximum several times."""
    rng = np.random.default_rng(0).integers(0, 3, (12, 12, 12)).astype(float)
    return ToyBackend(12, order=2, logits=lambda state: rng[state[0], state[-1]])


def test_02_a_tie_goes_to_the_lowest_id_on_every_path():
    """Equal logits resolved one way by a pass over many rows and another way by a pass over one.

    vllm #7627; mlx-lm #1470, #1423; EAGLE #212, #75; TensorRT-LLM #2208
    """
    level = ToyBackend(6, order=1, logits=lambda state: np.array([0.0, 2.0, 1.0, 2.0, 2.0, 0.0]))
    for rule in EXACT:
        trees = [siblings([4, 3, 1]), siblings([3, 4])] if rule.trees else []
        for drafter in [None, always(1), always(3), always(4), *trees]:
            assert set(write(level, [0], drafter, 3, rule.name).tokens) == {1}


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_02_rows_full_of_ties_never_make_texts_drift(depth):
    """Long greedy texts that drift from plain ones, and with the draft length.

    vllm #7627; EAGLE #212; vllm-rbln #630
    """
    for first in range(12):
        prompt = [first, (first * 5) % 12]
        expected = write(coarse(), prompt, limits=200).tokens
        for drafter in (twin(coarse, coarse()), script([*prompt, *expected], depth // 2, depth), Ngram(1, 4)):
            assert write(coarse(), prompt, drafter, depth, limits=200).tokens == expected


@pytest.mark.parametrize("tokens", [4, 64])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_03_the_simplest_configuration_works(tokens, temperature):
    """Garbage, or an end after one token, with the same model as target and draft.

    vllm #8071; llama.cpp #10174; text-generation-inference #2997
    """
    sampling = Sampling(temperature=temperature)
    expected = write(tiny(), [1, 2], sampling=sampling, limits=tokens)
    assert len(expected.tokens) == tokens
    assert expected.finish == "length"
    drafted = write(tiny(), [1, 2], twin(tiny, tiny()), sampling=sampling, limits=tokens)
    assert drafted.tokens == expected.tokens
    assert drafted.text == expected.text
    assert drafted.metrics.acceptance == 1.0
    for prompt in ([1, 2, 3, 1, 2], [5, 5, 5, 5]):
        plain = write(tiny(), prompt, sampling=sampling, limits=tokens).tokens
        assert write(tiny(), prompt, Ngram(), sampling=sampling, limits=tokens).tokens == plain


GREEDY = [
    Sampling(),
    Sampling(temperature=0),
    Sampling(temperature=0.0, top_p=0.9),
    Sampling(temperature=0.0, top_k=5, min_p=0.5),
    Sampling(temperature=1.0, top_k=1),
]


@pytest.mark.parametrize("model", [tiny, coarse])
def test_04_temperature_zero_is_never_random(model):
    """Greediness decided by the presence of a sampler, or approximated by a tiny temperature.

    omlx #1330; FreeToken #471
    """
    expected = write(model(), [4, 2], limits=40).tokens
    for sampling in GREEDY:
        for seed in (*range(9), None):
            for drafter in (None, twin(model, model())):
                result = write(model(), [4, 2], drafter, sampling=sampling, limits=40, seed=seed)
                assert result.tokens == expected


def test_04_negative_control_a_temperature_above_zero_is_random():
    """The comparison above can tell a random text from a greedy one."""
    almost = Sampling(temperature=1e-6)  # ties become coin flips
    assert write(coarse(), [4, 2], sampling=almost).tokens != write(coarse(), [4, 2]).tokens
