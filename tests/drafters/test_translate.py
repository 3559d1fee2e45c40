"""A draft model with a vocabulary of its own."""

import math
from dataclasses import replace

import numpy as np
import pytest
from pairs import LETTERS, PAIRS, Named, Remembering, single, toy, write_all

from redline.core.chance import Keyed
from redline.core.errors import OptionError, VocabularyError
from redline.core.pace import Confidence, Fixed
from redline.core.ports import Scene
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Budget, History
from redline.core.verify import RULES
from redline.drafters import ModelDrafter
from redline.drafters.translate import Translated
from redline.engine import Engine, generate, generate_many
from redline.testing import DrafterContract, ToyBackend

WAYS = ("auto", "intersect", "reencode")
HOT = Sampling(temperature=1.0)


def scene(text, depth=4, sampling=None, **options):
    return Scene(
        0,
        History(text, len(text)),
        Budget(depth, depth),
        sampling or Sampling(),
        Keyed(7).at(len(text)),
        **options,
    )


def guesses(drafter, text, depth=4, sampling=None, **options):
    drafter.start(0, text)
    draft = drafter.propose([scene(text, depth, sampling, **options)])[0]
    drafter.stop(0)
    return draft


def says(target, draft, words, way="reencode", **options):
    """A drafter whose model writes exactly these tokens, whatever the text."""

    def row(state):
        at = len(state) - len(prompt)
        return np.eye(draft.size)[words[at]] * 20 if 0 <= at < len(words) else np.zeros(draft.size)

    prompt = []
    backend = ToyBackend(draft.size, order=10**6, logits=row, tokenizer=draft, **options)
    drafter = Translated(backend, toy(target), way=way)
    inner = drafter.start

    def start(key, tokens):
        inner(key, tokens)
        prompt[:] = drafter._texts[key].transcript.tokens

    drafter.start = start
    return drafter


