"""Writes the tables of README.md from the results in benchmarks/results/.

Run: python benchmarks/tables.py
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def table(result: dict[str, Any]) -> str:
    """A benchmark result as a Markdown table."""
    (arm, numbers), settings, machine = *result["arms"].items(), result["settings"], result["machine"]
    lines = [
        f"| `{settings['model']}`, draft `{arm}` | plain tokens/s | tokens/s "
        "| speed-up (10–90 %) | tokens/step | acceptance | identical |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in {**numbers["by_category"], "**all**": numbers["all"]}.items():
        metrics = row["metrics"]
        acceptance = "–" if metrics["acceptance"] is None else f"{metrics['acceptance']:.2f}"
        lines.append(
            f"| {name} | {row['baseline_tokens_per_s']:.1f} | {metrics['tokens_per_s']:.1f} "
            f"| **{row['speedup']:.2f}×** ({row['speedup_low']:.2f}–{row['speedup_high']:.2f}) "
            f"| {metrics['tokens_per_step']:.2f} | {acceptance} | {row['identical']}/{row['answers']} |"
        )
    lines.append("")
    lines.append(
        f"{machine['processor']}, {machine['cores']} cores, torch {machine['torch']}, "
        f"{settings['max_tokens']} tokens an answer, depth {settings['depth']}, "
        f"temperature {settings['temperature']:g}, "
        f"{settings['repeats']} interleaved repeats. Speed-up: seconds per token of plain decoding over ours."
    )
    return "\n".join(lines)


def fill(text: str) -> str:
    """README's text with every table made anew."""

    def replace(match: re.Match[str]) -> str:
        result = json.loads((RESULTS / f"{match[1]}.json").read_text(encoding="utf-8"))
        return f"<!-- table: {match[1]} -->\n{table(result)}\n<!-- end -->"

    return re.sub(r"<!-- table: (\S+) -->\n.*?<!-- end -->", replace, text, flags=re.DOTALL)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(fill(readme.read_text(encoding="utf-8")), encoding="utf-8")
