"""The pages' tables, from results in the present format."""

import importlib.util
import json
from pathlib import Path

import pytest

PLACE = Path(__file__).resolve().parents[2] / "benchmarks" / "tables.py"


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tables", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(plain_ms, ms, ties=0, **changes):
    speedup = plain_ms / ms
    return {
        "answers": 6,
        "identical": 6 - ties,
        "near_ties": ties,
        "speedup": speedup,
        "speedup_interval": [speedup - 0.1, speedup + 0.1],
        "s_per_token": ms / 1e3,
        "metrics": {"tokens_per_step": 2.5, "acceptance": 0.5},
        "baseline": {"s_per_token": plain_ms / 1e3},
        **changes,
    }


def result(engine, dtype, plain_ms, **arms):
    settings = {"max_tokens": 128, "stop_at_end": False, "pace": "fixed", "depth": 5, "temperature": 0.0}
    return {
        "format": "redline-bench-2",
        "machine": {"processor": "A chip", "cores": 2},
        "versions": {"torch": "2.13", "llama-cpp-python": None},
        "commit": {"id": "0123456789abcdef", "dirty": False},
        "settings": {**settings, "repeats": 3},
        "backends": {"target": {"name": "big", "engine": engine, "dtype": dtype}},
        "arms": {
            arm: {
                "by_category": {"code": row(plain_ms, ms), "empty": {"answers": 0}},
                "all": row(plain_ms, ms, ties=1, speedup_geomean=1.23),
            }
            for arm, ms in arms.items()
        },
    }


def test_a_pair_has_its_speed_ups_and_how_sure_they_are(tables):
    lines = tables.table(result("native", "float32", 80, ngram=40)).splitlines()
    assert lines[0].startswith("| `big`, native, float32, draft `ngram` |")
    assert lines[2] == "| code | 80.0 | 40.0 | **2.00×** (1.90–2.10) | 2.50 | 0.50 | 6/6 |"
    assert lines[3].endswith("| 5/6, 1 near-tie |")
    assert "**1.23×**" in lines[4]
    assert "A chip, 2 cores, torch 2.13, commit 012345678" in lines[-1]
    assert "empty" not in "".join(lines)


def test_what_differs_has_no_speed_up(tables):
    broken = result("native", "float32", 80, ngram=40)
    broken["arms"]["ngram"]["all"] |= {"speedup": None, "speedup_interval": None}
    assert "| differs |" in tables.table(broken).splitlines()[3]
    assert tables.times([broken]).splitlines()[3] == "| `big`, native, float32 | `ngram` | **40.0** | – |"


def test_the_fastest_of_each_precision_is_marked(tables):
    results = [
        result("llamacpp", "Q4_K_M", 49, ngram=60),
        result("llamacpp", "F16", 150, ngram=90),
        result("native", "float32", 220, small=70.04, ngram=110),
        result("llamacpp", "Q8_0", 80, ngram=75),
    ]
    rows = tables.times(results).splitlines()[2:-2]
    marked = [line for line in rows if "**" in line]
    assert marked == [
        "| `big`, native, float32 | `small` | **70.0** | **70.0** |",
        "| `big`, llamacpp, Q8_0 | `ngram` | **75.0** | **75.0** |",
        "| `big`, llamacpp, Q4_K_M | – | **49.0** | **49.0** |",
    ]
    assert len(rows) == 9, "plain decoding once a result, and every draft"
    assert "| `big`, native, float32 | – | 220 | 220 |" in rows


def test_tables_are_filled_from_files(tables, tmp_path):
    for name, ms in (("a", 40), ("b", 50)):
        (tmp_path / f"{name}.json").write_text(json.dumps(result("native", "float32", 80, ngram=ms)))
    text = "x\n<!-- times: a b -->\nstale\n<!-- end -->\ny\n<!-- table: b -->\n<!-- end -->\nz"
    filled = tables.fill(text, tmp_path)
    assert filled.count("| ms/token | draft |") == 1
    assert filled.count("tokens/step") == 1
    assert "stale" not in filled
    assert tables.fill(filled, tmp_path) == filled


def test_beside_transformers_medians_are_of_paired_ratios(tables):
    seconds = {
        "a-1": {"transformers": 8.0, "transformers assisted": 6.0, "redline": 4.0, "redline drafted": 1.0},
        "a-2": {"transformers": 9.0, "transformers assisted": 8.0, "redline": 3.0, "redline drafted": 2.0},
        "b-1": {"transformers": 6.0, "transformers assisted": 9.0, "redline": 6.0, "redline drafted": 3.0},
    }
    trials = [
        {"question": question, "category": question[0], "arm": arm, "seconds": s, "tokens": [1, 2]}
        for question, arms in seconds.items()
        for arm, s in reversed(arms.items())
    ]
    measured = result("native", "float32", 80, ngram=40) | {"trials": trials}
    measured["versions"]["transformers"] = "5.0"
    measured["settings"] = {"model": "big", "tokens": 2}
    lines = tables.beside(measured).splitlines()
    assert lines[2] == "| a | 4250 | 3500 | 1750 | 750 | **2.50×** | **5.00×** |"
    assert lines[3] == "| b | 3000 | 4500 | 3000 | 1500 | **1.00×** | **3.00×** |"
    assert lines[4] == "| **all** | 4000 | 4000 | 2000 | 1000 | **2.00×** | **4.00×** |"
    assert lines[-1].endswith("All arms write the same text.")
    trials[0]["tokens"] = [1, 3]
    assert tables.beside(measured).endswith("Some texts differ.")


def test_layers_are_beside_one_row_of_float32(tables):
    seconds = {"float32, packed": {"1": 0.02, "8": 0.04}, "Q4_K, avx2": {"1": 0.004, "8": 0.01}}
    about = {key: result("native", "Q4_K", 1)[key] for key in ("machine", "versions", "commit")}
    lines = tables.layers({**about, "flop_per_row": 3e8, "seconds": seconds}).splitlines()
    assert lines[0] == "| rows | 1 | 8 |"
    assert lines[3] == "| Q4_K, avx2 | 4.0 ms, 0.20, 75 | 10.0 ms, 0.50, 240 |"
    assert "A chip" in lines[-1]


def test_breadth_is_beside_the_chain_of_its_depth(tables):
    def row(passes, seconds):
        return {"tokens": 60, "passes": passes, "seconds": seconds}

    measured = result("native", "Q4_K_M", 1)
    del measured["arms"]
    measured |= {
        "settings": {"tokens": 64, "pace": "fixed", "temperature": 0.0},
        "shapes": {"3:3": [3, 3], "3:6": [3, 6]},
        "identical": True,
        "rows": {
            "plain": {"code": row(60, 2.4), "all": row(60, 2.4)},
            "3:3": {"code": row(24, 1.2), "all": row(24, 1.2)},
            "3:6": {"code": row(20, 1.26), "all": row(20, 1.26)},
        },
    }
    measured["backends"]["draft"] = {"name": "small", "engine": "native", "dtype": "q4_0"}
    lines = tables.breadth(measured).splitlines()
    assert lines[0] == "| tokens a pass, ms/token | plain | chain of 3 | depth 3, 6 nodes |"
    assert lines[2] == "| code | 1.00, 40.0 | 2.50, 20.0 | 3.00, 21.0 |"
    assert lines[3].startswith("| **all** | 1.00, 40.0 |")
    assert "draft `small`, native, q4_0. A chip" in lines[-1]
    assert lines[-1].endswith("All arms write the same text.")
    assert tables.breadth(measured | {"identical": False}).endswith("Some texts differ.")
