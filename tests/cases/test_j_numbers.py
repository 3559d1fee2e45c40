"""Acceptance and usage say what happened."""

import pytest
from setups import script, tiny, twin, write, wrong

from redline.core.metrics import fold
from redline.core.stop import Limits
from redline.drafters import Ngram

PROMPT = [3, 1, 4]


def consistent(result, tokens):
    """What holds of every run."""
    metrics, steps = result.metrics, [step for step in result.steps if step.emitted]
    assert metrics.tokens == len(result.tokens) == tokens
    assert metrics.acceptance is None or 0 <= metrics.acceptance <= 1
    assert all(0 <= rate <= 1 for rate in metrics.acceptance_at)
    assert all(step.accepted <= step.depth and step.accepted <= len(step.emitted) for step in steps)
    assert all(step.proposed[: step.accepted] == step.emitted[: step.accepted] for step in steps)
    truncated = steps[-1].accepted == len(steps[-1].emitted)
    assert metrics.accepted + metrics.steps - truncated == tokens


@pytest.mark.parametrize("rights", [0, 1, 2, 3, 4])
def test_42_the_acceptance_of_a_known_drafter_is_exact(rights):
    """Rates above 1, always 100 %, or summed past the first refusal.

    sglang PR #11572, PR #13212; llama.cpp PR #14104, PR #22506; vllm PR #2658
    """
    depth = 4
    tokens = (rights + 1) * 12
    plain = write(tiny(), PROMPT, limits=tokens + 20).tokens
    drafter = script([*PROMPT, *plain], rights, depth)
    result = write(tiny(), PROMPT, drafter, depth, limits=tokens + 20)
    steps = [step for step in result.steps if len(step.proposed) == depth][:12]
    assert [step.accepted for step in steps] == [rights] * 12
    metrics = fold(steps)
    assert metrics.acceptance == rights / depth
    assert metrics.tokens_per_step == rights + 1
    assert metrics.acceptance_at == ((1.0,) * rights + (0.0,) * (depth > rights))
    consistent(result, tokens + 20)


def test_42_the_extremes_are_one_zero_and_undefined():
    """Always 100 %, or a division by zero without drafts. llama.cpp PR #22506; vllm PR #24322"""
    plain = write(tiny(), PROMPT)
    assert (plain.metrics.acceptance, plain.metrics.acceptance_at) == (None, ())
    assert plain.metrics.tokens_per_step == 1.0
    assert write(tiny(), PROMPT, twin(tiny, tiny())).metrics.acceptance == 1.0
    assert write(tiny(), PROMPT, wrong([*PROMPT, *plain.tokens])).metrics.acceptance == 0.0
    nothing = write(tiny(), PROMPT, limits=0).metrics
    assert (nothing.acceptance, nothing.tokens_per_step, nothing.tokens_per_s) == (None, 0.0, 0.0)
    consistent(plain, 24)


@pytest.mark.parametrize("at", range(0, 24, 2))
def test_42_guesses_behind_the_end_do_not_count(at):
    """Drafts after the end token were counted. vllm #56101"""
    plain = write(tiny(), PROMPT).tokens
    end = plain.index(plain[at])
    limits = Limits(24, stop_tokens=frozenset({plain[at]}))
    for depth in (1, 3, 8, 30):
        for drafter in (twin(tiny, tiny()), script([*PROMPT, *plain], depth, depth)):
            result = write(tiny(), PROMPT, drafter, depth, limits=limits)
            consistent(result, end + 1)
            assert result.metrics.acceptance in (None, 1.0)
            assert result.metrics.proposed <= end + 1
        consistent(write(tiny(), PROMPT, Ngram(1, 2), depth, limits=limits), end + 1)


def test_42_figures_are_pooled_and_never_a_mean_of_ratios():
    """One bad short text weighed as much as a long good one. slime PR #2240"""
    plain = write(tiny(), PROMPT, limits=40).tokens
    good = write(tiny(), PROMPT, twin(tiny, tiny()), 4, limits=40)
    bad = write(tiny(), PROMPT, wrong([*PROMPT, *plain]), 4, limits=4)
    both = fold([*good.steps, *bad.steps])
    assert (both.proposed, both.accepted) == (32 + 6, 32)
    assert both.acceptance == 32 / 38
    assert both.tokens_per_step == 44 / 12
