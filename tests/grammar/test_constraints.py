"""Every constraint keeps the contract; schemas and expressions mean what they say."""

import builtins
import gc
import json
import re
import threading
import weakref

import jsonschema
import numpy as np
import pytest

from redline.core.errors import NotInstalled, OptionError, RedlineError
from redline.grammar import after_marker, matcher, regex, schema
from redline.grammar.marker import Marker
from redline.grammar.vocabulary import Words, vocabulary
from redline.testing import Automaton, ConstraintContract, ToyBackend, ToyTokenizer

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 4},
        "kind": {"enum": ["alpha", "beta"]},
        "ok": {"type": "boolean"},
        "n": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "kind", "ok", "n"],
    "additionalProperties": False,
}
END = 256
WORDS = [
    '{"',
    '":',
    '"}',
    '": "',
    "name",
    "kind",
    "na",
    "me",
    "alpha",
    "al",
    "true",
    "tr",
    ", ",
    ', "',
    "}\n",
    "é",
]


def tokenizer(ends=(END,)):
    """All bytes, control tokens that end an answer, one that does not, and some words."""
    pieces = [*(bytes([i]) for i in range(256)), b"", b"", b"", *(word.encode() for word in WORDS), b"kind"]
    return ToyTokenizer(pieces, ends)


def model(ends=(END,), padding=7, **options):
    made = tokenizer(ends)
    return ToyBackend(made.size + padding, tokenizer=made, **{"seed": 2, "spread": 9.0, **options})


MODEL = model()


def write(constraint, model, seed, limit=400):
    """Any text that a constraint allows, up to an end token; each token as likely as the next."""
    rng, pieces = np.random.default_rng(seed), []
    for _ in range(limit):
        token = int(rng.choice(np.flatnonzero(constraint.allowed())))
        if token in model.tokenizer.ends:
            return b"".join(pieces).decode()
        pieces.append(model.tokenizer.piece(token))
        constraint = constraint.after(token)
    raise AssertionError(b"".join(pieces))


class TestNoTwins(ConstraintContract):
    @pytest.fixture
    def constraint(self):
        return Automaton.no_twins(16)


class TestExactly(ConstraintContract):
    @pytest.fixture
    def constraint(self):
        return Automaton.exactly(16, [0, 1, 2, 0, 1, 2])


class OfGrammar(ConstraintContract):
    vocab_size = MODEL.traits.vocab_size
    ends = MODEL.tokenizer.ends


class TestSchema(OfGrammar):
    @pytest.fixture(
        params=[PERSON, {"const": "name kind é <end 256>"}, {"type": "array", "items": {"type": "null"}}]
    )
    def constraint(self, request):
        return schema(request.param, MODEL)


class TestRegex(OfGrammar):
    @pytest.fixture(params=["(abc)*", "a", "na(me|tr)é?", "[^x]{3}"])
    def constraint(self, request):
        return regex(request.param, MODEL)


class TestAfterMarker(OfGrammar):
    @pytest.fixture(params=[[65, 66, 65], [65, 65, 66], "aba", "kind{", "é"])
    def constraint(self, request):
        return after_marker(request.param, regex("(kind)?x{2}", MODEL), MODEL)


class TestAfterMarkerAndBefore(OfGrammar):
    @pytest.fixture
    def constraint(self):
        return after_marker([65], regex("(kind|name)x{2}", MODEL), MODEL, free_after=True)


class TestTwoEnds(OfGrammar):
    vocab_size = model((256, 258)).traits.vocab_size
    ends = frozenset({256, 258})

    @pytest.fixture
    def constraint(self):
        return schema(PERSON, model((256, 258)))


@pytest.mark.parametrize("seed", range(20))
def test_a_complete_text_fits_its_schema(seed):
    text = write(schema(PERSON, MODEL), MODEL, seed)
    jsonschema.validate(json.loads(text), PERSON)
    assert text == json.dumps(json.loads(text), ensure_ascii=False) or "\\" in text


@pytest.mark.parametrize("pattern", ["(abc|na)+", "[0-9]{4}-[0-9]{2}", "é*name", ""])
def test_a_complete_text_matches_its_expression(pattern):
    for seed in range(10):
        assert re.fullmatch(pattern, write(regex(pattern, MODEL), MODEL, seed))


