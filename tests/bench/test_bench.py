"""Measuring over toy models: what is asked, in which order, and what the numbers are."""

import json
import subprocess
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from redline.backends.toy import ToyBackend, ToyTokenizer
from redline.bench import Question, differences, pass_cost, read_questions, report, run
from redline.bench.machine import commit, describe
from redline.bench.report import compare
from redline.core.metrics import fold
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Step
from redline.doctor import Fork
from redline.drafters import ModelDrafter, Ngram
from redline.engine import Engine, Result

FIXED = Limits(12, stop_tokens=frozenset())
SETTINGS = {"comparable": True}


class Chatty(ToyTokenizer):
    """Ends an answer with token 0, and remembers what it was asked."""

    def __init__(self, *args):
        super().__init__(*args)
        self.asked = []

    def chat(self, messages):
        self.asked.append(list(messages))
        return self.encode("".join(message["content"] for message in messages))


def make(seed=5, order=2, **options):
    tokenizer = Chatty([bytes([97 + i]) for i in range(12)], [0])
    return ToyBackend(12, seed=seed, order=order, tokenizer=tokenizer, **options)


def arms(target):
    return {"plain": Engine(target, keep=0), "ngram": Engine(target, Ngram(), keep=0)}


QUESTIONS = [Question(1, "a", ("bcbcbc", "dd")), Question(2, "b", ("efefef",)), Question(3, "b", ("bcd",))]


def measured(target=None, **options):
    return list(run(arms(target or make()), QUESTIONS, Sampling(), FIXED, **options))


def fake(question, arm, seconds, tokens=(1, 2), turn=0, repeat=0, category="a"):
    """A trial that took so many seconds."""
    from redline.bench import Trial

    step = Step(0, 3, tokens, ("x",) * len(tokens), target_s=seconds)
    result = Result("xx", tokens, "length", 0, (step,))
    return Trial(question, turn, repeat, category, arm, (1, 2, 3), result)


def test_the_built_in_set_is_as_large_as_it_should_be():
    questions = read_questions()
    assert len({question.id for question in questions}) == len(questions)
    counts = Counter(question.category for question in questions)
    assert list(counts) == (
        [
            "code",
            "edit",
            "json",
            "arithmetic",
            "summary",
            "extraction",
            "translation",
            "story",
            "chinese",
            "chat",
        ]
    )
    assert min(counts.values()) >= 6
    assert all(1 < len(q.turns) <= 3 for q in questions if q.category == "chat")
    assert all(len(q.turns) == 1 for q in questions if q.category != "chat")
    assert all("```" in q.turns[0] and q.turns[0].count("\n") > 20 for q in questions if q.category == "edit")
    assert max(len(turn) for q in questions for turn in q.turns) < 1200
    texts = [turn for q in questions for turn in q.turns]
    assert len(set(texts)) == len(texts)


def test_questions_can_be_chosen_and_limited():
    few = read_questions(categories=["story", "chat"], limit=2)
    assert [q.id for q in few] == ["story-1", "story-2", "chat-1", "chat-2"]


def test_arms_take_turns_and_a_warm_up_is_not_measured():
    target = make()
    trials = measured(target, repeats=2)
    order = [(t.question, t.turn, t.repeat, t.arm) for t in trials]
    assert order[:4] == [(1, 0, 0, "plain"), (1, 0, 0, "ngram"), (1, 0, 1, "ngram"), (1, 0, 1, "plain")]
    assert Counter(t.arm for t in trials) == {"plain": 8, "ngram": 8}
    assert (
        target.tokenizer.asked[0] == target.tokenizer.asked[1] == [{"role": "user", "content": "bcbcbc"}]
    ), "the longest first turn warms up both"


def test_every_answer_has_the_same_length_and_what_is_behind_its_end_is_counted():
    trials = [t for seed in range(12) for t in measured(make(seed))]
    assert {len(t.result.tokens) for t in trials} == {12}
    past = [t for t in trials if t.past_end]
    assert past
    for trial in past:
        assert trial.past_end == 12 - (trial.result.tokens.index(0) + 1)


