"""Figures of results: drawn whole, the same every time, and honest where there is nothing to draw."""

import json
import sys

import pytest

from redline.bench import figures
from redline.bench.plot import draw
from redline.core.errors import OptionError, RedlineError


def row(speedup=2.0, rates=(0.8, 0.5), **changes):
    share = {"draft": 0.2, "target": 0.7, "verify": 0.05, "rewind": 0.0, "other": 0.05}
    return {
        "answers": 6,
        "speedup": speedup,
        "speedup_interval": None if speedup is None else [speedup - 0.2, speedup + 0.3],
        "s_per_token": 0.01,
        "reached_at": [60, 30][: len(rates)],
        "metrics": {"acceptance_at": list(rates), "share": share},
        "baseline": {"s_per_token": 0.02},
        **changes,
    }


@pytest.fixture
def document():
    kinds = {"code": row(), "story": row(0.9)}
    return {
        "backends": {"target": {"name": "big", "dtype": "float32", "device": "cpu"}},
        "arms": {
            "ngram": {"all": row(1.5), "by_category": {**kinds, "empty": {"answers": 0}}},
            "small": {"all": row(None), "by_category": {"code": row(None), "story": row(1.1)}},
        },
        "pass_cost": {"cached_tokens": 100, "rows": [1, 2, 3, 4], "pass_s": [0.02, 0.02, 0.022, 0.03]},
    }


def texts(folder, name):
    """What stands in a figure, as text."""
    return (folder / f"r-{name}.svg").read_text()


@pytest.fixture
def drawn(document, tmp_path, monkeypatch):
    """Draw with text as text, and return the folder."""
    from redline.bench import plot

    monkeypatch.setitem(plot.STYLE, "svg.fonttype", "none")

    def run():
        draw(document, tmp_path, "r")
        return tmp_path

    return run


def test_a_speed_up_is_written_at_its_bar_and_a_difference_in_its_place(drawn):
    text = texts(drawn(), "speedup")
    for word in ("2.00×", "0.90×", "1.50×", "1.10×", "code", "story", "all", "ngram", "small"):
        assert f">{word}<" in text, word
    assert text.count(">differs<") == 2
    assert "empty" not in text


def test_every_part_of_the_time_is_in_the_legend(drawn):
    text = texts(drawn(), "time")
    for word in ("draft", "target", "verify", "rewind", "other", figures.PLAIN, "Time per token with small"):
        assert f">{word}<" in text, word


def test_a_pass_is_compared_with_one_row(drawn):
    text = texts(drawn(), "passes")
    assert ">1.50×<" in text
    assert "100 tokens in the cache" in text


def test_single_workloads_are_drawn_only_over_enough_guesses(document, tmp_path, drawn):
    def lines(reached):
        for arm in document["arms"].values():
            for each in arm["by_category"].values():
                each["reached_at"] = reached
        text = texts(drawn(), "acceptance")
        return text.count("stroke-opacity: 0.3")

    assert lines([60, 30]) == 4
    assert lines([19, 3]) == 0


def test_the_same_results_give_the_same_files(document, tmp_path):
    first = {file.name: file.read_bytes() for file in draw(document, tmp_path, "r")}
    assert first == {file.name: file.read_bytes() for file in draw(document, tmp_path, "r")}
    assert len(first) == 8


def test_what_was_not_measured_is_not_drawn(document, tmp_path):
    document["pass_cost"] = None
    for arm in document["arms"].values():
        arm["all"]["metrics"]["acceptance_at"] = []
    names = {file.stem for file in draw(document, tmp_path, "r")}
    assert names == {"r-speedup", "r-time"}
    assert draw({**document, "arms": {}}, tmp_path, "r") == []
    assert json.dumps(document)  # drawing changes nothing in it


def test_without_matplotlib_there_is_a_way_out(document, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OptionError, match=r"redline\[plot\]"):
        draw(document, tmp_path, "r")


def test_a_place_that_cannot_be_written_is_named(document, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RedlineError, match="--out"):
        draw(document, tmp_path / "file", "r")
