"""On the real model, for thirty schemas: the same valid JSON with any draft or none."""

import json
from pathlib import Path

import jsonschema
import pytest

from redline.core.stop import Limits
from redline.drafters import Ngram
from redline.drafters.forced import Forced
from redline.engine import Engine, generate
from redline.grammar import schema

pytestmark = pytest.mark.model

FILE = Path(__file__).parents[1] / "grammar" / "schemas.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
LIMITS = Limits(80)


@pytest.fixture(scope="module")
def engines(smollm2):
    return {"none": Engine(smollm2), "forced": Engine(smollm2, Forced()), "ngram": Engine(smollm2, Ngram())}


def test_there_are_thirty():
    assert len({json.dumps(case["schema"]) for case in CASES}) == 30


@pytest.mark.parametrize("index", range(30))
def test_drafts_change_nothing_of_a_constrained_text(smollm2, engines, index):
    document = CASES[index]["schema"]
    constraint = schema(document, smollm2)
    results = {
        name: generate(engine, CASES[index]["prompt"], limits=LIMITS, constraint=constraint)
        for name, engine in engines.items()
    }
    plain = results["none"]
    assert plain.finish == "stop"
    jsonschema.validate(json.loads(plain.text), document)
    for name in ("forced", "ngram"):
        assert results[name].tokens == plain.tokens
        assert results[name].text == plain.text
    forced = results["forced"].metrics
    assert forced.acceptance in (1.0, None)
