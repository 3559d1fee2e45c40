"""`TextStream`: never half a character, never part of a stop string, however the bytes are cut."""

from itertools import combinations, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redline.core.errors import OptionError
from redline.core.text import TextStream

SAMPLE = "A🎉é漢B".encode()


def chunks(pieces, stops=()):
    """What comes out with each piece, and at the end."""
    stream = TextStream(stops)
    return [*(stream.push(piece) for piece in pieces), stream.flush()]


def cut(data, places):
    edges = [0, *sorted(places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def first_stop(text, stops):
    """The definition: read on character by character until the text ends with a stop string."""
    for end in range(1, len(text) + 1):
        met = [stop for stop in stops if text[:end].endswith(stop)]
        if met:
            return text[: end - max(map(len, met))]
    return text


def test_every_way_to_cut_a_text_of_every_width_of_character():
    for n in range(len(SAMPLE)):
        for places in combinations(range(1, len(SAMPLE)), n):
            parts = chunks(cut(SAMPLE, places))
            assert "".join(parts) == "A🎉é漢B"
            assert not any("�" in part for part in parts)


def test_a_character_comes_with_its_last_byte():
    assert chunks([b"\xf0", b"\x9f", b"\x8e", b"\x89!"]) == ["", "", "", "🎉!", ""]


def test_text_that_cannot_be_a_stop_string_is_not_held_back():
    assert chunks([b"a", b"b", b"c"], ["zz"]) == ["a", "b", "c", ""]
    assert chunks([b"a", b"z", b"c"], ["zz"]) == ["a", "", "zc", ""]


def test_a_stop_string_across_pieces_inside_one_and_at_the_end():
    assert chunks([b"one ST", b"OP two"], ["STOP"]) == ["one ", "", ""]
    assert chunks([b"one STOP two"], ["STOP"]) == ["one ", ""]
    assert chunks([b"one STO"], ["STOP"]) == ["one ", "STO"]
    assert chunks([b"one STOP", b"STOP"], ["STOP"]) == ["one ", "", ""]


def test_nothing_comes_after_a_stop():
    stream = TextStream(["x"])
    assert (stream.push(b"axb"), stream.stopped) == ("a", True)
    assert (stream.push(b"cd"), stream.flush(), stream.flush()) == ("", "", "")


def test_the_stop_string_that_is_complete_first_wins():
    for pieces in ([b"abcd"], [b"abc", b"d"], [b"a", b"b", b"c", b"d"]):
        assert "".join(chunks(pieces, ["bcd", "c"])) == "ab"
        assert "".join(chunks(pieces, ["abc", "c"])) == ""
        assert "".join(chunks(pieces, ["d", "bcd"])) == "a"


def test_a_stop_string_that_overlaps_itself():
    for pieces in ([b"aababaac"], [b"aaba", b"baac"], list(map(bytes, zip(b"aababaac", strict=True)))):
        assert "".join(chunks(pieces, ["abaac"])) == "aab"


def test_a_stop_string_of_wide_characters_cut_inside_one():
    assert "".join(chunks(cut("one 漢字 two".encode(), [5, 8]), ["漢字"])) == "one "


def test_broken_bytes_become_the_replacement_character_once_that_is_certain():
    assert chunks([b"a\xff", b"b"]) == ["a�", "b", ""]
    assert chunks([b"a\xf0\x9f"]) == ["a", "�"]
    assert chunks([b"a\xf0\x9f", b"b"]) == ["a", "�b", ""]


def test_a_stop_string_completed_by_the_replacement_character_at_the_end():
    stream = TextStream(["a�"])
    assert (stream.push(b"xa\xf0"), stream.flush(), stream.stopped) == ("x", "", True)


def test_an_empty_stop_string_is_refused():
    with pytest.raises(OptionError, match="empty"):
        TextStream(["a", ""])


@given(st.lists(st.binary(max_size=5), max_size=8))
def test_any_bytes_come_out_as_their_decoding(pieces):
    assert "".join(chunks(pieces)) == b"".join(pieces).decode(errors="replace")


@given(
    st.lists(st.text("ab漢", max_size=4).map(str.encode), max_size=8),
    st.lists(st.text("ab漢", min_size=1, max_size=4), min_size=1, max_size=3),
    st.data(),
)
@example([b"abc"], ["bc", "abc"], None)
def test_the_text_up_to_the_first_stop_in_any_cut(pieces, stops, data):
    whole = b"".join(pieces)
    expected = first_stop(whole.decode(), stops)
    assert "".join(chunks(pieces, stops)) == expected
    if data and len(whole) > 1:
        places = data.draw(st.sets(st.integers(1, len(whole) - 1)))
        parts = chunks(cut(whole, places), stops)
        assert "".join(parts) == expected
        assert not any("�" in part for part in parts)
