"""Penalties, biases and bans work on every token, guessed or not, and count each token once."""

import numpy as np
import pytest
from setups import Counting, draws, fits, script, silent, table, tiny, twin, write, wrong

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.drafters import ModelDrafter, Ngram
from redline.engine import Engine, live
from redline.testing import ToyBackend

PROMPT = [3, 1, 4, 1, 5]


def looping():
    """Prefers to write 0, 1, 2 for ever, unless something makes it stop."""

    def row(state):
        logits = np.linspace(1.0, 0.9, 12)
        logits[(state[-1] + 1) % 3] += 0.15
        return logits

    return ToyBackend(12, order=1, logits=row)


def everybody(text, depth):
    return [
        twin(looping, looping()),
        wrong(text),
        silent(text, depth),
        Ngram(1, 3),
        *(script(text, rights, depth) for rights in range(depth + 1)),
    ]


PENALTIES = {
    "repetition": Sampling(repetition_penalty=1.5),
    "presence": Sampling(presence_penalty=1.0),
    "frequency": Sampling(frequency_penalty=1.0),
    "mild repetition": Sampling(repetition_penalty=1.3),
    "half a frequency": Sampling(frequency_penalty=0.5),
    "window": Sampling(frequency_penalty=0.7, penalty_window=4),
    "sampled": Sampling(temperature=0.8, presence_penalty=0.5, frequency_penalty=0.5, repetition_penalty=1.2),
}


@pytest.mark.parametrize("depth", [2, 4, 8])
@pytest.mark.parametrize("sampling", PENALTIES.values(), ids=PENALTIES)
def test_21_23_penalties_act_on_guessed_tokens_too(sampling, depth):
    """Penalties without effect on the speculative path, or state polluted by refused guesses.

    mlx-examples #1255; TensorRT-LLM PR #17701; vllm #6718; vmlx-swift #357; mlx-lm #1175; mlx-engine PR #112
    """
    plain = write(looping(), PROMPT, sampling=sampling, limits=40).tokens
    assert plain != write(looping(), PROMPT, limits=40).tokens, "the penalty must matter here"
    for drafter in everybody([*PROMPT, *plain], depth):
        assert write(looping(), PROMPT, drafter, depth, sampling=sampling, limits=40).tokens == plain


@pytest.mark.parametrize("depth", [2, 8, 48])
def test_23_24_every_row_sees_exactly_the_text_before_it(depth, monkeypatch):
    """Tokens counted twice, missed, or only the last of each round.

    vmlx-swift #357; mlx-lm #1175; sglang PR #33643, #28180
    """
    sampling = Sampling(frequency_penalty=0.5, presence_penalty=0.1, repetition_penalty=1.1)
    plain = write(looping(), PROMPT, sampling=sampling, limits=100).tokens
    text = [*PROMPT, *plain]
    seen = []
    true = live.distribution

    def spy(logits, settings, history, allowed):
        seen.append(list(history.tokens))
        assert history.prompt == len(PROMPT)
        return true(logits, settings, history, allowed)

    monkeypatch.setattr(live, "distribution", spy)
    for drafter in [*(script(text, rights, depth) for rights in (0, 1, depth)), twin(looping, looping())]:
        seen.clear()
        assert write(looping(), PROMPT, drafter, depth, sampling=sampling, limits=100).tokens == plain
        assert seen == [text[:at] for at in range(len(PROMPT), len(text))]


def test_22_a_bias_or_a_ban_holds_at_every_position():
    """Only the bonus token saw the logit bias. vllm #42744, #38202, PR #42802"""
    plain = write(tiny(), PROMPT, limits=40).tokens
    for token in range(12):
        only = Sampling(bias={token: 100.0})
        result = write(tiny(), PROMPT, twin(tiny, tiny()), sampling=only, limits=40)
        assert set(result.tokens) == {token}
        assert result.metrics.acceptance == 1.0
    for ban in (-100.0, -np.inf):
        banned = Sampling(bias=dict.fromkeys(set(plain[:6]), ban))
        expected = write(tiny(), PROMPT, sampling=banned, limits=40).tokens
        for drafter in (twin(tiny, tiny()), script([*PROMPT, *plain], 4, 4), Ngram(1, 2)):
            result = write(tiny(), PROMPT, drafter, sampling=banned, limits=40).tokens
            assert not set(result) & set(plain[:6])
            assert result == expected


MIN_P = [0.5, 0.3, 0.15, 0.05]
FILTERED = [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0.0]


def test_22_min_p_holds_at_guessed_positions():
    """Filters thought not to change the argmax were skipped while verifying. vllm #42744"""
    sampling = Sampling(temperature=1.0, min_p=0.2)
    engine = Engine(table(MIN_P), ModelDrafter(table(MIN_P), table(MIN_P)), pace=lambda: Fixed(4))
    counts = draws(engine, [0], sampling)
    assert fits(counts, FILTERED)


def test_22_negative_control_without_min_p_the_fourth_token_appears():
    """The frequencies above can fail."""
    assert not fits(draws(Engine(table(MIN_P)), [0], Sampling(temperature=1.0)), FILTERED)


def test_26_a_banned_token_behind_a_repetition_is_never_written():
    """Lookup copied ids from the prompt that must never be generated. transformers PR #40726"""
    banned = 9
    prompt = [1, 2, banned, 4, 1, 2]
    sampling = Sampling(bias={banned: -np.inf})
    for temperature in (0.0, 1.0):
        how = Sampling(temperature=temperature, bias=sampling.bias)
        plain = write(tiny(), prompt, sampling=how, limits=60).tokens
        target = Counting(12, seed=5)
        result = write(target, prompt, Ngram(1, 3), sampling=how, limits=60)
        assert result.tokens == plain
        assert banned not in result.tokens
        assert any(banned in step.proposed for step in result.steps), "it must have been guessed"
