"""`Ending`: where an output ends is decided token by token, wherever the steps were cut."""

import pytest

from redline.core.errors import OptionError
from redline.core.stop import Ending, Limits
from redline.testing import ToyTokenizer

LETTERS = ToyTokenizer.letters(26)
TEXT = list(range(10))  # a b c … j


def run(limits, tokens=TEXT, block=4, room=1000, tokenizer=LETTERS):
    """Tokens, text and reason, with the tokens given in blocks."""
    ending, emitted, texts = Ending(limits, room, tokenizer), [], []
    for at in range(0, len(tokens), block):
        new, words = ending.take(tokens[at : at + block])
        assert len(new) == len(words)
        emitted += new
        texts += words
        if ending.finish:
            break
    return emitted, "".join(texts), ending.finish


@pytest.mark.parametrize("block", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("end", TEXT)
def test_a_stop_token_ends_the_text_wherever_it_stands(end, block):
    emitted, text, finish = run(Limits(stop_tokens=frozenset({end, 25})), block=block)
    assert (emitted, text, finish) == (TEXT[: end + 1], "abcdefghij"[:end], "stop")


def test_the_models_own_ends_hold_unless_others_are_named():
    tokenizer = ToyTokenizer.letters(26, ends=[3, 5])
    assert run(Limits(), tokenizer=tokenizer)[0] == TEXT[:4]
    assert run(Limits(stop_tokens=frozenset({5})), tokenizer=tokenizer)[0] == TEXT[:6]
    assert run(Limits(stop_tokens=frozenset()), tokenizer=tokenizer) == (TEXT, "abcdefghij", None)


@pytest.mark.parametrize("block", [1, 4, 10])
@pytest.mark.parametrize("limit", [1, 3, 4, 5, 9, 10])
def test_a_limit_is_met_exactly(limit, block):
    assert run(Limits(max_tokens=limit), block=block) == (TEXT[:limit], "abcdefghij"[:limit], "length")


def test_a_limit_of_zero_has_ended_before_it_began():
    ending = Ending(Limits(max_tokens=0), 10, LETTERS)
    assert ending.finish == "length"
    assert ending.take(TEXT) == ((), ())


def test_the_room_in_the_context_is_a_limit_too():
    assert run(Limits(), room=7) == (TEXT[:7], "abcdefg", "length")
    assert run(Limits(max_tokens=9), room=7)[0] == TEXT[:7]
    assert run(Limits(max_tokens=5), room=7)[0] == TEXT[:5]
    assert Ending(Limits(), 0, LETTERS).finish == "length"


def test_what_is_left_is_counted_down():
    ending = Ending(Limits(max_tokens=5), 100, LETTERS)
    ending.take([1, 2])
    assert (ending.left, ending.finish) == (3, None)


@pytest.mark.parametrize("block", [1, 2, 3, 10])
def test_a_stop_string_ends_the_text_with_the_token_that_completes_it(block):
    for at in range(9):
        stop = "abcdefghij"[at : at + 2]
        emitted, text, finish = run(Limits(stop=(stop,)), block=block)
        assert (emitted, text, finish) == (TEXT[: at + 2], "abcdefghij"[:at], "stop")


def test_a_stop_string_that_ends_inside_a_token():
    tokenizer = ToyTokenizer([b"one ", b"tw", b"o th", b"ree"])
    assert run(Limits(stop=("two",)), [0, 1, 2, 3], tokenizer=tokenizer) == ([0, 1, 2], "one ", "stop")


def test_stopping_beats_the_limit_where_both_are_met():
    assert run(Limits(max_tokens=3, stop=("c",)))[2] == "stop"
    assert run(Limits(max_tokens=3, stop_tokens=frozenset({2})))[2] == "stop"


def test_text_held_back_for_a_stop_string_comes_out_at_the_end():
    assert run(Limits(max_tokens=3, stop=("cx",))) == (TEXT[:3], "abc", "length")
    assert run(Limits(stop=("cdx",), stop_tokens=frozenset({4}))) == (TEXT[:5], "abcd", "stop")


def test_half_a_character_at_the_end_is_shown_as_such():
    tokenizer = ToyTokenizer([b"a", b"\xf0\x9f"])
    assert run(Limits(max_tokens=2), [0, 1], tokenizer=tokenizer)[1] == "a�"


def test_control_tokens_add_no_text():
    tokenizer = ToyTokenizer([b"a", b"", b"b"])
    assert run(Limits(), [0, 1, 2], tokenizer=tokenizer)[1] == "ab"


def test_a_negative_limit_and_an_empty_stop_string_are_refused():
    with pytest.raises(OptionError, match="max_tokens is -1"):
        Limits(max_tokens=-1)
    with pytest.raises(OptionError, match="empty"):
        Ending(Limits(stop=("",)), 5, LETTERS)