def test_a_conversation_goes_on_with_the_answer_up_to_its_end():
    for seed in range(40):
        target = make(seed)
        first = next(t for t in measured(target) if t.arm == "plain")
        if 0 < first.past_end < 11:
            break
    kept = first.result.tokens[: 12 - first.past_end]
    said = b"".join(target.tokenizer.piece(token) for token in kept).decode()
    second = next(asked for asked in target.tokenizer.asked if len(asked) == 3)
    assert second[1] == {"role": "assistant", "content": said}


def test_all_arms_answer_the_same_prompt():
    trials = measured()
    prompts = {}
    for trial in trials:
        assert prompts.setdefault(trial.answer, trial.prompt) == trial.prompt


def test_numbers_of_a_row():
    trials = [fake(1, "plain", 4.0), fake(1, "x", 1.0), fake(2, "plain", 4.0), fake(2, "x", 4.0)]
    trials.append(fake(3, "plain", 9.0))  # the other arm was not reached
    row = compare(trials, "plain", "x")
    assert (row["answers"], row["identical"], row["near_ties"], row["bugs"]) == (2, 2, 0, 0)
    assert row["speedup"] == pytest.approx(8 / 5)
    assert row["speedup_median"] == pytest.approx(2.5)
    assert row["speedup_low"] == pytest.approx(1.3)
    assert row["speedup_high"] == pytest.approx(3.7)
    assert row["speedup_interval"] == pytest.approx((1.0, 4.0))
    assert row["s_per_token"] == pytest.approx(5 / 4)
    assert row["baseline"]["s_per_token"] == pytest.approx(2.0)


def test_repeats_of_an_answer_are_one_answer():
    trials = [
        fake(q, arm, s * (1 + r / 10), repeat=r)
        for q, arm, s in ((1, "plain", 4), (1, "x", 1), (2, "plain", 4), (2, "x", 4))
        for r in range(5)
    ]
    assert compare(trials, "plain", "x")["speedup_interval"] == pytest.approx((1.0, 4.0))


def test_all_kinds_count_alike_in_the_geometric_mean():
    trials = [fake(q, "plain", 4.0, category=c) for q, c in ((1, "a"), (2, "a"), (3, "b"))]
    trials += [fake(1, "x", 1.0), fake(2, "x", 1.0), fake(3, "x", 16.0, category="b")]
    document = report(trials, "plain", SETTINGS)
    assert document["arms"]["x"]["all"]["speedup_geomean"] == pytest.approx(1.0)


def test_no_speed_up_where_the_text_differs_without_a_near_tie():
    from redline.bench import Difference

    trials = [fake(1, "plain", 4.0), fake(1, "x", 1.0, (1, 7))]
    trials += [fake(2, "plain", 4.0, category="b"), fake(2, "x", 1.0, category="b")]
    fork = Fork(1, 2, 7, ("b", "h"), np.inf, 0.0, "bug")

    def rows(fork, comparable=True):
        found = report(trials, "plain", {"comparable": comparable}, differences=[Difference(trials[1], fork)])
        json.dumps(found, allow_nan=False)
        arm = found["arms"]["x"]
        return arm["by_category"]["a"], arm["by_category"]["b"], arm["all"]

    a, b, every = rows(fork)
    assert (a["identical"], a["near_ties"], a["bugs"]) == (0, 0, 1)
    assert [value for name, value in a.items() if name.startswith("speedup")] == [None] * 6
    assert b["speedup"] == pytest.approx(4.0)
    assert every["speedup"] is every["speedup_geomean"] is None
    a, b, every = rows(replace(fork, verdict="near-tie"))
    assert (a["near_ties"], a["bugs"], every["near_ties"]) == (1, 0, 1)
    assert a["speedup"] == every["speedup"] == pytest.approx(4.0)
    a, _, _ = rows(fork, comparable=False)
    assert (a["near_ties"], a["bugs"], a["speedup"]) == (None, None, pytest.approx(4.0))


