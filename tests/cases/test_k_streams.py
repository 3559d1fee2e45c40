"""A stream carries the same text however it is cut, and can be left at any time."""

import pytest
from setups import Counting, Says, byte_tokenizer, forced, script, tiny, twin, write

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Ending, Limits
from redline.core.types import Draft
from redline.drafters import ModelDrafter
from redline.engine import Engine, generate, stream
from redline.testing import ToyTokenizer

PROMPT = [3, 1, 4]
CALL = '<call>{"name": "find", "args": {"city": "Łódź", "n": 3}}</call>'


@pytest.mark.parametrize("stop", [(), ("</call>",), ('"n"', "ódź")])
def test_44_every_split_into_chunks_gives_the_same_text(stop):
    """Readers written for one token a chunk lost arguments when several came. vllm #41967, #55082, #56077"""
    tokenizer = byte_tokenizer()
    tokens = list(CALL.encode())
    whole = Ending(Limits(stop=stop), 1000, tokenizer).take(tokens)
    assert "".join(whole[1]) == CALL[: min((CALL.find(text) for text in stop), default=None)]
    for first in range(len(tokens) + 1):
        for second in {first, min(first + 3, len(tokens)), len(tokens)}:
            ending = Ending(Limits(stop=stop), 1000, tokenizer)
            parts = [tokens[:first], tokens[first:second], tokens[second:]]
            taken = [ending.take(part) for part in parts]
            assert sum((emitted for emitted, _ in taken), ()) == whole[0]
            assert sum((texts for _, texts in taken), ()) == whole[1]


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_45_no_piece_ever_holds_half_a_character(depth):
    """Replacement characters where a block ended inside a character. hipfire PR #595; exo PR #1691"""
    said = "A🎉é漢B"
    data = list(said.encode())
    model = lambda: forced(data, 257, tokenizer=byte_tokenizer())  # noqa: E731
    drafters = [None, twin(model, model())]
    drafters += [script([256, *data], rights, depth, 257) for rights in range(depth + 1)]
    for drafter in drafters:
        engine = Engine(model(), drafter, pace=lambda: Fixed(depth))
        pieces = list(stream(engine, [256], limits=Limits(len(data))))
        assert [piece.token for piece in pieces] == data
        assert [piece.text for piece in pieces if piece.text] == list(said)
        assert all("\ufffd" not in piece.text for piece in pieces)


def test_45_a_text_cut_inside_a_character_says_so_once():
    """Bytes that never become a character are shown at the end and not lost. exo PR #1691"""
    data = list("é漢".encode())
    for drafting in (False, True):
        model = lambda: forced(data, 257, tokenizer=byte_tokenizer())  # noqa: E731
        result = write(model(), [256], twin(model, model()) if drafting else None, limits=4)
        assert result.text == "é\ufffd"


def test_44_pieces_do_not_depend_on_how_they_were_guessed():
    """Text attached to other tokens when they come in blocks. vllm #55082"""
    pieces = [b"ab", b"a", b"b", b"", b"\xc3", b"\xa9", b"ca", b"b.", b" ", b"x", b"y", b"z"]
    model = lambda: tiny(tokenizer=ToyTokenizer(pieces))  # noqa: E731
    for stop in ((), ("ab.", "yz"), ("b c",)):
        limits = Limits(60, stop)
        plain = [(p.token, p.text) for p in stream(Engine(model()), PROMPT, limits=limits)]
        for depth in (1, 2, 7, 60):
            engine = Engine(model(), twin(model, model()), pace=lambda d=depth: Fixed(d))
            assert [(p.token, p.text) for p in stream(engine, PROMPT, limits=limits)] == plain


@pytest.mark.parametrize("read", [0, 1, 2, 3, 5, 7])
def test_46_a_reader_that_leaves_frees_its_place(read):
    """A slot never freed after its client had gone. llama.cpp (am17an) #20"""
    expected = write(tiny(), PROMPT).tokens
    target, backend = Counting(12, seed=5), Counting(12, seed=5)
    engine = Engine(target, ModelDrafter(backend, target), pace=lambda: Fixed(3))
    pieces = stream(engine, PROMPT, limits=Limits(24), seed=7)
    got = [next(pieces).token for _ in range(read)]
    pieces.close()
    assert tuple(got) == expected[:read]
    assert engine.live == {}
    assert list(pieces) == []
    passes = len(target.passes)
    assert engine.step() == []
    assert len(target.passes) == passes, "nobody works on behind the reader's back"
    assert generate(engine, PROMPT, limits=Limits(24), seed=7).tokens == expected
    engine.close()
    assert target.opened == 0
    assert backend.opened <= 1  # the drafter's own kept cache
    engine.drafter.close()
    assert backend.opened == 0


def test_46_leaving_while_the_drafter_guesses_frees_the_place_too():
    """An interrupt in the middle of drafting. llama.cpp (am17an) #20"""
    expected = write(tiny(), PROMPT).tokens
    calls = []

    def draft(scene):
        calls.append(scene.key)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return Draft.chain([0], "says")

    target = Counting(12, seed=5)
    engine = Engine(target, Says(draft))
    with pytest.raises(KeyboardInterrupt):
        list(stream(engine, PROMPT, limits=Limits(24)))
    assert (engine.live, target.opened) == ({}, 0)
    assert generate(engine, PROMPT, limits=Limits(24)).tokens == expected


def test_46_one_reader_leaves_and_the_others_read_on():
    """A cancelled text must not take its neighbours along. llama.cpp (am17an) #20"""
    hot = Sampling(temperature=1.0)
    expected = write(tiny(), [9], sampling=hot).tokens
    engine = Engine(tiny(), twin(tiny, tiny()))
    leaving = stream(engine, PROMPT, hot, Limits(24))
    next(leaving)
    key = engine.submit([9], hot, Limits(24), 7)
    leaving.close()
    written = []
    while key in engine.live:
        for step in engine.step():
            assert step.key == key
            written += step.emitted
    assert tuple(written) == expected
