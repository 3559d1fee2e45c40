"""At the end of the context, and of the draft model's shorter one."""

import pytest
from setups import Counting, write

from redline.core.errors import ContextError
from redline.core.stop import Limits
from redline.drafters import ModelDrafter

TARGET, DRAFT = 64, 32


@pytest.mark.parametrize("depth", [1, 4, 40])
@pytest.mark.parametrize("length", [1, 29, 30, 31, 32, 33, 34, 59, 60, 61, 62, 63])
def test_40_a_draft_model_with_a_shorter_context_stops_drafting_and_the_text_goes_on(length, depth):
    """Positions past a model's last one: errors, memory out of bounds, crashes.

    vllm #5342, #57941, PR #22935; TensorRT-LLM #16826; lorax #474; vllm-ascend PR #11323; llama.cpp #10547
    """
    prompt = [(5 * i + 1) % 12 for i in range(length)]
    target = lambda: Counting(12, seed=5, context=TARGET)  # noqa: E731
    plain = write(target(), prompt, limits=Limits())
    assert len(plain.tokens) == TARGET - length
    checked, backend = target(), Counting(12, seed=5, context=DRAFT)
    result = write(checked, prompt, ModelDrafter(backend, checked), depth, limits=Limits())
    assert result.tokens == plain.tokens
    assert (result.text, result.finish) == (plain.text, plain.finish)
    assert checked.furthest <= TARGET
    assert backend.furthest <= DRAFT
    for step in result.steps:
        if step.emitted:  # the draft model reads all but the last guess
            room = max(0, DRAFT - step.position + 1)
            assert len(step.proposed) == min(depth, room, TARGET - step.position - 1)


@pytest.mark.parametrize("length", [64, 65, 200])
def test_40_a_prompt_that_fills_the_context_is_refused_in_a_sentence(length):
    """A prompt longer than the context ended in a crash. llama.cpp #10547"""
    target = Counting(12, seed=5, context=TARGET)
    with pytest.raises(ContextError, match=f"The prompt has {length} tokens, and .* has room for 64"):
        write(target, [1] * length)
    assert target.caches == []
