"""Forwards are counted, options arrive, and nothing is left behind."""

import gc

import pytest
from setups import Counting, script, table, tiny, twin, write, wrong

from redline.core.dist import Dist
from redline.core.errors import OptionError, UnknownName
from redline.core.pace import Confidence, Fixed, Streak
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Draft, Step, Verdict
from redline.drafters import ModelDrafter, Ngram, model
from redline.engine import Engine, generate, generate_many
from redline.engine.live import Live
from redline.engine.load import load

PROMPT = [3, 1, 4]


@pytest.fixture(autouse=True)
def _no_files(monkeypatch):
    """Open backends are used as they are; nothing here is to be opened by name."""

    def open_(path, **options):
        raise AssertionError(f"opened {path}")

    monkeypatch.setattr("redline.backends.open", open_, raising=False)


@pytest.mark.parametrize("depth", [1, 4, 8])
@pytest.mark.parametrize("rights", [0, 1, 4])
def test_49_forwards_are_as_many_as_rounds(depth, rights):
    """A wrong cache, or a prompt read again, made speculation slower than plain decoding, unsaid.

    transformers #36337, #26565, PR #32370; vllm #8439, #16258; llama.cpp #25908
    """
    prompt = [(3 * i) % 12 for i in range(25)]
    plain = write(tiny(), prompt, limits=30).tokens
    target = tiny()
    oracle = script([*prompt, *plain], min(rights, depth), depth)
    engine = Engine(target, oracle, pace=lambda: Fixed(depth), prefill=10)
    result = generate(engine, prompt, limits=Limits(30))
    assert target.passes[:3] == [[10], [10], [4]]
    assert len(target.passes) - 3 == result.metrics.steps
    for step, rows in zip(result.steps[3:], target.passes[3:], strict=True):
        assert rows == [len(step.proposed) + 1]
        assert rows[0] <= depth + 1
    assert result.metrics.prefill_tokens == 24


@pytest.mark.parametrize("depth", [1, 4, 8])
def test_49_the_draft_model_runs_once_for_each_guess(depth, monkeypatch):
    """Draft forwards beyond the guesses they make. transformers PR #32370"""
    monkeypatch.setattr(model, "AHEAD", 0)  # a pass a guess; test_drafters.py is about reading ahead
    target, backend = tiny(), tiny(seed=6)
    result = write(target, PROMPT * 9, ModelDrafter(backend, target), depth, limits=40)
    assert len(backend.passes) == 1 + result.metrics.proposed
    assert backend.passes[0] == [26], "the prompt is read once, while the target reads it"
    # Afterwards a round reads the target's own word, the last guess if it was kept, and its guesses.
    assert all(rows <= 2 for chunks in backend.passes[1:] for rows in chunks)


def test_49_a_pace_that_learns_bounds_the_waste_of_bad_guesses():
    """Drafts as long as ever at an acceptance of .07. llama.cpp #25908"""
    plain = write(tiny(), PROMPT, limits=60).tokens
    bad = wrong([*PROMPT, *plain])
    fixed = write(tiny(), PROMPT, bad, 8, limits=60).metrics
    streak = write(tiny(), PROMPT, bad, limits=60, pace=lambda: Streak(8)).metrics
    assert fixed.proposed > 8 * 50
    assert (
        streak.proposed == sum(range(2, 9)) + 60 - 7 - 1
    )  # 8, 7 … 2, then 1 a step; none for the last token


def test_50_a_depth_is_the_most_guesses_of_a_round():
    """The number of guesses asked for was not passed on. transformers #40739"""
    for depth in (0, 1, 3, 7):
        engine = load(tiny(), twin(tiny, tiny()), pace="fixed", depth=depth)
        steps = generate(engine, PROMPT, limits=Limits(40)).steps
        assert max(len(step.proposed) for step in steps) == depth
        assert [step.accepted for step in steps][1:-1] == [depth] * (len(steps) - 2)


def test_50_pace_and_rule_are_the_ones_that_were_named():
    """Options parsed and never forwarded. mlx-lm PR #1297; llama.cpp #25345"""
    engine = load(tiny(), twin(tiny, tiny()), rule="tree", pace="streak", depth=2)
    steps = generate(engine, PROMPT, limits=Limits(60)).steps[1:]
    assert [len(step.proposed) for step in steps[:4]] == [2, 4, 6, 8]
    assert engine.rule.name == "tree"
    sure = load(tiny(spread=0.01), twin(lambda: tiny(spread=0.01), tiny()), pace="confidence", depth=3)
    steps = generate(sure, PROMPT, limits=Limits(9)).steps[1:-1]
    assert {len(step.proposed) for step in steps} == {1}


def test_50_a_confidence_threshold_stops_the_draft_where_it_says():
    """A threshold that did nothing. llama.cpp #25908"""
    probable = [0.55, 0.45]
    for threshold, proposed in ((0.5, 2), (0.56, 1), (0.3, 3), (0.31, 2), (0.0, 3)):
        drafter = ModelDrafter(table(probable), table(probable))
        result = write(table(probable), [0], drafter, limits=4, pace=lambda t=threshold: Confidence(3, t))
        assert len(result.steps[0].proposed) == proposed


