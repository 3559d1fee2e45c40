"""Speculation on models of the transformers library writes what the library itself writes greedily."""

import numpy as np
import pytest
import torch
from odd_models import ODD, make_odd
from tiny_models import make_reference, save_folder

from redline.backends import transformers as backend_of
from redline.core.dist import Dist
from redline.core.errors import ContextError, OptionError
from redline.core.pace import Fixed
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.drafters import ModelDrafter, Ngram, Replay
from redline.engine import Engine, generate, generate_many

TOKENS = 40
DEPTH = 5
VOCAB = 288
PROMPTS = {n: np.random.default_rng(n).integers(0, 256, n).tolist() for n in (2, 4, 7, 8, 9, 13, 20, 31)}
"""Eight lengths, around a window of 8."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Shape's name → a model, its backend, and the backend's name for tests of refusals."""
    known = {}

    def get(shape):
        if shape not in known:
            model = make_odd(shape) if shape in ODD else make_reference(shape)
            model.generation_config.eos_token_id = model.generation_config.bos_token_id = None
            folder = save_folder(model, tmp_path_factory.mktemp("tiny") / shape.replace(" ", "-"))
            known[shape] = model, backend_of.load(folder)
        return known[shape]

    return get


@pytest.fixture(scope="module")
def expected(made):
    """What transformers' own `generate` makes of every prompt, greedily."""
    known = {}

    def get(shape):
        if shape not in known:
            model = made(shape)[0]
            known[shape] = {}
            for n, prompt in PROMPTS.items():
                inputs = torch.tensor([prompt])
                text = model.generate(
                    inputs,
                    attention_mask=torch.ones_like(inputs),
                    max_new_tokens=TOKENS,
                    do_sample=False,
                    pad_token_id=0,
                )
                known[shape][n] = tuple(text[0, n:].tolist())
        return known[shape]

    return get


def write(backend, drafter, prompts=PROMPTS, depth=DEPTH, limits=TOKENS):
    """All prompts in one batch; length → tokens."""
    engine = Engine(backend, drafter, pace=lambda: Fixed(depth), prefill=6)
    results = generate_many(engine, list(prompts.values()), limits=Limits(limits), seed=0)
    engine.close()
    return dict(zip(prompts, (result.tokens for result in results), strict=True))


SPECULATIVE = ("llama", "qwen2", "sliding", "mixed windows", "soft caps", "absolute", "alibi")


@pytest.mark.parametrize("shape", [*SPECULATIVE, "recurrent", "convolution"])
def test_plain_decoding_is_the_librarys_own_in_a_batch_and_alone(shape, made, expected):
    """Ragged rows of one batch: each is its own solo run, token for token."""
    backend = made(shape)[1]
    assert write(backend, None) == expected(shape)
    for n, prompt in PROMPTS.items():
        assert write(backend, None, {n: prompt})[n] == expected(shape)[n]


@pytest.mark.parametrize("drafter", ["right", "wrong", "half", "ragged", "ngram"])
@pytest.mark.parametrize("shape", SPECULATIVE)
def test_34_and_37_drafts_change_nothing_before_at_and_past_the_window(shape, drafter, made, expected):
    """A cache of windows was cut at the wrong place; rows of a batch that keep different numbers of guesses.

    transformers PR #48280, #32165; mlx-swift-lm #505
    """
    texts = [[*PROMPTS[n], *tokens] for n, tokens in expected(shape).items()]
    guess = {
        "right": lambda: Replay(texts, VOCAB),
        "wrong": lambda: Replay(texts, VOCAB, accuracy=0.0),
        "half": lambda: Replay(texts, VOCAB, accuracy=0.5),
        "ragged": lambda: Replay(texts, VOCAB, script=lambda at: (at % 4, at % 3)),
        "ngram": lambda: Ngram(1, 3),
    }[drafter]
    assert write(made(shape)[1], guess()) == expected(shape)
    for n, prompt in PROMPTS.items():
        assert write(made(shape)[1], guess(), {n: prompt})[n] == expected(shape)[n]


@pytest.mark.parametrize(
    ("target", "draft"),
    [("sliding", "sliding"), ("sliding", "llama"), ("llama", "sliding"), ("mixed windows", "alibi")],
)
def test_34_windows_in_target_drafter_and_both(target, draft, made, expected):
    drafter = ModelDrafter(made(draft)[1], made(target)[1])
    engine = Engine(made(target)[1], drafter, pace=lambda: Fixed(DEPTH))
    results = generate_many(engine, list(PROMPTS.values()), limits=Limits(TOKENS), seed=0)
    assert [result.tokens for result in results] == list(expected(target).values())
    if target == draft:
        assert all(result.metrics.acceptance == 1.0 for result in results)


class Forked:
    """Guesses a wrong token, the right one beside it, and under each the right continuation."""

    name, confident, draws = "forked", False, False

    def __init__(self, texts):
        self._texts = texts

    def propose(self, scenes):
        drafts = []
        for scene in scenes:
            written = list(scene.history.tokens)
            text = next(text for text in self._texts if text[: len(written)] == written)
            right = text[len(written) : len(written) + 2]
            if len(right) < 2 or scene.budget.depth < 2 or scene.budget.nodes < 4:
                drafts.append(Draft.empty())
                continue
            tokens = ((right[0] + 1) % 256, right[0], right[1], right[1])
            dists = tuple(Dist.point(token) for token in tokens)
            drafts.append(Draft(tokens, (-1, -1, 0, 1), dists, ("forked",) * 4))
        return drafts

    def start(self, key, tokens): ...
    def read(self, key, tokens): ...
    def observe(self, key, emitted, verdict): ...
    def stop(self, key): ...
    def close(self): ...


@pytest.mark.parametrize("shape", ["sliding", "mixed windows", "absolute"])
def test_trees_change_nothing(shape, made, expected):
    texts = [[*PROMPTS[n], *tokens] for n, tokens in expected(shape).items()]
    assert write(made(shape)[1], Forked(texts)) == expected(shape)


@pytest.mark.parametrize("shape", ["recurrent", "convolution"])
def test_33_a_state_that_cannot_forget_is_refused_by_name_before_the_first_token(shape, made):
    """A rollback that silently did nothing left refused guesses in the state. mlx-lm #846; vllm #39273"""
    with pytest.raises(OptionError, match=f"{shape} cannot forget refused guesses, so it cannot speculate"):
        Engine(made(shape)[1], Ngram())
    with pytest.raises(OptionError, match="cannot forget"):
        ModelDrafter(made(shape)[1], made("llama")[1])


@pytest.mark.parametrize("shape", ["sliding", "absolute"])
def test_40_up_to_the_last_position_and_not_beyond(shape, made):
    backend = made(shape)[1]
    prompt = list(range(240))
    engine = Engine(backend, None)
    plain = generate(engine, prompt, limits=Limits(99)).tokens
    assert len(plain) == 256 - 240
    text = [[*prompt, *plain, *range(9)]]
    for depth in (1, 5, 30):
        engine = Engine(backend, Replay(text, VOCAB), pace=lambda depth=depth: Fixed(depth))
        assert generate(engine, prompt, limits=Limits(99)).tokens == plain
    with pytest.raises(ContextError, match="The prompt has 256 tokens"):
        engine.submit([1] * 256)
