"""Texts come, move together, and go; what goes wrong takes nothing else along."""

from itertools import count

import pytest

from redline.core.chance import Keyed
from redline.core.errors import OptionError, RewindError
from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Budget, Draft
from redline.core.verify import RULES
from redline.drafters import ModelDrafter, Ngram, Replay
from redline.engine import Engine, generate, generate_many, live, loop
from redline.testing import ToyBackend, ToyTokenizer

HOT = Sampling(temperature=1.0)
PROMPTS = [[1, 2, 3, 1, 2], [4], [5, 6] * 5]


class Toy(ToyBackend):
    """A toy that remembers its caches, and can fail in a pass of choice after reading half of it."""

    def __init__(self, *args, fail_at=None, error=None, **options):
        super().__init__(*args, **options)
        self.caches, self.fail_at = [], fail_at
        self.error = error or RuntimeError("the pass failed")

    def open(self):
        self.caches.append(super().open())
        return self.caches[-1]

    def extend(self, chunks):
        if self.fail_at == len(self.passes):
            self.fail_at = None
            super().extend(chunks[: (len(chunks) + 1) // 2])
            raise self.error
        return super().extend(chunks)

    @property
    def opened(self):
        return sum(not cache.closed for cache in self.caches)


class Says:
    """A drafter that says what a function of the scenes returns, and remembers what it was told."""

    name = "says"
    confident = False
    draws = False

    def __init__(self, propose=lambda scenes: [Draft.empty() for _ in scenes]):
        self.propose = propose
        self.told = []

    def start(self, key, tokens):
        self.told.append(("start", key, list(tokens)))

    def read(self, key, tokens):
        self.told.append(("read", key, list(tokens)))

    def observe(self, key, emitted, verdict):
        self.told.append(("observe", key, list(emitted)))

    def stop(self, key):
        self.told.append(("stop", key))

    def close(self):
        self.told.append(("close",))


def solo(prompt, sampling=None, limits=20, seed=3, **options):
    return generate(Engine(ToyBackend(), **options), prompt, sampling, Limits(limits), seed).tokens


def run(engine, keys):
    written = {key: [] for key in keys}
    while engine.live:
        for step in engine.step():
            written[step.key] += step.emitted
    return written


def test_a_text_moves_with_every_step_and_leaves_at_its_end():
    engine = Engine(ToyBackend(), prefill=2)
    key = engine.submit(PROMPTS[0], limits=Limits(3))
    first, second, *rest = [engine.step()[0] for _ in range(5)]
    assert (first.prefilled, second.prefilled, first.emitted) == (2, 2, ())
    assert [step.position for step in rest] == [5, 6, 7]
    assert [step.finish for step in rest] == [None, None, "length"]
    assert all(step.key == key for step in rest)
    assert engine.live == {}
    assert engine.step() == []


def test_records_come_in_the_order_of_submission():
    engine = Engine(ToyBackend(), prefill=1)
    keys = [
        engine.submit(PROMPTS[0], limits=Limits(4)),
        engine.submit([1], limits=Limits(0)),
        engine.submit([2], limits=Limits(4)),
    ]
    steps = engine.step()
    assert [step.key for step in steps] == keys
    assert [step.finish for step in steps] == [None, "length", None]
    assert steps[1].emitted == ()
    assert steps[1].position == 1


@pytest.mark.parametrize("rule", ["matching", "rejection"])
def test_texts_that_join_and_leave_between_steps_are_what_they_are_alone(rule):
    pace = lambda: Fixed(3)  # noqa: E731

    def engine():
        target = ToyBackend()
        drafter = ModelDrafter(ToyBackend(seed=1), target)
        return Engine(target, drafter, rule=RULES[rule], pace=pace, prefill=3)

    alone = [generate(engine(), p, HOT, Limits(20), i).tokens for i, p in enumerate(PROMPTS)]
    shared = engine()
    waiting, keys, written = list(enumerate(PROMPTS)), {}, {}
    for turn in count():
        if waiting and turn % 2 == 0:
            i, prompt = waiting.pop(0)
            keys[shared.submit(prompt, HOT, Limits(20), i)] = i
        if turn == 3:
            shared.cancel(shared.submit([7, 7], HOT, Limits(20), 9))
        for step in shared.step():
            written.setdefault(keys[step.key], []).extend(step.emitted)
        if not waiting and not shared.live:
            break
    assert [tuple(written[i]) for i in range(3)] == alone


def test_a_drafter_is_told_everything_in_order():
    drafter = Says()
    engine = Engine(ToyBackend(), drafter)
    key = engine.submit([1, 2], limits=Limits(2))
    tokens = run(engine, [key])[key]
    assert drafter.told == [
        ("start", key, [1, 2]),
        ("read", key, [1]),
        ("observe", key, tokens[:1]),
        ("observe", key, tokens[1:]),
        ("stop", key),
    ]


def test_a_drafter_is_not_asked_where_no_guess_could_be_used():
    asked = []
    drafter = Says(lambda scenes: asked.append([s.key for s in scenes]) or [Draft.empty() for _ in scenes])
    engine = Engine(ToyBackend(), drafter, prefill=2)
    keys = [engine.submit([1], limits=Limits(1)), engine.submit([1, 2, 3, 4], limits=Limits(3))]
    run(engine, keys)
    assert asked == [[keys[1]], [keys[1]]]


def test_a_budget_leaves_room_for_the_targets_own_token_and_is_no_deeper_than_it_is_large():
    budgets = []
    drafter = Says(lambda scenes: [budgets.append(s.budget) or Draft.empty() for s in scenes])
    drafter.confident = True
    for pace in (Fixed(3, nodes=9), Fixed(5, nodes=2, confidence=0.5), Fixed(0), Fixed(4, nodes=0)):
        run(
            engine := Engine(ToyBackend(), drafter, pace=lambda p=pace: p),
            [engine.submit([1], limits=Limits(4))],
        )
    assert budgets[:3] == [Budget(3, 9), Budget(2, 8), Budget(1, 7)]
    assert budgets[3:] == [Budget(2, 2, 0.5), Budget(2, 2, 0.5), Budget(1, 1, 0.5)]


@pytest.mark.parametrize(
    "drafter", [Ngram(1, 1), ModelDrafter(ToyBackend(), ToyBackend()), Replay([[1] * 50], 16)]
)
def test_chains_fit_a_budget_of_fewer_guesses_than_depth(drafter):
    engine = Engine(ToyBackend(), drafter, pace=lambda: Fixed(8, nodes=3))
    result = generate(engine, [1, 1, 1], limits=Limits(20))
    assert result.tokens == solo([1, 1, 1])
    assert max(len(step.proposed) for step in result.steps) == 3


def test_cancelling_frees_the_place_and_is_never_an_error():
    target, drafter = Toy(), Says()
    engine = Engine(target, drafter, keep=0)
    key = engine.submit([1, 2])
    engine.step()
    engine.cancel(key)
    engine.cancel(key)
    engine.cancel(999)
    assert (engine.live, target.opened) == ({}, 0)
    assert drafter.told[-1] == ("stop", key)


def test_close_ends_every_text_and_frees_every_cache():
    target, drafter = Toy(), Says()
    engine = Engine(target, drafter, keep=5)
    generate_many(engine, PROMPTS, limits=Limits(3))
    engine.submit([1])
    engine.step()
    assert target.opened
    engine.close()
    assert (engine.live, target.opened) == ({}, 0)
    assert ("close",) not in drafter.told, "target and drafter stay open"
    engine.close()


def test_closing_a_drafter_frees_what_it_holds_for_living_texts():
    target, backend = ToyBackend(), Toy(seed=1)
    model, lookup = ModelDrafter(backend, target), Ngram(1, 2)
    for drafter in (model, lookup):
        engine = Engine(target, drafter)
        engine.submit([1, 2])
        engine.step()
        drafter.close()
    assert backend.caches
    assert backend.opened == 0
    assert lookup._indexes == {}


ERRORS = [RuntimeError("the pass failed"), KeyboardInterrupt()]


@pytest.mark.parametrize("error", ERRORS, ids=["error", "ctrl-C"])
@pytest.mark.parametrize("at", range(6))
def test_a_failed_pass_of_the_target_ends_its_texts_and_nothing_else(at, error):
    target, backend = Toy(fail_at=at, error=error), Toy(seed=1)
    engine = Engine(target, ModelDrafter(backend, target), prefill=3)
    with pytest.raises(type(error)):
        generate_many(engine, PROMPTS, limits=Limits(20))
    assert (engine.live, target.opened) == ({}, 0)
    assert backend.opened <= 1
    for prompt in PROMPTS:
        assert generate(engine, prompt, limits=Limits(20)).tokens == solo(prompt)


@pytest.mark.parametrize("at", range(6))
def test_ctrl_c_in_a_pass_of_the_draft_model_leaves_no_cache_that_nobody_can_trust(at):
    target, backend = Toy(), Toy(fail_at=at, error=KeyboardInterrupt())
    drafter = ModelDrafter(backend, target, keep=9)
    engine = Engine(target, drafter)
    with pytest.raises(KeyboardInterrupt):
        generate_many(engine, PROMPTS, limits=Limits(20))
    assert (engine.live, target.opened) == ({}, 0)
    kept = drafter._texts._pool._idle  # of texts whose prompts were still being read
    assert backend.opened == len(kept)
    assert all(cache.length == len(tokens) for cache, tokens in kept)
    for result, prompt in zip(generate_many(engine, PROMPTS, limits=Limits(20)), PROMPTS, strict=True):
        assert result.tokens == solo(prompt)
        assert result.metrics.acceptance == 1.0


def test_ctrl_c_as_a_drafter_begins_leaves_nothing():
    class Interrupted(Says):
        def start(self, key, tokens):
            raise KeyboardInterrupt

    target, drafter = Toy(), Interrupted()
    engine = Engine(target, drafter, keep=0)
    with pytest.raises(KeyboardInterrupt):
        engine.submit([1, 2])
    assert (engine.live, target.opened) == ({}, 0)
    assert [told[0] for told in drafter.told] == ["stop"]


@pytest.mark.parametrize("at", range(6))
def test_a_failed_pass_of_the_draft_model_costs_guesses_at_most(at):
    target, backend = Toy(), Toy(fail_at=at)
    drafter = ModelDrafter(backend, target, keep=9)
    results = generate_many(Engine(target, drafter), PROMPTS, limits=Limits(20))
    assert [result.tokens for result in results] == [solo(prompt) for prompt in PROMPTS]
    assert all(result.metrics.acceptance in (None, 1.0) for result in results)
    faults = [step.fault for result in results for step in result.steps if step.fault]
    # The text whose prompt was being read is left alone; a failed guess is made again.
    assert set(faults) <= {"RuntimeError: the pass failed"}
    assert len({step.key for result in results for step in result.steps if step.fault}) <= 1
    kept = drafter._texts._pool._idle
    assert backend.opened == len(kept)
    assert all(cache.length == len(tokens) for cache, tokens in kept)


def test_a_failure_spares_the_texts_that_were_not_in_the_pass():
    target = Toy(fail_at=0)
    engine = Engine(target)
    ended = engine.submit([1], limits=Limits(0))
    engine.submit([2])
    with pytest.raises(RuntimeError, match="the pass failed"):
        engine.step()
    assert list(engine.live) == [ended]
    assert [step.finish for step in engine.step()] == ["length"]


def fails(*_):
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("options", "limits", "error"),
    [
        ({"pace": fails}, Limits(3), RuntimeError),
        ({"noise": fails}, Limits(3), RuntimeError),
        ({}, Limits(3, stop=("",)), OptionError),
    ],
    ids=["pace", "noise", "stop"],
)
def test_a_text_that_cannot_begin_holds_nothing(options, limits, error):
    target = Toy()
    engine = Engine(target, keep=0, **options)
    with pytest.raises(error):
        engine.submit([1, 2], None, limits, None)
    assert (engine.live, target.opened) == ({}, 0)


@pytest.mark.parametrize("extra", [1, 2])
def test_a_cache_that_does_not_forget_is_found_out_in_the_same_step(extra):
    class Stubborn(Toy):
        def open(self):
            cache = super().open()
            true = cache.rewind
            cache.rewind = lambda length, path=(): true(min(cache.length, length + extra))
            return cache

    target = Stubborn()
    engine = Engine(target, Replay([[1] * 40], 16, accuracy=0.0))
    key = engine.submit([1, 1])
    engine.step()
    with pytest.raises(RewindError, match=f"The cache has {2 + extra} entries for 3 tokens"):
        engine.step()
    assert key not in engine.live
    assert target.opened == 0


def test_a_cache_that_forgets_too_much_is_found_out_too():
    class Fleeting(Toy):
        def open(self):
            cache = super().open()
            true = cache.rewind
            cache.rewind = lambda length, path=(): true(0)
            return cache

    engine = Engine(Fleeting())
    with pytest.raises(RewindError, match="The cache has 0 entries for 2 tokens"):
        generate(engine, [1])


def test_a_seed_left_out_is_fresh_and_told():
    engine = Engine(ToyBackend())
    keys = [engine.submit([1], HOT) for _ in range(50)]
    seeds = {engine.live[key].seed for key in keys}
    assert len(seeds) == 50
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert engine.live[engine.submit([1], HOT, seed=0)].seed == 0


def test_noise_is_made_from_the_seed():
    made = []
    engine = Engine(ToyBackend(), noise=lambda seed: made.append(seed) or Keyed(0))
    assert generate(engine, [1], HOT, Limits(9), 5).tokens == solo([1], HOT, 9, seed=0)
    assert made == [5]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_the_seconds_of_a_step_add_up(batch, monkeypatch):
    """With a clock that ticks at every look, nothing is lost and nothing counted twice."""
    clock = count()
    looks = []
    monkeypatch.setattr(loop, "perf_counter", lambda: looks.append(float(next(clock))) or looks[-1])
    monkeypatch.setattr(live, "perf_counter", lambda: 0.0)  # rows of an array are there at once
    engine = Engine(ToyBackend(), Ngram(1, 2), prefill=2)
    for prompt in PROMPTS[:batch]:
        engine.submit(prompt, limits=Limits(9))
    while engine.live:
        looks.clear()
        steps = engine.step()
        for step in steps:
            parts = (step.draft_s, step.target_s, step.verify_s, step.rewind_s, step.other_s)
            assert min(parts) >= 0
            assert step.seconds == sum(parts)
        assert sum(step.seconds for step in steps) == pytest.approx(looks[-1] - looks[0])
        assert sum(step.target_s for step in steps) == pytest.approx(1.0)


def test_a_longer_chunk_takes_its_share_of_the_pass(monkeypatch):
    engine = Engine(ToyBackend(), prefill=3)
    engine.submit([1, 2, 3, 4, 5])
    engine.submit([1])
    clock = count()
    monkeypatch.setattr(loop, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(live, "perf_counter", lambda: 0.0)  # rows of an array are there at once
    long, short = engine.step()
    assert (long.target_s, short.target_s) == (0.75, 0.25)


def test_time_spent_on_deferred_rows_is_the_targets(monkeypatch):
    now = 0.0

    class Slow(list):
        def __getitem__(self, row):
            nonlocal now
            now += 1.0
            return super().__getitem__(row)

    class Deferring(ToyBackend):
        def extend_deferred(self, chunks):
            return [Slow(rows) for rows in self.extend(chunks)]

    for module in (live, loop):
        monkeypatch.setattr(module, "perf_counter", lambda: now)
    text = [1, *generate(Engine(ToyBackend()), [1], limits=Limits(9)).tokens]
    engine = Engine(Deferring(), Replay([text], ToyBackend().traits.vocab_size))
    engine.submit([1], limits=Limits(9))
    (step,) = engine.step()
    assert step.accepted > 1
    assert step.target_s == step.seconds == 1.0 + step.accepted


def test_tokens_without_text_are_tokens():
    pieces = ToyTokenizer([b"", b"a", b"", b"b"])
    result = generate(Engine(ToyBackend(6, tokenizer=pieces)), [1], HOT, Limits(40), 1)
    assert len(result.tokens) == 40
    assert {0, 2, 5} <= set(result.tokens)
    assert result.text == "".join({1: "a", 3: "b"}.get(token, "") for token in result.tokens)


def test_the_context_is_filled_and_never_passed():
    for length in (1, 5, 8, 9):
        target = ToyBackend(context=10)
        result = generate(Engine(target, Ngram(1, 1)), [1] * length)
        assert len(result.tokens) == 10 - length
        assert result.finish == "length"


def test_engines_can_share_a_drafter():
    drafter = Ngram(1, 3)
    engines = [Engine(ToyBackend(order=2), drafter) for _ in range(2)]
    keys = [engine.submit([1, 2, 3, 1, 2], limits=Limits(12)) for engine in engines]
    tokens = [[], []]
    while any(engine.live for engine in engines):
        for i, engine in enumerate(engines):
            for step in engine.step():
                assert step.key == keys[i]
                tokens[i] += step.emitted
    assert tokens[0] == tokens[1] == list(generate(engines[0], [1, 2, 3, 1, 2], limits=Limits(12)).tokens)


def test_cancelling_returns_the_record_that_closes_the_text():
    engine = Engine(ToyBackend())
    key = engine.submit([1, 2])
    engine.step()
    step = engine.cancel(key)
    assert (step.key, step.finish, step.emitted) == (key, "cancelled", ())
    assert engine.cancel(key) is None
