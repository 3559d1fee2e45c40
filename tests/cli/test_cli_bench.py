"""`redline bench` over toy models."""

import json

import pytest

GOOD = '{"question_id": 1, "category": "a", "turns": ["x"]}\n'


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
    ran = redline("bench", "--prompts", questions, "--json", str(out), "--repeat", "2", "--max-tokens", "12")
    assert ran.status == 0
    document = json.loads(out.read_text())
    assert document["settings"]["complete"] is True
    row = document["arms"]["ngram"]["all"]
    assert (row["answers"], row["identical"]) == (6, 6)
    assert {t["arm"] for t in document["trials"]} == {"plain", "ngram"}
    assert [t["arm"] for t in document["trials"]][:4] == ["plain", "ngram", "ngram", "plain"]
    assert row["speedup_low"] <= row["speedup_high"]
    assert "speed-up" in ran.out


def test_categories_can_be_chosen(redline, questions):
    document = redline("bench", "--prompts", questions, "--json", "-", "--category", "b").document
    assert list(document["arms"]["ngram"]["by_category"]) == ["b"]


@pytest.mark.parametrize(
    ("text", "args", "error"),
    [
        ("", (), "no questions"),
        ("{}\n", (), "no question on line 1"),
        ("no json\n", (), "no question on line 1"),
        ('{"question_id": 1, "category": "a", "turns": []}\n', (), "no question on line 1"),
        (GOOD, ("--category", "b"), "no category named"),
        (GOOD, ("--draft", "none"), "nothing to compare"),
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
    ran = redline("bench", "--prompts", str(file), *args)
    assert ran.status == 1
    assert error in ran.err


def test_the_built_in_questions_are_whole():
    from redline.bench import read_questions
    from redline.bench.prompts import COPY_HEAVY

    questions = read_questions()
    assert len({question.id for question in questions}) == len(questions)
    assert {question.category for question in questions} >= {*COPY_HEAVY, "json", "story"}


def test_ctrl_c_keeps_what_was_measured(redline, questions, monkeypatch):
    from redline.cli import bench

    def interrupted(*args, **kwargs):
        trials = run(*args, **kwargs)
        yield next(trials)
        yield next(trials)
        raise KeyboardInterrupt

    run = bench.run
    monkeypatch.setattr(bench, "run", interrupted)
    ran = redline("bench", "--prompts", questions, "--json", "-")
    assert ran.status == 130
    assert (ran.document["settings"]["complete"], len(ran.document["trials"])) == (False, 2)
