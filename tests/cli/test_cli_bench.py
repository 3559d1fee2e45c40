"""`redline bench` over toy models."""

import json

import numpy as np
import pytest

GOOD = '{"question_id": 1, "category": "a", "turns": ["x"]}\n'
NGRAM = ("--draft", "ngram")


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "questions.jsonl"
    rows = [("a", ["abcabc", "cab"]), ("b", ["xyzxyz"])]
    file.write_text(
        "".join(
            json.dumps({"question_id": i, "category": category, "turns": turns}) + "\n"
            for i, (category, turns) in enumerate(rows)
        )
    )
    return str(file)


def test_arms_are_compared_answer_by_answer(redline, questions, tmp_path):
    out = tmp_path / "out.json"
    ran = redline("bench", "--tasks", questions, "--json", str(out), "--repeat", "2", "--max-tokens", "12")
    assert ran.status == 0
    document = json.loads(out.read_text())
    assert document["settings"]["complete"] is True
    row = document["arms"]["forced+suffix"]["all"]
    assert (row["answers"], row["identical"]) == (6, 6)
    assert {t["arm"] for t in document["trials"]} == {"plain", "forced+suffix"}
    assert [t["arm"] for t in document["trials"]][:4] == ["plain", *["forced+suffix"] * 2, "plain"]
    assert row["speedup_low"] <= row["speedup_high"]
    assert "speed-up" in ran.out
    assert {len(t["tokens"]) for t in document["trials"]} == {12}
    assert document["pass_cost"]["rows"] == list(range(1, 17))
    assert document["backends"]["target"]["engine"] == "toy"
    assert document["backends"]["drafts"] == {"forced+suffix": None}


def test_categories_can_be_chosen(redline, questions):
    document = redline("bench", "--tasks", questions, "--json", "-", "--category", "b", *NGRAM).document
    assert list(document["arms"]["ngram"]["by_category"]) == ["b"]


@pytest.mark.parametrize(
    ("text", "args", "error"),
    [
        ("", (), "no questions"),
        ("{}\n", (), "no question on line 1"),
        ("no json\n", (), "no question on line 1"),
        ('{"question_id": 1, "category": "a", "turns": []}\n', (), "no question on line 1"),
        ('{"question_id": 1, "category": "a", "turns": "hi"}\n', (), "no question on line 1"),
        (GOOD, ("--category", "b"), "no category named"),
        (GOOD, ("--draft", "none"), "nothing to compare"),
        (GOOD, ("--draft", "ngram", "--draft", "ngram"), "the same name"),
        (
            '{"question_id": 1, "category": "a", "turns": ["x"]}\n',
            ("--json", "/no/where.json"),
            "does not exist",
        ),
    ],
)
def test_mistakes_are_a_sentence(redline, tmp_path, text, args, error):
    file = tmp_path / "q.jsonl"
    file.write_text(text)
    ran = redline("bench", "--tasks", str(file), *args)
    assert ran.status == 1
    assert error in ran.err


def test_several_drafts_are_measured_in_one_run(redline, questions):
    args = ("--draft", "ngram", "--draft", "other", "--limit", "1", "--max-tokens", "8", "--json", "-")
    document = redline("bench", "--tasks", questions, *args).document
    ngram, model = document["settings"]["drafts"]
    assert ngram == "ngram"
    assert list(document["arms"]) == ["ngram", model]
    assert document["backends"]["drafts"][model]["name"] == model
    assert {t["arm"] for t in document["trials"]} == {"plain", "ngram", model}


def test_a_model_may_end_its_answers(redline, questions, monkeypatch):
    """Toy 5 of the letters, with every letter but one an end."""
    from redline.backends.toy import ToyTokenizer

    ending = property(lambda self: frozenset(range(1, 26)), lambda self, ends: None)
    monkeypatch.setattr(ToyTokenizer, "ends", ending, raising=False)
    lengths = [
        {
            len(t["tokens"])
            for t in redline("bench", "--tasks", questions, "--json", "-", *more).document["trials"]
        }
        for more in (("--stop-at-end", "--max-tokens", "8"), ("--max-tokens", "8"))
    ]
    assert max(lengths[0]) < 8
    assert lengths[1] == {8}
    ran = redline("bench", "--tasks", questions, "--max-tokens", "8")
    assert "stand behind the model's own end" in ran.out