class TestTranslated(DrafterContract):
    @pytest.fixture(
        params=[(pair, way) for pair in ("longer words", "shorter words", "words twice") for way in WAYS]
    )
    def drafter(self, request):
        pair, way = request.param
        target, draft = PAIRS[pair]
        pieces = [target.piece(token) for token in range(target.size)]
        more = single("ijklmnop")[: self.vocab_size - target.size]
        target = Named([*pieces, *more])
        draft = Named([*(draft.piece(token) for token in range(draft.size)), *more])
        return Translated(toy(draft, order=None), toy(target), way=way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_model_of_the_same_vocabulary_is_a_model_drafter(pair, way):
    tokenizer = PAIRS[pair][0]
    ours = Translated(toy(tokenizer), toy(tokenizer), way=way)
    theirs = ModelDrafter(toy(tokenizer), toy(tokenizer))
    text = [*tokenizer.encode("abc"), *tokenizer.encode("hfdeah")[-6:]]
    for sampling in (Sampling(), replace(HOT, top_k=3)) if way == "intersect" else (Sampling(),):
        for depth in (1, 3, 6):
            expected = guesses(theirs, text, depth, sampling)
            found = guesses(ours, text, depth, sampling)
            # What the model writes may be split otherwise where it is encoded again.
            assert write_all(tokenizer, expected.tokens).startswith(write_all(tokenizer, found.tokens))
            if way == "intersect" and pair not in ("shorter words", "other words"):
                assert found.tokens == expected.tokens


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_drafts_for_itself_in_another_vocabulary_is_always_right(way, batch):
    target, draft = PAIRS["permuted"]

    def row(state):
        return ToyBackend(8, seed=3, spread=5.0)._hashed(tuple(7 - token for token in state))[::-1]

    for sampling in (Sampling(), HOT) if way != "reencode" else (Sampling(),):
        small = ToyBackend(8, order=2, logits=row, tokenizer=draft)
        engine = Engine(toy(target), Translated(small, toy(target), way=way), pace=lambda: Fixed(4))
        prompts = [[0, 1, 2 + text] for text in range(batch)]
        for result in generate_many(engine, prompts, sampling, Limits(25), seed=5):
            assert (result.metrics.acceptance, result.metrics.steps) == (1.0, 5)


def test_what_is_written_is_encoded_again():
    target, draft = Named([*LETTERS, b"ab", b"cab"]), Named([*LETTERS, b"abc"])
    # The draft writes c, abc, d; behind "h" that is cab, c, d for the target.
    assert guesses(says(target, draft, [2, 8, 3]), [7], 3).tokens == (9, 2, 3)
    assert guesses(says(target, draft, [2, 8, 3]), [7], 2).tokens == (9, 2)


def test_a_last_token_that_may_become_a_longer_one_waits_for_what_comes():
    target, draft = Named([*LETTERS, b"ab", b"abc", b"abcd"]), Named(LETTERS)
    drafter = says(target, draft, [0, 1, 2, 3, 4])
    assert guesses(drafter, [7], 1).tokens == (0,)  # it stops with what it has when that is enough
    assert guesses(drafter, [7], 2).tokens == (10, 4)
    cut = says(target, draft, [0, 1, 2, 3, 4], context=4)  # h, a, b, c are read, and d is the last to come
    assert guesses(cut, [7], 2).tokens == ()


def test_half_a_character_is_no_guess():
    halves = ["🎉".encode()[:2], "🎉".encode()[2:]]
    target, draft = Named([*LETTERS, "🎉".encode()]), Named([*LETTERS, *halves])
    cut = says(target, draft, [0, 8, 9], context=2)  # h and a are read
    assert guesses(cut, [7], 3).tokens == (0,)
    assert guesses(says(target, draft, [0, 8, 9, 1]), [7], 3).tokens == (0, 8, 1)
    assert guesses(says(target, draft, [8, 9, 1]), [7], 1).tokens == (8,)
    # A text that ends within a character, and a guess that goes on with the rest of it.
    split = Named([*LETTERS, *halves])
    whole_one = Named([*LETTERS, "🎉".encode(), *halves])
    assert guesses(says(split, whole_one, [10, 0]), [7, 8], 2).tokens == (9, 0)


def test_an_end_is_the_last_guess_and_the_targets_own():
    target, draft = PAIRS["controls"]
    assert guesses(says(target, draft, [2, 10, 3]), [8, 0], 4).tokens == (1, 9)  # <end> is </s>
    assert guesses(says(target, draft, [2, 9, 3]), [8, 0], 4).tokens == (1, 10)  # <x> is <x>
    assert guesses(says(target, draft, [2, 12, 3]), [8, 0], 4).tokens == (1,)  # <y> is nothing
    worded = Named(LETTERS)
    worded.ends = frozenset({2})
    assert guesses(says(Named(LETTERS), worded, [1, 2, 3]), [0], 4).tokens == (1, 2)
    assert guesses(says(target, draft, [2, 10, 3], "intersect"), [8, 0], 4).tokens == (1, 9)


def test_bytes_that_the_target_cannot_write_end_the_guess():
    assert guesses(says(Named(single("ab")), Named(single("abc")), [0, 1, 2, 0]), [0], 4).tokens == (0, 1)


@pytest.mark.parametrize("way", ["intersect", "reencode"])
def test_trust_is_the_draft_models_own_probability(way):
    target, draft = PAIRS["some letters"]
    drafter = Translated(toy(draft), toy(target), way=way)
    for text in ([0], [1, 2], [3, 4, 1]):
        found = guesses(drafter, text, 3)
        assert len(found.trust) == len(found)
        assert all(0 < trust < 1 for trust in found.trust[:1])
    # Two target tokens out of one: the second comes with the first. One out of two needs both.
    target, draft = Named([*LETTERS, b"fg"]), Named([*LETTERS, b"ab"])
    sure = 1 / (1 + 8 * math.exp(-2.0))

    def row(state):
        at = len(state) - 1
        return np.eye(draft.size)[[8, 5, 6, 0][at]] * 2.0 if at < 4 else np.zeros(draft.size)

    backend = ToyBackend(draft.size, order=10**6, logits=row, tokenizer=draft)
    found = guesses(Translated(backend, toy(target), way="reencode"), [7], 4)
    assert found.tokens == (0, 1, 8, 0)
    np.testing.assert_allclose(found.trust, [sure, 1.0, sure**2, sure], rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_it_stops_where_it_doubts(way):
    target, draft = PAIRS["longer words"]
    lengths = {}
    for confidence in (0.0, 0.2, 1.0):
        drafter = Translated(toy(draft, spread=9.0), toy(target), way=way)
        engine = Engine(toy(target), drafter, pace=lambda c=confidence: Confidence(8, c))
        result = generate(engine, [0, 1], limits=Limits(40), seed=1)
        assert result.tokens == generate(Engine(toy(target)), [0, 1], limits=Limits(40), seed=1).tokens
        lengths[confidence] = result.metrics.proposed / result.metrics.steps
    assert lengths[1.0] <= 3 < lengths[0.0]
    assert lengths[1.0] < lengths[0.2] < lengths[0.0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("context", range(1, 30, 4))
def test_a_full_context_ends_the_guessing_and_not_the_text(way, context):
    for target, draft in PAIRS.values():
        small = toy(draft, context=context)
        drafter = Translated(small, toy(target), way=way)
        prompt = [0, 1, 2, 0, 1, 0]
        result = generate(Engine(toy(target), drafter, prefill=2), prompt, HOT, Limits(30), seed=2)
        assert result.tokens == generate(Engine(toy(target)), prompt, HOT, Limits(30), seed=2).tokens
        assert not any(step.fault for step in result.steps)


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_that_means_nothing_to_the_draft_model(way):
    target, draft = Named(LETTERS, ["<t>"]), Named(LETTERS)
    drafter, letters = Translated(toy(draft), toy(target), way=way), Sampling(bias={8: -math.inf})
    result = generate(Engine(toy(target), drafter), [8, 8], letters, Limits(20), seed=2)
    assert result.tokens == generate(Engine(toy(target)), [8, 8], letters, Limits(20), seed=2).tokens
    assert not any(step.fault for step in result.steps)
    assert not result.steps[0].proposed
    assert result.metrics.proposed


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_bias_on_all_that_both_have_is_no_error(way, temperature):
    target, draft = Named([*LETTERS, b"xx"]), Named(LETTERS)
    sampling = Sampling(temperature=temperature, bias=dict.fromkeys(range(8), -math.inf))
    drafter = Translated(toy(draft), toy(target), way=way)
    result = generate(Engine(toy(target), drafter), [0, 1], sampling, Limits(6), seed=2)
    assert result.tokens == (8,) * 6
    assert not result.metrics.proposed
    assert not any(step.fault for step in result.steps)


def test_a_bias_is_by_the_targets_ids():
    target, draft = PAIRS["permuted"]
    for way in ("intersect", "reencode"):
        drafter = Translated(toy(draft), toy(target), way=way)
        for token in range(8):
            assert guesses(drafter, [0, 1], 2, Sampling(bias={token: 99.0})).tokens == (token, token)


def test_auto_takes_the_way_that_is_right_more_often():
    target, draft = PAIRS["other words"]
    drafters = {way: Translated(toy(draft, spread=2.0), toy(target), way=way) for way in WAYS}
    for temperature, way in ((0.0, "reencode"), (0.8, "reencode"), (1.0, "intersect"), (1.5, "intersect")):
        for text in ([0, 1], [3, 4], [5, 0, 7]):
            found, expected = (
                guesses(drafters[each], text, 4, Sampling(temperature=temperature)) for each in ("auto", way)
            )
            assert found.tokens == expected.tokens
            assert all(len(q.ids) == 1 for q in found.dists) == (way == "reencode")


def test_nothing_in_common():
    target, draft = Named(single("abc")), Named([b"ab", b"ca"])
    with pytest.raises(VocabularyError, match="no token in common"):
        guesses(Translated(toy(draft), toy(target), way="intersect"), [0], 2, HOT)
    assert guesses(says(target, draft, [0, 1, 1, 0]), [0, 1], 4).tokens == (0, 1, 2, 0)


def test_what_it_refuses():
    target, draft = PAIRS["permuted"]
    with pytest.raises(OptionError, match="no way 'both'"):
        Translated(toy(draft), toy(target), way="both")
    with pytest.raises(OptionError, match="cannot forget refused guesses"):
        Translated(toy(draft, rollback="snapshot"), toy(target))


def test_damaged_logits_are_loud():
    target, draft = PAIRS["permuted"]
    small = ToyBackend(8, order=2, logits=lambda state: np.full(8, np.nan), tokenizer=draft)
    for way in ("intersect", "reencode"):
        with pytest.raises(OptionError, match="NaN"):
            guesses(Translated(small, toy(target), way=way), [0, 1])


def test_a_pass_cut_short_leaves_no_cache_behind():
    target, draft = PAIRS["permuted"]
    small = toy(draft)
    drafter, caches = Translated(small, toy(target)), []
    inner = small.open
    small.open = lambda: caches.append(inner()) or caches[-1]
    small._read = lambda chunk: 1 / 0
    for call in (lambda: drafter.read(0, [0] * 50), lambda: drafter.propose([scene([0] * 50)])):
        drafter.start(0, [0] * 300)
        with pytest.raises(ZeroDivisionError):
            call()
        drafter.stop(0)
    assert [cache.closed for cache in caches] == [True, True]


def test_caches_are_kept_and_closed():
    target, draft = PAIRS["longer words"]
    small = toy(draft)
    drafter = Translated(small, toy(target), keep=1)
    text = [0, 1, 2, 3, 4] * 20
    first = guesses(drafter, text)
    read = sum(map(sum, small.passes))
    assert guesses(drafter, text).tokens == first.tokens
    assert sum(map(sum, small.passes)) - read < 10
    drafter.start(1, text)
    drafter.close()
    assert drafter._texts == {}
    assert drafter.backend is small


def test_only_what_is_sure_to_stay_is_read_along():
    target, draft = PAIRS["longer words"]
    drafter = Translated(toy(draft, context=1000), toy(target))
    drafter.start(0, list(np.random.default_rng(0).integers(0, 8, 600)))
    transcript = drafter._texts[0].transcript
    for end in (0, 100, 100, 300, 600):
        drafter.read(0, [0] * end)
        assert len(drafter._texts[0].read) == transcript.settled * end // 600


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.exact], ids=lambda rule: rule.name)
@pytest.mark.parametrize("way", WAYS)
def test_the_drafts_context_is_its_own_encoding_of_the_text(way, rule):
    """And the opening stands once, at its beginning."""
    end, start = "</s>", "<s>"
    target = Named([*LETTERS, b" ", b"ab", b"fg"], [start, end], [end], [start])
    draft = Named([b"bc", b" a", *LETTERS[::-1], b" "], [end, "<y>", start], [end], ["<y>"])
    small = Remembering(draft)
    sampling = Sampling(temperature=0.9 if rule.samples else 0.0, bias={12: -math.inf})
    drafter = Translated(small, toy(target), way=way)
    prompt = [*target.encode("ab fg hab"), 11, *target.encode("cde")[1:]]
    result = generate(Engine(toy(target), drafter, rule=rule), prompt, sampling, Limits(60), seed=4)
    assert result.metrics.accepted
    text = [*prompt, *result.tokens]
    opening, marks = draft.encode(""), {11, 12, 13}
    for asked in small.asked:
        assert asked[:1] == opening
        assert opening[0] not in asked[1:]
        assert [token for token in asked[1:] if token in marks][:1] in ([], [13])
    # The longest context of every step is an encoding of some text that begins as this one does.
    for step in result.steps:
        if step.emitted:
            parts = [write_all(target, part) for part in split(text[: step.position], 11)]
            expected = [*opening]
            for part in parts:
                expected += [*([13] if len(expected) > 1 else []), *draft.encode(part.decode())[1:]]
            if step.proposed:
                assert any(asked[: len(expected)] == expected for asked in small.asked)


def split(tokens, mark):
    parts = [[]]
    for token in tokens[1:]:  # without the target's opening
        if token == mark:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
