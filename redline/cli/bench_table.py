"""The results of `redline bench` on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from redline.cli.render import by_source, time_split

COLUMNS = ("plain ms", "ms", "speed-up", "95 %", "median", "10–90 %", "step", "kept")


def show(document: Mapping[str, Any]) -> None:
    """One table an arm, and below it what the columns mean."""
    console, settings = Console(highlight=False), document["settings"]
    for arm, numbers in document["arms"].items():
        if not numbers["all"]["answers"]:
            continue
        console.print(_table(arm, numbers, settings))
        every = numbers["all"]
        if every.get("speedup_geomean"):
            console.print(f"geometric mean of the kinds: {every['speedup_geomean']:.2f}×")
        console.print(time_split(every["metrics"]["share"]))
        if sources := by_source(every["metrics"].get("sources", {})):
            console.print(sources, soft_wrap=True)
        if every["past_end"]:
            share = f"{every['past_end']} of {every['metrics']['tokens']} tokens"
            console.print(f"{share} stand behind the model's own end; see --stop-at-end", soft_wrap=True)
    for difference in document["differences"]:
        where = f"{difference['arm']}, {difference['question']}, turn {difference['turn'] + 1}"
        console.print(f"{where}: {difference['sentence']}", markup=False, soft_wrap=True)
    machine, versions = document["machine"], document["versions"]
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, torch {versions['torch']}; plain ms, ms: "
        "milliseconds a token without and with the draft, prompts not counted; 95 %: bootstrap interval of "
        "the speed-up; median, 10–90 %: of single answers; step: tokens a step; kept: accepted / proposed",
        soft_wrap=True,
    )


def _table(arm: str, numbers: Mapping[str, Any], settings: Mapping[str, Any]) -> Table:
    name, depth = settings["paces"][arm]
    lossy = [] if settings["exact"] else ["LOSSY"]
    title = " · ".join([settings["model"], arm, settings["rule"], f"{name} {depth}", *lossy])
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=0, collapse_padding=True)
    table.add_column("prompts", overflow="fold")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("same", justify="right")
    rows = {**numbers["by_category"], "all": numbers["all"]}
    for name, row in rows.items():
        if row["answers"]:
            table.add_row(name, *_cells(row), _same(row), end_section=name == list(rows)[-2])
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    acceptance, tokens_per_step = row["metrics"]["acceptance"], row["metrics"]["tokens_per_step"]
    ratios = ["differs", "–", "–", "–"]
    if row["speedup"] is not None:
        ends = row["speedup_interval"]
        ratios = [
            f"{row['speedup']:.2f}×",
            f"{ends[0]:.2f}–{ends[1]:.2f}" if ends else "–",
            f"{row['speedup_median']:.2f}",
            f"{row['speedup_low']:.2f}–{row['speedup_high']:.2f}",
        ]
    return [
        f"{1e3 * row['baseline']['s_per_token']:.1f}",
        f"{1e3 * row['s_per_token']:.1f}",
        *ratios,
        f"{tokens_per_step:.2f}",
        "–" if acceptance is None else f"{acceptance:.2f}",
    ]


def _same(row: Mapping[str, Any]) -> str:
    """How many answers are plain decoding's, and how many only nearly."""
    if row["near_ties"] is None:
        return "–"
    ties = row["near_ties"]
    note = f" ({ties} near-tie{'s' if ties > 1 else ''})" if ties else ""
    return f"{row['identical']}/{row['answers']}{note}"