def test_50_lookup_sizes_are_honoured():
    """A lookup size that was dropped on the way. mlx-engine #280"""
    text = [1, 2, 3, 4, 5, 9, 2, 3]
    for shortest, longest, guess in ((1, 1, 4), (2, 2, 4), (2, 5, 4), (3, 5, None)):
        target = tiny()
        steps = write(target, text, Ngram(shortest, longest), 1, limits=3).steps
        assert steps[1].proposed == (() if guess is None else (guess,))


def test_50_a_copy_that_runs_into_the_end_of_the_text_goes_on_in_its_period():
    """Lookup that stops, or repeats one token, where the match overlaps the present. mlx-engine #280"""
    for text, guesses in (
        ([1, 2, 3, 1, 2], (3, 1, 2, 3, 1)),
        ([4, 5, 5, 5], (5, 5, 5, 5, 5)),
        ([1, 2, 9, 1, 2, 8, 7, 1, 2], (8, 7, 1, 2, 8)),  # the latest of two
        ([3, 1, 2, 9, 1, 2, 8, 3, 1, 2], (9, 1, 2, 8, 3)),  # the longest before the latest
    ):
        steps = write(tiny(), text, Ngram(1, 3), 5, limits=6).steps
        assert steps[1].proposed == guesses


def test_50_a_drafters_own_sampling_is_used_and_reported():
    """The draft model ignored its own options. LM Studio #499"""
    cold = ModelDrafter(table([0.6, 0.4]), table([0.6, 0.4]), Sampling(temperature=0.0))
    sampling = Sampling(temperature=1.0)
    result = write(table([0.6, 0.4]), [0], cold, rule="rejection", sampling=sampling, limits=60)
    assert {token for step in result.steps for token in step.proposed} == {0}


def test_50_what_is_unknown_or_cannot_work_is_an_error():
    """A draft that was loaded and silently not used. llama.cpp #25345"""
    for refused, error in (
        (lambda: load(tiny(), rule="gready"), UnknownName),
        (lambda: load(tiny(), pace="fixt"), UnknownName),
        (lambda: load(tiny(), depth=-1), OptionError),
        (lambda: load(tiny(), "ngram", draft_sampling=Sampling()), OptionError),
        (lambda: load(tiny(rollback="none"), "ngram"), OptionError),
        (lambda: load(tiny(), widht=3), TypeError),
        (lambda: Ngram(0, 3), OptionError),
        (lambda: Ngram(4, 3), OptionError),
    ):
        with pytest.raises(error):
            refused()


def test_50_the_result_says_how_many_rounds_speculated():
    """Requested and not active, without a hint. llama.cpp #25345"""
    result = write(tiny(), [1, 2, 3, 1, 2], Ngram(), limits=20)
    sources = {source for step in result.steps for source in step.sources}
    assert sources == {"ngram"}
    assert not any(step.sources for step in write(tiny(), [1]).steps)


def alive(*kinds):
    gc.collect()
    # By type: asking odd objects of other libraries for their __class__ makes some of them warn.
    return sum(issubclass(type(thing), kinds) for thing in gc.get_objects())


def test_53_two_hundred_requests_leave_nothing_behind():
    """Hidden states and caches kept for every request. vllm PR #15506; llama.cpp #27155, #25835"""
    target, backend = Counting(12, seed=5), Counting(12, seed=6)
    model, lookup = ModelDrafter(backend, target), Ngram(1, 3)
    engines = [
        Engine(target, model, pace=lambda: Fixed(3)),
        Engine(target, lookup, keep=2),
        Engine(target, keep=0),
    ]

    def request(i):
        prompt = [(i * 7 + j) % 12 for j in range(1 + i % 9)]
        engine = engines[i % 3]
        if i % 5 == 0:
            generate_many(engine, [prompt, prompt[:1], [i % 12]], limits=Limits(i % 11), seed=i)
        elif i % 7 == 0:
            engine.cancel(engine.submit(prompt))
        else:
            generate(engine, prompt, Sampling(temperature=float(i % 2)), Limits(1 + i % 13), seed=i)

    for i in range(50):
        request(i)
    before = alive(Dist, Draft, Step, Verdict, Live)
    for i in range(50, 200):
        request(i)
        assert target.opened <= 1 + 2
        assert backend.opened <= 1
        target.caches = [cache for cache in target.caches if not cache.closed]
        backend.caches = [cache for cache in backend.caches if not cache.closed]
    assert alive(Dist, Draft, Step, Verdict, Live) == before
    assert lookup._indexes == {}
    for engine in engines:
        assert engine.live == {}
        engine.close()
    assert target.opened == 0
    model.close()
    assert backend.opened == 0


def test_53_a_long_text_keeps_no_logits():
    """Logits retained for every round. vllm PR #15506"""
    engine = Engine(tiny(), twin(tiny, tiny()))
    engine.submit(PROMPT, Sampling(temperature=1.0), Limits(400), 1)
    counts = []
    for _ in range(6):
        engine.step()
    for _ in range(4):
        engine.step()
        counts.append(alive(Dist, Draft, Verdict))
    assert len(set(counts[1:])) == 1
