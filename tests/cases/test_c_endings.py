"""A text ends where plain decoding ends it: stop tokens, stop strings, limits."""

import pytest
from setups import Counting, always, script, tiny, twin, write, wrong

from redline.core.pace import Fixed
from redline.core.stop import Limits
from redline.drafters import ModelDrafter, Ngram
from redline.engine import Engine, stream
from redline.testing import ToyTokenizer

PROMPT = [3, 1, 4]
PIECES = [b"the ", b"cat", b" sat", b" on", b"ab", b"ca", b"b", b". ", b"\n", b"x", b"yz", b"!"]


def model():
    return tiny(tokenizer=ToyTokenizer(PIECES))


def everybody(text, depth):
    return [twin(model, model()), script(text, 2, depth), wrong(text), Ngram(1, 2)]


@pytest.mark.parametrize("at", range(24))
def test_13_a_stop_token_inside_a_block_ends_the_text_there(at):
    """Only a block's last token was checked, so text went on behind an accepted end token.

    transformers #47912, PR #48981; koboldcpp #1276; openvino.genai PR #1951
    """
    plain = write(model(), PROMPT).tokens
    for ends in ({plain[at]}, {plain[at], plain[(at * 5) % 24]}):
        first = min(plain.index(end) for end in ends)
        limits = Limits(24, stop_tokens=frozenset(ends))
        for drafter in (None, *everybody([*PROMPT, *plain], 8)):
            result = write(model(), PROMPT, drafter, 8, limits=limits)
            assert result.tokens == plain[: first + 1]
            assert result.finish == "stop"
            assert result.text == "".join(PIECES[token].decode() for token in plain[:first])
            engine = Engine(model(), drafter, pace=lambda: Fixed(8))
            pieces = list(stream(engine, PROMPT, limits=limits, seed=7))
            assert tuple(piece.token for piece in pieces) == result.tokens
            assert "".join(piece.text for piece in pieces) == result.text


def test_13_the_models_own_end_tokens_count_unless_others_are_named():
    """Several end tokens, of which only the first was known. transformers #47912"""
    plain = write(model(), PROMPT).tokens
    ends = (plain[9], plain[4])
    ending = lambda: tiny(tokenizer=ToyTokenizer(PIECES, ends))  # noqa: E731
    first = min(plain.index(end) for end in ends)
    assert write(ending(), PROMPT, twin(ending, ending()), 8).tokens == plain[: first + 1]
    assert (
        write(ending(), PROMPT, twin(ending, ending()), 8, limits=Limits(24, (), frozenset())).tokens == plain
    )


@pytest.mark.parametrize("depth", [1, 3, 16])
def test_15_a_stop_string_is_found_wherever_it_falls(depth):
    """A stop text honoured only at a block's end, or missed early in a long block.

    transformers #48039; sglang PR #23802; exllamav2 #108
    """
    plain = write(model(), PROMPT)
    words = [PIECES[token].decode() for token in plain.tokens]
    stops = [("".join(words[i : i + 2]),) for i in range(0, 22, 3)]
    stops += [("".join(words[i : i + 5])[1:-1],) for i in range(0, 16, 4)]  # begins and ends inside tokens
    stops += [("never", "".join(words[6:8]), "".join(words[3:5]))]
    for stop in stops:
        end = min(at for at in (plain.text.find(text) for text in stop) if at >= 0)
        limits = Limits(24, stop)
        expected = write(model(), PROMPT, limits=limits)
        assert (expected.text, expected.finish) == (plain.text[:end], "stop")
        for drafter in everybody([*PROMPT, *plain.tokens], depth):
            result = write(model(), PROMPT, drafter, depth, limits=limits)
            assert (result.text, result.tokens) == (expected.text, expected.tokens)


def test_15_a_stop_string_that_never_comes_changes_nothing():
    """Text held back for a stop string and lost at the end. exllamav2 #108"""
    plain = write(model(), PROMPT)
    for i in range(1, len(plain.text)):
        limits = Limits(24, (plain.text[-i:] + "#",))
        assert write(model(), PROMPT, twin(model, model()), 16, limits=limits).text == plain.text


@pytest.mark.parametrize("depth", [1, 4, 7])
def test_18_exactly_the_tokens_that_were_asked_for(depth):
    """One token too many, or fewer than reported, because the draft ignored what was left.

    transformers PR #46993, #47195; ik_llama.cpp PR #2358; mlx-lm PR #1591
    """
    for tokens in sorted({0, 1, 2, depth - 1, depth, depth + 1, depth + 2, 3 * depth}):
        plain = write(tiny(), PROMPT, limits=tokens)
        for make in (lambda: twin(tiny, tiny()), lambda: Ngram(1, 1), lambda: always(0)):
            result = write(tiny(), PROMPT, make(), depth, limits=tokens)
            assert result.tokens == plain.tokens
            assert len(result.tokens) == result.metrics.tokens == tokens
            assert result.finish == "length"
            decoding = [step for step in result.steps if step.emitted]
            assert all(step.position + len(step.proposed) < len(PROMPT) + tokens for step in decoding)


def test_18_nobody_guesses_when_one_token_remains():
    """A draft forward whose guess can never be used. transformers PR #46993"""
    for tokens in (1, 5, 9):
        backend = tiny()
        target = tiny()
        result = write(target, PROMPT, ModelDrafter(backend, target), 3, limits=tokens)
        assert len(result.steps[-1].proposed) == (tokens - 1) % 4
        reading = 1 if tokens > 1 else 0
        assert len(backend.passes) == reading + sum(len(step.proposed) for step in result.steps)


def test_18_a_text_without_a_limit_fills_the_context():
    """The value for "no limit" crashed, or lost the last token. mlx-lm PR #1591"""
    small = lambda: Counting(12, seed=5, context=40)  # noqa: E731
    plain = write(small(), PROMPT, limits=Limits())
    assert len(plain.tokens) == 37
    for depth in (1, 5, 36, 100):
        target = small()
        assert write(target, PROMPT, twin(small, target), depth, limits=Limits()).tokens == plain.tokens
        assert target.furthest <= 40
    assert (
        write(small(), [1] * 39, twin(small, small()), limits=Limits()).tokens
        == write(small(), [1] * 39, limits=Limits()).tokens
    )


def test_19_a_model_without_an_end_token_writes_on():
    """A type error once a match was found and no end token existed. transformers PR #46790"""
    prompt = [5, 6, 7, 8, 9, 10, 11, 7, 8]
    assert tiny().tokenizer.ends == frozenset()
    plain = write(tiny(), prompt, limits=40).tokens
    result = write(tiny(), prompt, Ngram(), limits=40)
    assert result.tokens == plain
    assert result.steps[1].proposed, "the prompt's repetition is there to be found"