def test_a_schema_may_be_given_as_text_and_choose_its_own_layout():
    assert schema(json.dumps(PERSON), MODEL).forced() == schema(PERSON, MODEL).forced()
    loose = schema({**PERSON, "x-guidance": {"whitespace_flexible": True}}, MODEL)
    assert loose.takes(list(b'{ \n "')) == 5
    assert schema(PERSON, MODEL).takes(list(b"{ ")) == 0


def test_text_that_must_come_comes_in_the_models_own_tokens():
    state = schema(PERSON, MODEL)
    spelt = b"".join(MODEL.tokenizer.piece(token) for token in state.forced())
    assert b'{"name": "'.startswith(spelt)
    assert len(state.forced()) < len(spelt)


def test_a_complete_text_can_only_end_and_the_padding_of_a_head_never_comes():
    state = regex("ab", MODEL)
    assert state.forced() == [97, 98, END]
    assert np.flatnonzero(state.after(97).after(98).allowed()).tolist() == [END]
    narrow = model(padding=-5)
    assert schema(PERSON, narrow).allowed().shape == (narrow.traits.vocab_size,)


def test_long_forced_texts_are_looked_up_piece_by_piece(monkeypatch):
    monkeypatch.setattr(matcher, "FAR", 5)
    assert regex("x{20}", MODEL).forced() == [120] * 5


def test_an_end_token_that_has_a_letter_is_no_letter():
    toy = ToyBackend(4, tokenizer=ToyTokenizer.letters(4, ends=[2]))
    state = regex("[abcd]", toy)
    assert np.flatnonzero(state.allowed()).tolist() == [0, 1, 3]
    assert state.after(0).forced() == [2]


class Prompting(ToyTokenizer):
    """Opens every text with a control token and a space, as some models do."""

    def encode(self, text):
        return [257, 32, *super().encode(text)]


class Picky(ToyTokenizer):
    def encode(self, text):
        raise RedlineError("no")


@pytest.mark.parametrize("kind", [Prompting, Picky])
def test_tokenizers_that_change_a_text_are_spelt_out(kind):
    made = kind(tokenizer()._pieces, [END])
    assert Words(made)("kindly") == [259 + WORDS.index("kind"), *b"ly"]
    assert Words(made)(b"a\xff") == [97, 255]
    toy = ToyBackend(made.size, tokenizer=made)
    assert write(schema({"const": "kind"}, toy), toy, 0) == '"kind"'


def test_what_no_token_can_spell_is_an_error():
    few = ToyBackend(27, tokenizer=ToyTokenizer([*(bytes([i]) for i in range(97, 123)), b""], [26]))
    with pytest.raises(OptionError, match="no token of this model"):
        regex("É", few)
    choice = regex("x[0-9]", few)
    with pytest.raises(OptionError, match="No text of this model's tokens"):
        choice.after(23).allowed()


BAD = [
    ("{", "The schema is not JSON"),
    ({"type": object}, "The schema is not JSON"),
    ({"type": "strin"}, "Invalid type: strin"),
    ({"not": {"type": "string"}}, 'Unimplemented keys: ["not"]'),
    ({"$ref": "#/x"}, "Pointer '/x' does not exist"),
    ({"enum": []}, "Unsatisfiable schema"),
    ({"type": "integer", "minimum": 5, "maximum": 3}, "Unsatisfiable schema"),
    ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
    ("[]", "Expecting object schema"),
]


@pytest.mark.parametrize(("document", "says"), BAD)
def test_bad_schemas_are_a_sentence(document, says):
    with pytest.raises(OptionError) as error:
        schema(document, MODEL)
    assert says in error.value.message
    assert "\n" not in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "unclosed group"),
        ("[z-a]", "invalid character class range"),
        ("(?=a)b", "look-around"),
        ("\\1", "backreferences"),
        ("[^\\s\\S]", "No text"),
        (7, "is 7"),
    ],
)
def test_bad_expressions_are_a_sentence(pattern, says):
    with pytest.raises(OptionError) as error:
        regex(pattern, MODEL)
    assert says in error.value.message
    assert "\n" not in error.value.message
    assert error.value.hint


def test_what_is_ignored_on_demand_is_said(caplog):
    schema({"type": "array", "uniqueItems": True, "x-guidance": {"lenient": True}}, MODEL)
    assert "uniqueItems" in caplog.text


