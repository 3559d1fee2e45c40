"""L. Constrained output: JSON of a schema under drafts of every kind."""

import json

import pytest
from setups import EXACT, Says, byte_tokenizer, script, write, wrong

from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.drafters import Replay
from redline.drafters.forced import Forced
from redline.engine import Engine, generate
from redline.grammar import after_marker, schema
from redline.testing import ToyBackend

END = 256
SIZE = 260
PROMPT = list(b"x:")
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 99}, "kind": {"enum": ["cat", "dog"]}},
    "required": ["id", "kind"],
    "additionalProperties": False,
}


def target():
    return ToyBackend(SIZE, seed=5, tokenizer=byte_tokenizer([END]))


def constrained(drafter, rule="matching", sampling=None, constraint=None):
    model = target()
    engine = Engine(model, drafter, rule=next(each for each in EXACT if each.name == rule))
    constraint = constraint or schema(SCHEMA, model)
    result = generate(engine, PROMPT, sampling, Limits(60), 7, constraint)
    assert not any(step.fault for step in result.steps)
    return result


def fixed(tokens):
    """Says the same tokens wherever it is asked."""
    return Says(lambda scene: Draft.chain(tokens[: scene.budget.depth], "fixed"))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.9)], ids=["greedy", "sampled"])
def test_case_48_any_draft_gives_the_json_of_plain_decoding(sampling):
    plain = constrained(None, sampling=sampling)
    text = [*PROMPT, *plain.tokens]
    assert json.loads(plain.text).keys() == {"id", "kind"}
    assert plain.tokens[-1] == END
    drafters = {
        "right": Replay([text], SIZE),
        "wrong": wrong(text, SIZE),
        "right for a while": script(text, 2, 5, SIZE),
        "past the brace": Replay([[*text[:-1], *b'}}, {"id": 1}']], SIZE),
        "past the end": Replay([[*text, *b"and more"]], SIZE),
        "an early end": fixed([END, END, END]),
        "a later early end": fixed([*b'{"id"', END]),
        "what is never allowed": fixed([257, 258, 259]),
        "forced": Forced(),
    }
    for name, drafter in drafters.items():
        result = constrained(drafter, sampling=sampling)
        assert (result.tokens, result.text, result.finish) == (plain.tokens, plain.text, "stop"), name
        assert result.metrics.steps <= plain.metrics.steps, name


@pytest.mark.parametrize("rule", [rule.name for rule in EXACT])
def test_case_48_every_exact_rule_is_greedy_decoding(rule):
    plain = constrained(None)
    text = [*PROMPT, *plain.tokens]
    for drafter in (Replay([text], SIZE, accuracy=0.5), wrong(text, SIZE), Forced(), fixed([END] * 3)):
        assert constrained(drafter, rule).tokens == plain.tokens


def test_case_48_a_constraint_that_begins_inside_a_block_binds_what_follows():
    marker = b"=>"
    inner = schema({"const": 7}, target())
    bound = after_marker(marker.decode(), inner, target())
    for guess in (b"=>7", b"=>77777", b"=>{", b"..=>8", b"=>7\n"):
        result = constrained(fixed([*guess]), constraint=bound)
        plain = constrained(None, constraint=bound)
        assert result.tokens == plain.tokens
    # A target that writes the marker and would go on with something else.
    wants = [*b"a=>{}"]
    model = ToyBackend(
        SIZE,
        order=100,
        logits=lambda state: [float(i == wants[min(len(state) - 2, 4)]) for i in range(SIZE)],
        tokenizer=byte_tokenizer([END]),
    )
    for drafter in (None, fixed(wants), fixed([*b"a=>77"]), fixed([*b"a=>7", END])):
        result = generate(Engine(model, drafter), PROMPT, limits=Limits(20), constraint=bound)
        assert result.text == "a=>7"


def test_case_48_plain_text_is_not_harmed_by_a_neighbour_with_a_constraint():
    model = target()
    alone = write(model, PROMPT, limits=20).tokens
    engine = Engine(model, Forced())
    keys = [engine.submit(PROMPT, limits=Limits(20), constraint=c) for c in (None, schema(SCHEMA, model))]
    written = {key: [] for key in keys}
    while engine.live:
        for step in engine.step():
            written[step.key] += step.emitted
    assert tuple(written[keys[0]]) == alone
    assert written[keys[1]][:3] == [*b'{"i']
