"""Writes the tables of README.md and of pages in docs/ from the results in benchmarks/results/.

Run: python benchmarks/tables.py

A table stands between a marker and `<!-- end -->`: `<!-- table: NAME -->` has the speed-ups by workload of
NAME.json, `<!-- times: NAME NAME … -->` the milliseconds per token of several results side by side,
`<!-- beside: NAME -->` what `assisted.py` measured, `<!-- layers: NAME -->` what `kernels/layers.py` did, and
`<!-- breadth: NAME -->` what `trees.py` did.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "kernels.md", ROOT / "docs" / "drafters.md")

Result = dict[str, Any]


def table(result: Result) -> str:
    """Speed-ups by workload, a table a draft."""
    tables = [_pair(result, arm, numbers) for arm, numbers in result["arms"].items()]
    return "\n\n".join([*tables, f"{_machine(result)}, {_settings(result['settings'])} {EXPLANATION}"])


EXPLANATION = (
    "Speed-up: seconds per token of plain decoding over ours, with a bootstrap interval of the paired ratio. "
    "Near-tie: the text differs where two tokens are as good as equal."
)


def _pair(result: Result, arm: str, numbers: dict[str, Any]) -> str:
    lines = [
        f"| {_target(result)}, draft `{arm}` | plain ms/token | ms/token | speed-up (95 %) | tokens/step "
        "| acceptance | identical |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in {**numbers["by_category"], "**all**": numbers["all"]}.items():
        if not row["answers"]:
            continue
        metrics, ends = row["metrics"], row["speedup_interval"]
        interval = f" ({ends[0]:.2f}–{ends[1]:.2f})" if ends else ""
        ratio = "differs" if row["speedup"] is None else f"**{row['speedup']:.2f}×**{interval}"
        acceptance = "–" if metrics["acceptance"] is None else f"{metrics['acceptance']:.2f}"
        ties = f", {row['near_ties']} near-tie" if row["near_ties"] else ""
        same = "–" if row["near_ties"] is None else f"{row['identical']}/{row['answers']}{ties}"
        lines.append(
            f"| {name} | {_ms(row['baseline']['s_per_token'])} | {_ms(row['s_per_token'])} | {ratio} "
            f"| {metrics['tokens_per_step']:.2f} | {acceptance} | {same} |"
        )
    if geomean := numbers["all"].get("speedup_geomean"):
        lines.append(f"| geometric mean | | | **{geomean:.2f}×** | | | |")
    return "\n".join(lines)


def times(results: Sequence[Result]) -> str:
    """Milliseconds per token by engine, precision, draft and workload.

    The fastest of a workload is in bold, for targets of 16 bits or more, of 8, and of fewer by themselves:
    they do not write the same text.
    """
    rows = sorted((row for result in results for row in _timed(result)), key=lambda row: -row["class"])
    names = list(dict.fromkeys(name for row in rows for name in row["times"] if name != "all"))
    lines = [
        f"| ms/token | draft | {' | '.join(names)} | all |",
        f"|---|---|{'---|' * (len(names) + 1)}",
    ]
    for row in rows:
        cells = []
        for name in [*names, "all"]:
            own = row["times"].get(name)
            rivals = [other["times"].get(name) for other in rows if other["class"] == row["class"]]
            best = own is not None and own == min(rival for rival in rivals if rival is not None)
            cells.append("–" if own is None else f"**{_ms(own)}**" if best else _ms(own))
        lines.append(f"| {row['label']} | {row['draft']} | {' | '.join(cells)} |")
    about = "Bold: the fastest of its workload at 16 bits or more, at 8, and at fewer."
    return "\n".join([*lines, "", f"{_machine(results[0])}, {_settings(results[0]['settings'])} {about}"])


BESIDE = ("transformers", "transformers assisted", "redline", "redline drafted")
"""The arms of `assisted.py`: theirs plain and with a draft, and ours."""


def beside(result: Result) -> str:
    """What `assisted.py` measured: medians by workload, and how much faster redline is, plain and drafted."""
    settings, trials = result["settings"], result["trials"]
    lines = [
        f"| `{settings['model']}`, ms/token | {' | '.join(BESIDE)} | plain, faster by | drafted, faster by |",
        f"|---|{'---|' * (len(BESIDE) + 2)}",
    ]
    for category in [*dict.fromkeys(trial["category"] for trial in trials), None]:
        own = {
            arm: [
                trial["seconds"] / len(trial["tokens"])
                for trial in sorted(trials, key=lambda trial: trial["question"])
                if trial["arm"] == arm and category in (trial["category"], None)
            ]
            for arm in BESIDE
        }
        ratios = [
            median(slow / fast for slow, fast in zip(own[left], own[right], strict=True))
            for left, right in zip(BESIDE[:2], BESIDE[2:], strict=True)
        ]
        cells = [_ms(median(own[arm])) for arm in BESIDE] + [f"**{ratio:.2f}×**" for ratio in ratios]
        lines.append(f"| {category or '**all**'} | {' | '.join(cells)} |")
    texts = {(trial["question"], tuple(trial["tokens"])) for trial in trials}
    same = len(texts) == len({trial["question"] for trial in trials})
    about = (
        f"{_machine(result)}, transformers {result['versions']['transformers']}, targets in float32, "
        f"{settings['tokens']} tokens an answer. Medians, of times with the prompt and of paired ratios. "
    )
    return "\n".join(
        [*lines, "", about + ("All arms write the same text." if same else "Some texts differ.")]
    )


def layers(result: Result) -> str:
    """Milliseconds, ratios to one row of packed float32, and GFLOP/s, by rows."""
    ways, flop = result["seconds"], result["flop_per_row"]
    one, counts = ways["float32, packed"]["1"], list(ways["float32, packed"])
    lines = [f"| rows | {' | '.join(counts)} |", f"|---|{'---|' * len(counts)}"]
    for name, times in ways.items():
        cells = [f"{1e3 * s:.1f} ms, {s / one:.2f}, {1e-9 * int(n) * flop / s:.0f}" for n, s in times.items()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    about = f"{_machine(result)}. Times, ratios to one row of packed float32, and GFLOP/s."
    return "\n".join([*lines, "", about])


def breadth(result: Result) -> str:
    """What `trees.py` measured: tokens a pass, and milliseconds a token, of chains and trees by workload."""
    rows, shapes = result["rows"], result["shapes"]
    names = ["plain", *shapes]
    heads = ["plain", *(f"chain of {d}" if d == n else f"depth {d}, {n} nodes" for d, n in shapes.values())]
    lines = [f"| tokens a pass, ms/token | {' | '.join(heads)} |", f"|---|{'---|' * len(names)}"]
    for category in rows["plain"]:
        cells = []
        for name in names:
            row = rows[name][category]
            cells.append(f"{row['tokens'] / row['passes']:.2f}, {_ms(row['seconds'] / row['tokens'])}")
        lines.append(f"| {'**all**' if category == 'all' else category} | {' | '.join(cells)} |")
    settings, draft = result["settings"], result["backends"]["draft"]
    about = (
        f"{_target(result)}, draft `{draft['name']}`, {draft['engine']}, {draft['dtype']}. "
        f"{_machine(result)}, {settings['tokens']} tokens an answer, {settings['pace']} pace, "
        f"temperature {settings['temperature']:g}, arms interleaved. "
    )
    same = "All arms write the same text." if result["identical"] else "Some texts differ."
    return "\n".join([*lines, "", about + same])


def _timed(result: Result) -> Iterator[dict[str, Any]]:
    """Every arm with its seconds per token by workload; a text that differs is no answer to the question."""
    bits = int((re.search(r"\d+", result["backends"]["target"]["dtype"]) or ["32"])[0])
    about = {"label": _target(result), "class": next(least for least in (16, 8, 0) if bits >= least)}
    arms = result["arms"].items()
    for number, (arm, numbers) in enumerate(arms):
        rows = {
            k: row for k, row in {**numbers["by_category"], "all": numbers["all"]}.items() if row["answers"]
        }
        if number == 0:  # plain decoding is the same arm for all drafts of a run
            plain = {name: row["baseline"]["s_per_token"] for name, row in rows.items()}
            yield {**about, "draft": "–", "times": plain}
        good = {name: row["s_per_token"] for name, row in rows.items() if row["speedup"] is not None}
        yield {**about, "draft": f"`{arm}`", "times": good}


def _target(result: Result) -> str:
    target = result["backends"]["target"]
    return f"`{target['name']}`, {target['engine']}, {target['dtype']}"


def _machine(result: Result) -> str:
    machine, versions, commit = result["machine"], result["versions"], result["commit"]
    packages = ", ".join(
        f"{name} {versions[name]}" for name in ("torch", "llama-cpp-python") if versions[name]
    )
    at = f", commit {commit['id'][:9]}" if commit else ""
    return f"{machine['processor']}, {machine['cores']} cores, {packages}{at}"


def _settings(settings: dict[str, Any]) -> str:
    most = "at most " if settings["stop_at_end"] else ""
    repeats = f", {settings['repeats']} interleaved repeats" if settings["repeats"] > 1 else ""
    chosen = [f"{settings['pace']} pace"] if settings["pace"] else []
    chosen += [] if settings["depth"] is None else [f"depth {settings['depth']}"]
    chosen += [f"{settings['nodes']} nodes"] if settings.get("nodes") else []
    tokens = f"{most}{settings['max_tokens']} tokens an answer"
    return ", ".join([tokens, *chosen, f"temperature {settings['temperature']:g}{repeats}."])


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.{0 if seconds >= 0.1 else 1}f}"


def fill(text: str, folder: Path = RESULTS) -> str:
    """A page's text with every table made anew."""
    one = {"table": table, "beside": beside, "layers": layers, "breadth": breadth}

    def replace(match: re.Match[str]) -> str:
        kind, names = match[1], match[2].split()
        results = [json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names]
        made = times(results) if kind == "times" else "\n\n".join(map(one[kind], results))
        return f"<!-- {kind}: {match[2]} -->\n{made}\n<!-- end -->"

    return re.sub(
        r"<!-- (table|beside|layers|breadth|times): (.+?) -->\n.*?<!-- end -->",
        replace,
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