def test_differences_are_explained_once_an_answer_and_by_the_widths_that_were_used(monkeypatch):
    from redline.bench import same

    seen = []
    monkeypatch.setattr(same, "explain", lambda *args, **options: seen.append((args, options)) or fork)
    fork = Fork(1, 2, 7, ("b", "h"), 0.1, 0.2, "near-tie")
    plain = [fake(1, "plain", 4.0, repeat=r) for r in range(2)]
    ours = [fake(1, "x", 1.0, (1, 7), repeat=r) for r in range(2)]
    guessed = replace(ours[0].result.steps[0], proposed=(5, 6), parents=(-1, 0))
    ours = [replace(t, result=replace(t.result, steps=(guessed, *t.result.steps))) for t in ours]
    target = make()
    found = list(differences([*plain, *ours, fake(2, "x", 1.0)], "plain", target, Sampling(), 3))
    assert [d.trial.repeat for d in found] == [0, 1]
    ((args, options),) = seen
    assert args == (target, (1, 2, 3), (1, 2), (1, 7))
    assert (options["widths"], options["seed"]) == ((3,), 3)
    assert found[0].to_json()["sentence"] == fork.sentence


def test_acceptance_says_over_how_many_guesses():
    document = report(measured(make(order=1)), "plain", SETTINGS)  # it goes round in a ring
    row = document["arms"]["ngram"]["all"]
    assert len(row["reached_at"]) == len(row["metrics"]["acceptance_at"]) > 1
    assert row["reached_at"] == sorted(row["reached_at"], reverse=True)
    kept = [n * rate for n, rate in zip(row["reached_at"], row["metrics"]["acceptance_at"], strict=True)]
    assert sum(kept) == pytest.approx(row["metrics"]["accepted"])


def test_results_hold_what_it_takes_to_check_them():
    target = make()
    trials = measured(target)
    document = json.loads(
        json.dumps(report(trials, "plain", SETTINGS, backends={"target": describe(target)}))
    )
    assert document["format"] == "redline-bench-2"
    assert set(document["versions"]) >= {"redline", "torch", "numpy", "llama-cpp-python", "transformers"}
    assert document["trials"][0]["tokens"] == list(trials[0].result.tokens)
    about = document["backends"]["target"]
    assert (about["engine"], about["dtype"], about["exact_widths"]) == ("toy", "exact", [1])
    assert describe(ModelDrafter(target, target).backend)["name"] == target.name
    assert describe(None) is None


def test_a_pass_is_timed_in_the_middle_of_a_typical_answer(monkeypatch):
    from redline.bench import cost

    clock = iter(range(10**6))
    monkeypatch.setattr(cost, "perf_counter", lambda: next(clock))
    target = make()
    trials = measured(target)
    target.passes.clear()
    found = pass_cost(target, trials, rows=3, rounds=2)
    assert found["rows"] == [1, 2, 3]
    assert found["pass_s"] == [1, 1, 1]
    assert [rows for (rows,) in target.passes] == [found["cached_tokens"], *[1, 2, 3] * 3]
    lengths = sorted(len(t.prompt) + 6 for t in trials)
    assert found["cached_tokens"] == lengths[len(lengths) // 2]
    assert pass_cost(make(context=found["cached_tokens"] + 2), trials, rows=3)["rows"] == [1, 2]


def test_the_commit_of_a_checkout_and_of_none(tmp_path):
    assert commit(tmp_path) is None
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert commit(tmp_path) is None, "nothing is committed yet"
    (tmp_path / "a").write_text("1")
    subprocess.run([*git, "add", "a"], check=True)
    subprocess.run([*git, "commit", "-qm", "a"], check=True)
    clean = commit(tmp_path)
    assert len(clean["id"]) == 40
    assert not clean["dirty"]
    (tmp_path / "a").write_text("2")
    assert commit(tmp_path) == {**clean, "dirty": True}


def test_pooled_seconds_are_those_of_the_steps():
    trials = measured()
    row = compare(trials, "plain", "ngram")
    plain = fold(step for t in trials if t.arm == "plain" for step in t.result.steps)
    assert row["baseline"]["s_per_token"] == plain.seconds / plain.tokens


def test_raw_prompts_are_turns_by_themselves():
    target = make()
    trials = measured(target, chat=False)
    assert [t.prompt for t in trials if t.arm == "plain"][:2] == [(1, 2) * 3, (3, 3)]
    assert target.tokenizer.asked == []


def test_a_row_without_answers_says_so():
    assert compare([fake(1, "plain", 1.0)], "plain", "x") == {"answers": 0}
