"""On the real model: the same tokens with any draft or none, greedy and seeded, for all kinds of prompts."""

import pytest

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.verify import RULES
from redline.drafters import Compose, Corpus, EarlyExit, ModelDrafter, Ngram, Recycle, Suffix
from redline.engine import Engine, generate, generate_many

pytestmark = pytest.mark.model

SEEDED = Sampling(temperature=0.8, top_p=0.9)
CODE = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\n"
PROMPTS = [
    "Once upon a time",
    "The capital of France is",
    "A",
    " ",
    "\n\n",
    "1, 2, 3, 4, 5, 6, 7,",
    "To be, or not to be, that is the question. To be, or not to be,",
    "Dear Sir or Madam,\n\nI am writing to",
    "Q: What is the boiling point of water?\nA:",
    "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG. the quick brown fox",
    CODE,
    CODE + "def mul(a, b):\n    return",
    "for i in range(10):\n    print(i)\n\nfor j in range(10):\n",
    "import numpy as np\nimport",
    "SELECT id, name FROM users WHERE id = 1;\nSELECT id, name FROM orders WHERE",
    "<html><head><title>Page</title></head><body><p>One</p><p>Two</p><p>",
    '{"name": "Ada", "age": 36, "languages": ["English", "French"]}\n{"name": "Alan", "age":',
    '[{"id": 1, "ok": true}, {"id": 2, "ok": false}, {"id": 3,',
    "name,age,city\nAda,36,London\nAlan,41,",
    "# Title\n\n- one\n- two\n- three\n-",
    "春天来了，花儿开了。春天来了，",
    "请介绍一下北京。",
    "こんにちは、世界。こんにちは、",
    "Привет, как дела? Привет, как",
    "مرحبا بالعالم. مرحبا",
    "🎉🎉🎉🎉🎉🎉",
    "I ❤️ 🍕 and 👩‍👩‍👧‍👦! I ❤️",
    "é à ü ñ ç é à ü ñ",
    "\t\tif x:\n\t\t\treturn\n\t\tif y:\n",
    "xyzzy plugh xyzzy plugh xyzzy",
    "$$\\int_0^1 x^2 dx = \\frac{1}{3}$$ and $$\\int_0^1 x^3 dx =",
    CODE * 60,
]


@pytest.fixture(scope="module")
def engines(smollm2):
    drafters = {
        "none": None,
        "ngram": Ngram(),
        "suffix": Suffix(Corpus()),
        "recycle": Recycle(),
        "early_exit": EarlyExit(smollm2, 20),
        "best": Compose([Suffix(), Recycle(), EarlyExit(smollm2, 29)]),
        "merge": Compose([Suffix(), Ngram(), Recycle()], "merge"),
        "breadth": ModelDrafter(smollm2, smollm2, Sampling(temperature=1.5)),
    }
    return {
        name: Engine(smollm2, drafter, keep=0, pace=lambda: Fixed(4, nodes=7))
        for name, drafter in drafters.items()
    }


def test_the_prompts_are_of_all_kinds(smollm2):
    lengths = [len(smollm2.tokenizer.encode(prompt)) for prompt in PROMPTS]
    assert len(PROMPTS) >= 30
    assert min(lengths) == 1
    assert max(lengths) >= 1500


@pytest.mark.parametrize("index", range(len(PROMPTS)))
def test_every_drafter_writes_what_plain_decoding_writes(engines, index):
    for sampling in (Sampling(), SEEDED):
        plain, *drafted = (
            generate(engine, PROMPTS[index], sampling, Limits(20), seed=7 + index)
            for engine in engines.values()
        )
        for result in drafted:
            assert result.tokens == plain.tokens
            assert result.text == plain.text
            assert not result.steps[-1].fault


def test_every_drafter_had_something_to_say(engines):
    for name, engine in list(engines.items())[1:]:
        results = [generate(engine, PROMPTS[i], limits=Limits(40), seed=7) for i in (5, 10, 17)]
        assert sum(result.metrics.accepted for result in results) > 0, name


def test_a_batch_of_eight_writes_what_each_text_alone_writes(engines):
    prompts = [PROMPTS[i] for i in (0, 2, 5, 10, 17, 20, 25, 26)]
    for sampling in (Sampling(), SEEDED):
        alone = [generate(engines["none"], prompt, sampling, Limits(16), seed=7).tokens for prompt in prompts]
        for engine in engines.values():
            together = generate_many(engine, prompts, sampling, Limits(16), seed=7)
            assert [result.tokens for result in together] == alone


def test_a_model_that_drafts_for_itself_is_always_right(smollm2):
    engine = Engine(smollm2, ModelDrafter(smollm2, smollm2))
    for sampling in (Sampling(), SEEDED):
        result = generate(engine, PROMPTS[0], sampling, Limits(24, stop_tokens=frozenset()), seed=7)
        assert result.metrics.acceptance == 1.0
        assert result.tokens == generate(Engine(smollm2), PROMPTS[0], sampling, Limits(24), seed=7).tokens


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.exact], ids=lambda rule: rule.name)
def test_every_exact_rule_is_greedy_at_temperature_zero(smollm2, engines, rule):
    engine = Engine(smollm2, Ngram(1, 3), rule=rule, keep=0)
    plain = generate(engines["none"], CODE, limits=Limits(24))
    assert generate(engine, CODE, limits=Limits(24)).tokens == plain.tokens


def test_a_kept_cache_changes_nothing(smollm2):
    engine, fresh = Engine(smollm2, Ngram()), Engine(smollm2, Ngram(), keep=0)
    talk = [{"role": "user", "content": "Name three colours."}]
    for question in ("And three animals.", "Which of them are red?"):
        first, again = (generate(each, talk, limits=Limits(16)) for each in (engine, fresh))
        assert first.tokens == again.tokens
        talk += [{"role": "assistant", "content": first.text}, {"role": "user", "content": question}]
    kept = generate(engine, talk, limits=Limits(16)).metrics
    assert kept.prefill_tokens < generate(fresh, talk, limits=Limits(16)).metrics.prefill_tokens