class Faulty:
    """Passes the target through, but moves the logits of wide passes."""

    def __init__(self, target, change):
        self._target, self._change = target, change

    def __getattr__(self, name):
        return getattr(self._target, name)

    def extend(self, chunks):
        rows = self._target.extend(chunks)
        return [
            self._change(row) if len(chunk.tokens) > 1 else row
            for row, chunk in zip(rows, chunks, strict=True)
        ]


@pytest.fixture
def wrong(monkeypatch):
    """Make every target's wide passes wrong in a given way."""
    from redline.engine import load

    def apply(change):
        real = load.backends.open
        monkeypatch.setattr(load.backends, "open", lambda *args, **how: Faulty(real(*args, **how), change))

    return apply


def test_a_text_that_differs_has_no_speed_up_and_the_question_is_named(redline, questions, tmp_path, wrong):
    wrong(lambda rows: np.roll(rows, 1, axis=1))
    out = tmp_path / "out.json"
    ran = redline("bench", "--tasks", questions, *NGRAM, "--json", str(out), "--max-tokens", "24")
    assert ran.status == 1
    assert "ngram differs from plain decoding in 0, turn 1" in ran.err
    assert "a bug: at token" in ran.err
    assert "differs" in ran.out
    row = json.loads(out.read_text())["arms"]["ngram"]["all"]
    assert row["speedup"] is None
    assert row["bugs"] > 0


def test_near_ties_are_counted_and_cost_no_speed_up(redline, questions, wrong):
    rng = np.random.default_rng(0)
    wrong(lambda rows: rows + rng.normal(0, 0.3, rows.shape).astype(np.float32))
    args = ("--json", "-", "--max-tokens", "40", "--repeat", "3")
    ran = redline("bench", "--tasks", questions, *NGRAM, *args)
    row = ran.document["arms"]["ngram"]["all"]
    assert row["near_ties"] > 0
    assert row["bugs"] == 0
    assert ran.status == 0
    assert row["speedup"] > 0
    assert "near-tie" in ran.out


def test_sampled_text_under_fresh_noise_need_not_be_the_same(redline, questions):
    args = ("--rule", "rejection", "--temperature", "1", "--max-tokens", "12")
    ran = redline("bench", "--tasks", questions, *NGRAM, "--json", "-", *args)
    assert ran.status == 0
    row = ran.document["arms"]["ngram"]["all"]
    assert (row["near_ties"], ran.document["differences"]) == (None, [])
    assert row["speedup"] > 0


def test_results_can_be_drawn(redline, questions, tmp_path):
    results = tmp_path / "out.json"
    redline("bench", "--tasks", questions, "--json", str(results), "--max-tokens", "12")
    ran = redline("bench", "plot", str(results), "--out", str(tmp_path / "figures"))
    assert ran.status == 0
    files = [tmp_path / "figures" / name.rpartition("/")[2] for name in ran.out.split()]
    kinds = [
        f"out-{name}.{kind}"
        for name in ("speedup", "acceptance", "time", "passes")
        for kind in ("png", "svg")
    ]
    assert [file.name for file in files] == kinds
    assert all(file.stat().st_size > 5000 for file in files)


@pytest.mark.parametrize("text", ["no json", "[]", '{"format": "redline-bench-1"}'])
def test_what_is_no_result_is_not_drawn(redline, tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text)
    for path in (file, tmp_path / "nowhere.json"):
        ran = redline("bench", "plot", str(path))
        assert ran.status == 1
        assert "redline bench --json FILE" in ran.err


def test_ctrl_c_keeps_what_was_measured(redline, questions, monkeypatch):
    from redline.cli import bench

    def interrupted(*args, **kwargs):
        trials = run(*args, **kwargs)
        yield next(trials)
        yield next(trials)
        raise KeyboardInterrupt

    run = bench.run
    monkeypatch.setattr(bench, "run", interrupted)
    ran = redline("bench", "--tasks", questions, "--json", "-")
    assert ran.status == 130
    assert (ran.document["settings"]["complete"], len(ran.document["trials"])) == (False, 2)
