"""rule × drafter × depth × rollback × batch: the text is always that of plain decoding."""

from functools import partial

import pytest
from matrix import EXACT, SAMPLINGS

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.verify import RULES
from redline.drafters import Compose, Corpus, ModelDrafter, Ngram, Recycle, Replay, Suffix
from redline.drafters.compose import WAYS
from redline.engine import Engine, generate_many
from redline.testing import ToyBackend

TOKENS = 24
PROMPTS = [[1, 2, 3, 1, 2], [4], [5, 5, 5, 5, 5, 5, 6], [0, 7, 3]]


def target(rollback="truncate"):
    return ToyBackend(8, seed=3, order=2, rollback=rollback, context=200)


def remembering(texts):
    corpus = Corpus()
    for text in texts:
        corpus.add(text)
    return Suffix(corpus)


def three(how):
    return Compose([Suffix(), Recycle(), ModelDrafter(ToyBackend(8, seed=4, order=2), target())], how)


def drafters(texts):
    return {
        "none": lambda: None,
        "ngram": Ngram,
        "junk": lambda: Ngram(1, 1),
        "suffix": Suffix,
        "memory": lambda: remembering(texts),
        "recycle": Recycle,
        **{f"{how} of three": partial(three, how) for how in WAYS},
        "self": lambda: ModelDrafter(target(), target()),
        "other": lambda: ModelDrafter(ToyBackend(8, seed=4, order=2), target()),
        "oracle": lambda: Replay(texts, 8),
        "liar": lambda: Replay(texts, 8, accuracy=0.0),
        "half": lambda: Replay(texts, 8, accuracy=0.5),
        "ragged": lambda: Replay(texts, 8, script=lambda at: (at % 4, at % 3)),
    }


def decode(drafter, rule, sampling, depth=4, rollback="truncate", prompts=PROMPTS, nodes=None):
    engine = Engine(target(rollback), drafter, rule=rule, pace=lambda: Fixed(depth, nodes), prefill=3)
    results = generate_many(engine, prompts, sampling, Limits(TOKENS), seed=11)
    assert not engine.live
    return results


def plain(sampling):
    return decode(None, RULES["matching"], sampling)


@pytest.mark.parametrize("rollback", ["truncate", "snapshot"])
@pytest.mark.parametrize("depth", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("drafter", list(drafters([])))
def test_matching_writes_what_plain_decoding_writes(drafter, depth, rollback):
    for sampling in SAMPLINGS.values():
        expected = [result.tokens for result in plain(sampling)]
        texts = [[*prompt, *tokens] for prompt, tokens in zip(PROMPTS, expected, strict=True)]
        make = drafters(texts)[drafter]
        together = decode(make(), RULES["matching"], sampling, depth, rollback, nodes=depth + 2)
        assert [result.tokens for result in together] == expected
        for prompt, tokens in zip(PROMPTS, expected, strict=True):
            assert decode(make(), RULES["matching"], sampling, depth, rollback, [prompt])[0].tokens == tokens


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize("drafter", list(drafters([])))
def test_every_exact_rule_at_temperature_zero_is_greedy_decoding(rule, drafter):
    sampling = Sampling(frequency_penalty=0.2, penalty_window=9)
    expected = [result.tokens for result in plain(sampling)]
    texts = [[*prompt, *tokens] for prompt, tokens in zip(PROMPTS, expected, strict=True)]
    for depth in (1, 3, 8):
        results = decode(drafters(texts)[drafter](), rule, sampling, depth)
        assert [result.tokens for result in results] == expected


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
@pytest.mark.parametrize(
    "drafter",
    ["none", "ngram", "self", "other", "half", "suffix", "recycle", "best of three", "merge of three"],
)
def test_a_text_does_not_depend_on_its_batch(rule, drafter):
    sampling = Sampling() if rule.name == "greedy" else SAMPLINGS["sampled"]
    texts = [[*prompt, *result.tokens] for prompt, result in zip(PROMPTS, plain(sampling), strict=True)]
    make = drafters(texts)[drafter]
    together = decode(make(), rule, sampling)
    shuffled = decode(make(), rule, sampling, prompts=PROMPTS[::-1])[::-1]
    alone = [decode(make(), rule, sampling, prompts=[prompt])[0] for prompt in PROMPTS]
    assert [r.tokens for r in together] == [r.tokens for r in alone] == [r.tokens for r in shuffled]


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_a_model_that_drafts_for_itself_is_always_right(depth):
    for sampling in SAMPLINGS.values():
        for result in decode(ModelDrafter(target(), target()), RULES["matching"], sampling, depth):
            assert result.metrics.acceptance == 1.0
            assert result.metrics.steps == -(-TOKENS // (depth + 1))


def broad(seed=4):
    """A model that guesses trees for another, or for itself."""
    return ModelDrafter(ToyBackend(8, seed=seed, order=2), target())


@pytest.mark.parametrize("rollback", ["truncate", "snapshot"])
@pytest.mark.parametrize(("depth", "nodes"), [(1, 4), (3, 4), (3, 9), (6, 24)])
@pytest.mark.parametrize("seed", [3, 4])
def test_trees_write_what_plain_decoding_writes(seed, depth, nodes, rollback):
    for sampling in SAMPLINGS.values():
        expected = [result.tokens for result in plain(sampling)]
        rules = [RULES["matching"]] if sampling.temperature else [rule for rule in EXACT if rule.trees]
        for rule in rules:
            together = decode(broad(seed), rule, sampling, depth, rollback, nodes=nodes)
            assert [result.tokens for result in together] == expected
            steps = [step for result in together for step in result.steps]
            assert any(step.parents != tuple(range(-1, len(step.parents) - 1)) for step in steps)
            for prompt, tokens in zip(PROMPTS, expected, strict=True):
                alone = decode(broad(seed), rule, sampling, depth, rollback, [prompt], nodes)
                assert alone[0].tokens == tokens


def test_a_text_with_trees_does_not_depend_on_its_batch():
    for rule in (RULES["tree"], RULES["typical"]):
        together = decode(broad(), rule, SAMPLINGS["sampled"], nodes=9)
        shuffled = decode(broad(), rule, SAMPLINGS["sampled"], prompts=PROMPTS[::-1], nodes=9)[::-1]
        alone = [decode(broad(), rule, SAMPLINGS["sampled"], prompts=[p], nodes=9)[0] for p in PROMPTS]
        assert [r.tokens for r in together] == [r.tokens for r in alone] == [r.tokens for r in shuffled]


def test_rules_and_targets_that_take_chains_get_chains():
    expected = decode(broad(), RULES["block"], SAMPLINGS["sampled"])
    assert [r.tokens for r in decode(broad(), RULES["block"], SAMPLINGS["sampled"], nodes=9)] == [
        r.tokens for r in expected
    ]