def test_an_empty_marker_is_refused():
    for marker in ("", []):
        with pytest.raises(OptionError, match="empty"):
            after_marker(marker, regex("a", MODEL), MODEL)


def test_a_model_without_an_end_is_refused():
    with pytest.raises(OptionError, match="ends an answer"):
        regex("a", ToyBackend(4, tokenizer=ToyTokenizer.letters(4)))


def test_a_missing_llguidance_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name == "llguidance":
            raise ImportError(name)
        return real(name, *args, **options)

    vocabulary.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NotInstalled) as error:
        regex("a", MODEL)
    assert error.value.hint == "pip install 'redline[grammar]'"


def test_the_tokenizer_is_prepared_once():
    vocabulary.cache_clear()
    for _ in range(3):
        regex("a", MODEL)
    assert vocabulary.cache_info().misses == 1


def test_a_grammar_that_becomes_too_complex_is_an_error_and_not_free_text():
    state = schema(PERSON, MODEL)
    broken = state.after(state.forced()[0])
    broken._matcher.consume_token(0)  # llguidance never leaves its error state
    with pytest.raises(OptionError, match="cannot be followed"):
        broken.allowed()


def test_a_mask_is_computed_once_and_states_are_shared(monkeypatch):
    start, counted = regex("[ab]*", MODEL), []
    real = matcher.Matched._mask
    monkeypatch.setattr(matcher.Matched, "_mask", lambda self: counted.append(1) or real(self))
    for _ in range(3):
        start.after(97).after(98).allowed()[:] = False  # a mask is the caller's own
    assert len(counted) == 1
    assert start.after(97) is start.after(97)
    assert start.after(97).after(98).allowed().any()


def test_a_first_state_does_not_keep_the_texts_that_began_with_it():
    start = regex("a*", MODEL)
    second = weakref.ref(start.after(97))
    state = start
    for _ in range(matcher.RECENT + 1):
        state = state.after(97)
    gc.collect()
    assert second() is None
    assert start.after(97).allowed().any()


def test_threads_may_share_a_constraint():
    start, found = schema(PERSON, MODEL), []

    def follow(seed):
        found.append([write(start, MODEL, seed) for _ in range(5)])

    threads = [threading.Thread(target=follow, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([write(start, MODEL, seed)] * 5 for seed in range(4))


# --- markers ----------------------------------------------------------------------------------------


def test_markers_are_found_wherever_they_stand():
    rng = np.random.default_rng(0)
    for _ in range(400):
        symbols = rng.integers(0, 2, rng.integers(1, 5)).tolist()
        marker, text, matched = Marker(symbols, None, 2), [], 0
        while matched < len(symbols) and len(text) < 40:
            text.append(int(rng.integers(0, 2)))
            matched = marker.after(matched, text[-1])
            ends = [n for n in range(len(symbols) + 1) if text[len(text) - n :] == symbols[:n]]
            assert matched == max(ends)


def test_a_token_that_runs_past_the_marker_may_not_come():
    state = after_marker("d}", regex("x", MODEL), MODEL)
    past = 259 + WORDS.index("}\n")
    assert state.allowed() is None
    behind = state.after(ord("d"))
    assert np.flatnonzero(~behind.allowed()).tolist() == [past]
    assert behind.after(past).allowed() is None  # nobody gets there
    assert behind.after(ord("}")).forced() == [120, END]
    assert behind.after(END).after(ord("}")).forced() == [120, END]


def test_free_text_comes_back_as_soon_as_the_constraint_may_end():
    state = after_marker([65], regex("ab|abc", MODEL), MODEL, free_after=True).after(65)
    assert state.forced() == [97, 98]
    assert state.after(97).after(98).allowed() is None
    assert state.takes([97, 98, 0, 1]) == 4
    loose = after_marker(
        [65], Automaton.exactly(MODEL.traits.vocab_size, [97, END, 98]), MODEL, free_after=True
    )
    assert loose.after(65).forced() == [97]
    assert state.takes([97, 99]) == 1
    held = after_marker([65], regex("ab|abc", MODEL), MODEL).after(65).after(97).after(98)
    assert np.flatnonzero(held.allowed()).tolist() == [99, END]
