"""A text of one vocabulary in the tokens of another: any vocabularies, any bytes, however they come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import LETTERS, PAIRS, Named, single, write_all

from redline.core.dist import Dist
from redline.drafters.spelling import Lexicon, Speller
from redline.drafters.transcript import LONGEST, SHORTEST, Transcript
from redline.drafters.translated import whole

BYTES = [bytes([i]) for i in range(256)]
TEXTS = ("hello world", "\n\n  x = 1\n", "naïve café", "🎉👩‍👩‍👧", "春天来了", "a<s>b", "</s>", "\0\u200b ")
CHARACTERS = [text.encode() for text in ("é", "🎉", " the", "\n\n", "  ", "<s>", "天", "lo w", "ab")]


def lexicon(target, draft):
    return Lexicon(target, draft, (target.size, draft.size))


@st.composite
def vocabularies(draw):
    """Every byte, and some longer pieces: whole characters, halves of them and two with a border inside."""
    cut = [(data[:i] or data) for data in CHARACTERS for i in range(1, len(data) + 1)]
    more = draw(st.lists(st.sampled_from([*CHARACTERS, *cut, *(data[1:] or data for data in CHARACTERS)])))
    pieces = draw(st.permutations(BYTES)) + more if draw(st.booleans()) else [*more, *BYTES]
    opening = draw(st.sampled_from([[], ["<s>"]]))
    return Named(pieces, ["<s>", "</s>"], ["</s>"], opening, draw(st.booleans()))


BUILDING = st.one_of(
    st.binary(max_size=6), st.sampled_from([text.encode() for text in TEXTS]), st.sampled_from(CHARACTERS)
)


@settings(max_examples=60, deadline=None)
@given(vocabularies(), st.lists(BUILDING, max_size=8).map(b"".join))
def test_any_bytes_can_be_spelled(tokenizer, data):
    speller = Speller(tokenizer)
    tokens = speller.spell(data)
    assert speller.written(tokens) == data
    assert all(map(tokenizer.piece, tokens))


@settings(max_examples=60, deadline=None)
@given(vocabularies(), BUILDING, BUILDING)
def test_what_follows_a_text_is_written_by_what_follows_it(tokenizer, text, more):
    speller = Speller(tokenizer)
    assert speller.written(speller.continue_(text, more)) == more


@settings(max_examples=40, deadline=None)
@given(vocabularies(), vocabularies(), st.data())
def test_a_transcript_is_the_text_whatever_pieces_it_came_in(target, draft, data):
    words = lexicon(target, draft)
    text = data.draw(st.lists(st.integers(0, target.size - 1), max_size=80))
    text += words.target.spell(data.draw(st.lists(BUILDING, max_size=20).map(b"".join)))
    at_once, grown = Transcript(words), Transcript(words)
    settled = []
    while grown.known < len(text):
        grown.read(text[: grown.known + data.draw(st.integers(1, 9))])
        assert grown.tokens[: len(settled)] == settled
        settled = grown.tokens[: grown.settled]
        assert len(grown.tail) <= LONGEST + 1
    at_once.read(text)
    assert (at_once.tokens, at_once.settled, at_once.tail) == (grown.tokens, grown.settled, grown.tail)
    spoken = write_all(target, text)
    assert write_all(draft, at_once.tokens) == spoken
    opening = draft.encode("")
    assert at_once.tokens[: len(opening)] == opening


@given(st.lists(BUILDING, max_size=6).map(b"".join))
def test_half_a_character_at_the_end_is_cut_off(data):
    short = whole(data)
    assert data.startswith(short)
    assert len(data) - len(short) <= 3
    if short != data:
        with pytest.raises(UnicodeDecodeError):
            data[len(short) :].decode()
    for text in TEXTS:
        assert whole(text.encode()) == text.encode()


def test_halves_of_characters():
    assert whole("a🎉".encode()[:-1]) == b"a"
    assert whole("a🎉".encode()[1:-3]) == b""
    assert whole("🎉é".encode()[2:]) == "🎉é".encode()[2:]


def test_a_space_that_is_put_before_a_text_is_not_put_into_it():
    pieces = [b" ", b"\n", *LETTERS, b" a", b" ab"]
    plain, spaced = Speller(Named(pieces)), Speller(Named(pieces, space_first=True))
    for data in (b"ab", b" ab", b"c ab", b"\nab", b"  a"):
        assert spaced.written(spaced.spell(data)) == data
        assert spaced.spell(data) == plain.spell(data)


def test_text_that_looks_like_a_control_token_is_text():
    tokenizer = Named(single("<s>ab"), ["<s>"], opening=["<s>"])
    assert Speller(tokenizer).spell(b"a<s>b") == [3, 0, 1, 2, 4]
    assert Speller(tokenizer).spell(b"<s>") == [0, 1, 2]
    assert Speller(tokenizer).spell(b"a") == [3]


def test_bytes_that_no_token_writes_are_left_out_of_a_text_and_end_a_guess():
    speller = Speller(Named(single("abc")))
    assert speller.spell(b"axb") == [0, 1]
    assert speller.continue_(b"a", b"bxc") == [1]
    assert speller.continue_(b"x", b"bc") == [1, 2]
    assert speller.continue_(b"", b"x") == []


def test_a_guess_is_encoded_behind_the_text():
    speller = Speller(Named([*LETTERS, b" ", b"ab", b"bc", b" a"]))
    assert speller.spell(b"bc") == [10]
    # Behind an "a" the target would have joined what follows; it wrote "a", so it did not.
    assert speller.continue_(b"a", b"bc") == [10]
    assert speller.continue_(b"a", b"c a") == [2, 11]
    # Here the text as a whole is split otherwise than its end alone: a, bc and not ab, c.
    other = Speller(Named([*LETTERS, b"ab", b"dab", b"cd"]))
    assert other.continue_(b"da", b"bc") == [1, 2]
    # "bcd" alone, too, is b, cd; behind "a" it is ab, cd: the border cuts a token, so it is encoded alone.
    assert other.continue_(b"a", b"bcd") == [1, 10]


def test_control_tokens_by_label_as_an_end_or_as_text():
    target, draft = PAIRS["controls"]
    words = lexicon(target, draft)
    start, end, same, other = range(8, 12)
    assert words.control(same) == [9]
    assert words.control(start) == [11]
    assert words.control(end) == [9]  # it ends answers, so it is the draft's lowest end
    assert words.control(other) == []  # "<t>" has no letter that the draft could write
    assert words.control(99) == []
    assert words.to_target[10] == end  # <end>, which only the draft has, is the target's lowest end
    assert 12 not in words.to_target
    spelled = lexicon(Named(LETTERS, ["<ab>"]), Named([*LETTERS, b"<", b">"]))
    assert spelled.control(8) == [8, 0, 1, 9]


def test_openings_are_the_drafts_own_and_stand_once():
    target, draft = PAIRS["controls"]
    for text in ([0, 1], [8, 0, 1]):
        found = Transcript(lexicon(target, draft))
        found.read(text)
        assert found.tokens == [12, 0]
    both = lexicon(Named(LETTERS, ["<s>"]), Named(LETTERS, ["<s>"], opening=["<s>"]))
    found = Transcript(both)  # the target has no opening of its own; the prompt brought one
    found.read([8, 0, 8])
    assert found.tokens == [8, 0, 8]


def test_ids_without_meaning_have_no_counterpart():
    target, draft = PAIRS["the same"]
    words = Lexicon(target, draft, (5, 7))  # heads narrower than their vocabulary
    assert words.to_target == {i: i for i in range(5)}
    assert set(words.to_draft) == set(range(5))
    row = words.on_target(np.arange(7, dtype=np.float32))
    assert row.tolist() == [0, 1, 2, 3, 4]


def test_the_mass_of_tokens_that_mean_the_same_is_added():
    target, draft = PAIRS["words twice"]
    words = lexicon(target, draft)
    assert words.to_target == {0: 0, 1: 1, 2: 0, 4: 2, 5: 1, 6: 0}
    assert words.back == {0: 6, 1: 5, 2: 4}
    probs = np.array([1, 2, 3, 5, 4, 6, 7], np.float64)
    row = words.on_target(np.log(probs).astype(np.float32))
    found = Dist.of(np.exp(row))
    assert found.ids.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.probs, np.array([11, 8, 4]) / 23, rtol=1e-6)


def test_work_on_a_text_that_grows_is_in_proportion_to_what_is_new(monkeypatch):
    tokenizer = Named(BYTES)
    for text in (b"some words of a line\nthat ends " * 70, b"x" * 2200, "天".encode() * 700):
        words, spelled = lexicon(tokenizer, tokenizer), []
        inner = words.draft.spell
        monkeypatch.setattr(
            words.draft, "spell", lambda data, inner=inner, to=spelled: (to.append(len(data)), inner(data))[1]
        )
        found = Transcript(words)
        found.read(list(text[:2000]))
        assert sum(spelled) == 2000
        for end in range(2001, 2080):
            spelled.clear()
            found.read(list(text[:end]))
            assert sum(spelled) <= 2 * LONGEST
        assert found.settled > len(found.tokens) - LONGEST - 2


def test_a_stretch_ends_where_no_token_reaches_across():
    words = lexicon(Named(BYTES), Named(BYTES))
    cases = (
        (b"a" * SHORTEST + b" b", SHORTEST),
        (b"a" * SHORTEST + b"  b", 0),  # which of the two spaces goes with the word is the tokenizer's affair
        (b"a" * SHORTEST + b"\nb", SHORTEST + 1),
        (b"a" * SHORTEST + b"\n\nb", 0),  # nor which of two ends of lines
        (b"a" * SHORTEST + b"\n b", 0),
        (b"a" * SHORTEST + b" ", 0),
        (b"a" * LONGEST + b" b", LONGEST),
        (b"a" * (LONGEST + 1), 0),
        (b"a" * (LONGEST + 1) + b" b", LONGEST),
        (b"a" * (LONGEST - 1) + "天天".encode(), LONGEST - 1),
        (b"\x80" * (LONGEST + 9), LONGEST - 4),
    )
    for data, settled in cases:
        found = Transcript(words)
        found.read(list(data))
        assert (found.settled, len(found.tail)) == (settled, len(data) - settled)
