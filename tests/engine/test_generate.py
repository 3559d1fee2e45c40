"""Text in, text out: whole, in pieces, several at once."""

from functools import partial

import numpy as np
import pytest

from redline.core.dist import Dist
from redline.core.errors import OptionError, RedlineError
from redline.core.metrics import fold
from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Draft, Step
from redline.core.verify import RULES
from redline.drafters import ModelDrafter, Ngram, Replay
from redline.engine import Engine, Piece, generate, generate_many, stream
from redline.engine.generate import pieces, to_tokens
from redline.testing import ToyBackend, ToyTokenizer

HOT = Sampling(temperature=1.0)
PROMPT = [1, 2, 3]


class Chatty(ToyTokenizer):
    """Writes a conversation as the letters of its messages."""

    def chat(self, messages):
        return self.encode("".join(message["content"] for message in messages))


def chatty():
    return ToyBackend(tokenizer=Chatty([chr(97 + i).encode() for i in range(16)]))


def engine(drafter=None, depth=3, **options):
    return Engine(ToyBackend(**options), drafter, pace=lambda: Fixed(depth))


def test_a_prompt_may_be_text_ids_or_a_conversation():
    talk = [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"}]
    for prompt in ("abc", [0, 1, 2], (0, 1, 2), talk):
        assert to_tokens(Engine(chatty()), prompt) == [0, 1, 2]
        assert (
            generate(Engine(chatty()), prompt, limits=Limits(5)).tokens
            == generate(Engine(chatty()), [0, 1, 2], limits=Limits(5)).tokens
        )


def test_a_model_without_a_chat_template_says_so():
    with pytest.raises(RedlineError, match="no chat template"):
        generate(engine(), [{"role": "user", "content": "a"}])


def test_a_result_adds_up():
    result = generate(engine(), PROMPT, HOT, Limits(9), 4)
    assert len(result.tokens) == 9
    assert result.text == "".join(chr(97 + token) for token in result.tokens)
    assert (result.finish, result.seed) == ("length", 4)
    assert result.tokens == tuple(token for step in result.steps for token in step.emitted)
    assert result.metrics == fold(result.steps)


def test_no_tokens_at_all():
    result = generate(engine(Ngram()), PROMPT, limits=Limits(0))
    assert (result.text, result.tokens, result.finish, len(result.steps)) == ("", (), "length", 1)
    assert list(stream(engine(), PROMPT, limits=Limits(0))) == []


def test_without_limits_a_text_ends_with_the_models_end_or_the_context():
    assert len(generate(engine(context=20), PROMPT, limits=None).tokens) == 17
    plain = generate(engine(), PROMPT, HOT, Limits(40), 1).tokens
    ending = Engine(ToyBackend(tokenizer=ToyTokenizer.letters(16, ends=[plain[8]])))
    result = generate(ending, PROMPT, HOT, None, 1)
    assert result.tokens == plain[: plain.index(plain[8]) + 1]
    assert result.finish == "stop"


def test_many_are_each_alone():
    prompts = [PROMPT, [4], [5, 6, 7, 8]]
    together = generate_many(engine(Ngram(1, 2)), prompts, HOT, Limits(12), 2)
    assert [r.tokens for r in together] == [generate(engine(), p, HOT, Limits(12), 2).tokens for p in prompts]
    assert generate_many(engine(), []) == []


def test_one_bad_prompt_among_many_holds_nothing():
    machine = engine()
    with pytest.raises(OptionError):
        generate_many(machine, [PROMPT, [4], []])
    assert machine.live == {}


def test_pieces_say_where_they_come_from():
    plain = generate(engine(), PROMPT, limits=Limits(12)).tokens
    oracle = Replay(
        [[*PROMPT, *plain]], 16, script=lambda at: {3: (2, 1), 6: (3, 0), 10: (0, 0)}.get(at, (0, 1))
    )
    origins = [(p.origin, p.source) for p in stream(engine(oracle), PROMPT, limits=Limits(12))]
    assert origins == [
        *[("guess", "replay")] * 2,
        ("correction", "replay"),
        *[("guess", "replay")] * 3,
        ("bonus", "replay"),
        ("plain", ""),
        *[("correction", "replay")] * 3,
        ("plain", ""),  # the last token: nobody was asked
    ]


def test_a_text_that_ends_among_its_guesses_has_no_word_of_the_targets_own():
    plain = generate(engine(), PROMPT, HOT, Limits(20), 1).tokens
    limits = Limits(20, stop_tokens=frozenset({plain[2]}))
    end = plain.index(plain[2]) + 1
    machine = engine(ModelDrafter(ToyBackend(), ToyBackend()), depth=8)
    got = list(stream(machine, PROMPT, HOT, limits, 1))
    assert [piece.origin for piece in got] == ["guess"] * end
    assert got[-1] == Piece("", plain[2], "guess", "toy-16-0")


def test_pieces_of_a_step_that_read_the_prompt_are_none():
    assert pieces(Step(0, 5, prefilled=5)) == []


def test_a_stream_begins_at_once_so_that_mistakes_show_where_they_are_made():
    machine = engine()
    unread = stream(machine, PROMPT)
    assert len(machine.live) == 1
    unread.close()
    assert machine.live == {}
    with pytest.raises(OptionError):
        stream(machine, [])


def test_a_stream_that_nobody_reads_or_closes_leaves_nothing_behind():
    machine = engine()
    stream(machine, PROMPT)
    assert machine.step() == []
    assert machine.live == {}


def test_a_stream_tells_its_seed_and_its_result():
    machine = engine()
    pieces = stream(machine, PROMPT, HOT, Limits(9))
    text = "".join(piece.text for piece in pieces)
    again = generate(machine, PROMPT, HOT, Limits(9), seed=pieces.seed)
    assert (pieces.result.text, pieces.result.tokens) == (text, again.tokens)
    assert again.text == text


def test_several_prompts_are_a_list_and_a_prompt_is_of_one_kind():
    machine = engine()
    with pytest.raises(OptionError, match="One prompt was given for several"):
        generate_many(machine, "abc")
    for odd in (["1"], [1.7], [1, {"role": "user", "content": "x"}]):
        with pytest.raises(OptionError, match="is not a prompt"):
            generate(machine, odd)
    assert (
        generate(machine, np.array([1, 2]), limits=Limits(3)).tokens
        == generate(machine, [1, 2], limits=Limits(3)).tokens
    )


def read_all(text):
    return [piece.token for piece in text]


def test_readers_of_one_engine_take_turns_and_nobody_loses_anything():
    machine = engine()
    alone = [generate(machine, prompt, HOT, Limits(20), seed=5).tokens for prompt in (PROMPT, [4], [5, 6])]
    one, two = (stream(machine, prompt, HOT, Limits(20), seed=5) for prompt in (PROMPT, [4]))
    got = [[], []]
    for _ in range(20):
        for tokens, text in zip(got, (one, two), strict=True):
            tokens.append(next(text).token)
    third = generate(machine, [5, 6], HOT, Limits(20), seed=5)
    assert [tuple(tokens) for tokens in got] + [third.tokens] == alone
    assert read_all(one) == read_all(two) == []
    assert (one.result.tokens, two.result.tokens) == (alone[0], alone[1])


def test_a_text_that_others_moved_to_its_end_can_still_be_read():
    machine = engine()
    early = stream(machine, PROMPT, limits=Limits(9))
    generate(machine, [4], limits=Limits(50))
    assert tuple(read_all(early)) == generate(machine, PROMPT, limits=Limits(9)).tokens


@pytest.mark.parametrize("read", [0, 3])
def test_a_text_that_is_cancelled_ends_and_keeps_what_it_had(read):
    for end in ("stream", "engine", "key"):
        machine = engine()
        text = stream(machine, PROMPT, limits=Limits(50))
        key = next(iter(machine.live))
        got = [next(text).token for _ in range(read)]
        {"stream": text.close, "engine": machine.close, "key": partial(machine.cancel, key)}[end]()
        assert machine.live == {}
        rest = read_all(text)
        assert text.result.finish == "cancelled"
        assert list(text.result.tokens)[:read] == got
        assert len(rest) == 0 or end != "stream"


def test_a_stream_is_a_context():
    machine = engine()
    with stream(machine, PROMPT, limits=Limits(50)) as text:
        next(text)
    assert machine.live == {}


def test_there_is_no_result_before_the_end():
    text = stream(engine(), PROMPT)
    for _ in range(2):
        with pytest.raises(OptionError, match="has not ended"):
            text.result  # noqa: B018
        next(text)


def test_a_fault_of_one_text_is_its_own():
    machine = engine()
    good = stream(machine, PROMPT, limits=Limits(9))
    bad = stream(machine, PROMPT, Sampling(bias=dict.fromkeys(range(16), -float("inf"))), Limits(9))
    with pytest.raises(OptionError, match="No token can be chosen"):
        read_all(bad)
    assert bad.result.finish == "failed"
    assert tuple(read_all(good)) == generate(machine, PROMPT, limits=Limits(9)).tokens


def test_a_pass_that_fails_tells_every_reader_why():
    class Moody(ToyBackend):
        def extend(self, chunks):
            if len(self.passes) > 3:
                raise MemoryError
            return super().extend(chunks)

    machine = Engine(Moody())
    one, two = stream(machine, PROMPT), stream(machine, [4])
    for text in (one, two):
        with pytest.raises(MemoryError):
            read_all(text)
    assert machine.live == {}
    lost = stream(Engine(ToyBackend()), PROMPT)
    lost._engine.live.clear()
    with pytest.raises(RedlineError, match="has been lost"):
        next(lost)


def test_every_prompt_may_have_a_seed_of_its_own():
    machine = engine()
    together = generate_many(machine, [PROMPT] * 3, HOT, Limits(20), seed=[1, 2, 3])
    assert [r.tokens for r in together] == [
        generate(machine, PROMPT, HOT, Limits(20), seed=seed).tokens for seed in (1, 2, 3)
    ]
    assert len({r.tokens for r in together}) == 3
    with pytest.raises(OptionError, match="2 seeds were given for 3 prompts"):
        generate_many(machine, [PROMPT] * 3, seed=[1, 2])


def test_an_error_while_following_leaves_nothing():
    class Broken(ToyBackend):
        def extend(self, chunks):
            raise MemoryError

    machine = Engine(Broken())
    with pytest.raises(MemoryError):
        generate_many(machine, [PROMPT, [4]])
    assert machine.live == {}


def test_seeds():
    machine = engine()
    a, b = (generate(machine, PROMPT, HOT, Limits(20)) for _ in range(2))
    assert a.tokens != b.tokens
    assert a.seed != b.seed
    assert generate(machine, PROMPT, HOT, Limits(20), a.seed).tokens == a.tokens
    c, d = generate_many(machine, [PROMPT] * 2, HOT, Limits(20))
    assert c.tokens != d.tokens
    c, d = generate_many(machine, [PROMPT] * 2, HOT, Limits(20), 5)
    assert c.tokens == d.tokens
    assert generate(machine, PROMPT, HOT, Limits(20), 0).seed == 0


class Bushy(Ngram):
    """Guesses every continuation of two tokens over a few ids."""

    name = "bushy"

    def propose(self, scenes):
        ids = range(5)
        tokens = [*ids, *(token for _ in ids for token in ids)]
        parents = [*[-1] * 5, *(node for node in ids for _ in ids)]
        full = Draft(
            tuple(tokens), tuple(parents), tuple(map(Dist.point, tokens)), (self.name,) * len(tokens)
        )
        return [full.cut(s.budget.depth) if s.budget.nodes >= 30 else Draft.empty() for s in scenes]


@pytest.mark.parametrize("sampling", [Sampling(), HOT], ids=["greedy", "sampled"])
@pytest.mark.parametrize("rule", ["matching", "tree"])
def test_trees_keep_one_path_and_forget_the_rest(rule, sampling):
    make = lambda drafter: Engine(  # noqa: E731
        ToyBackend(5), drafter, rule=RULES[rule], pace=lambda: Fixed(2, nodes=30)
    )
    plain = generate(make(None), PROMPT, sampling, Limits(60), 1)
    result = generate(make(Bushy()), PROMPT, sampling, Limits(60), 1)
    bushy = [step for step in result.steps if step.proposed]
    assert all(step.accepted == step.depth == 2 for step in bushy)
    assert len(bushy) == 20
    if rule == "matching" or sampling.temperature == 0:
        assert result.tokens == plain.tokens
    chain = generate(make(Ngram(1, 1)), [*PROMPT, *result.tokens], sampling, Limits(1), 1)
    assert chain.tokens, "the text can be gone on with"


def test_numpys_numbers_are_numbers():
    machine = engine()
    plain = generate(machine, PROMPT, Sampling(temperature=1.0, top_k=5), Limits(9), seed=7)
    for whole in (np.int64, np.uint8):
        sampling, limits = Sampling(temperature=1.0, top_k=whole(5)), Limits(whole(9))
        assert generate(machine, np.array(PROMPT), sampling, limits, seed=whole(7)).tokens == plain.tokens
