"""Four pictures of a result: speed-up by workload, acceptance by depth, time split, and cost of a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from redline.core.metrics import PARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Of Okabe and Ito, which colour-blind readers can tell apart; one an arm."""

PART_COLOURS = dict(zip(PARTS, ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#999999"), strict=True))
INK, FAINT = "#222222", "#8a8a8a"
PLAIN = "plain decoding"
FEWEST = 20
"""Guesses: a rate over fewer is not drawn for a single workload."""


def speedups(figure: Figure, document: Mapping[str, Any]) -> bool:
    """Bars by workload with their bootstrap intervals; no bar where the text differs."""
    arms = _arms(document)
    if not arms:
        return False
    names = _names(arms)
    figure.set_size_inches(7.2, 1.4 + (0.2 + 0.22 * len(arms)) * len(names))
    draft = f"draft {next(iter(arms))}; " if len(arms) == 1 else ""
    axes = _axes(figure, document, "Speed-up by workload", f"{draft}95 % bootstrap intervals")
    height = 0.8 / len(arms)
    for number, (arm, rows) in enumerate(arms.items()):
        for place, name in enumerate(names):
            row = rows.get(name)
            if not row:
                continue
            y = place - 0.4 + (number + 0.5) * height
            if row["speedup"] is None:
                _note(axes, "differs", (1, y), (4, 0), va="center", fontsize=8.5, color="#b00020")
                continue
            low, high = row["speedup_interval"] or (row["speedup"], row["speedup"])
            axes.barh(y, row["speedup"], height * 0.88, color=COLOURS[number % 6], label=arm)
            for colour, width in (("white", 3.6), (INK, 1.4)):  # dark on its own would drown in the bar
                axes.plot([low, high], [y, y], color=colour, linewidth=width, solid_capstyle="butt")
            _note(axes, f"{row['speedup']:.2f}×", (max(high, 1), y), (4, 0), va="center", fontsize=8.5)
    axes.axvline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.axhline(len(names) - 1.5, color=FAINT, linewidth=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_xlim(0, 1.12 * max(axes.get_xlim()[1], 1.2))
    axes.set_xlabel("times as fast as plain decoding")
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    _legend(axes, len(arms))
    return True


def acceptance(figure: Figure, document: Mapping[str, Any]) -> bool:
    """How often a guess is kept, by its depth: all workloads in bold, single ones thin."""
    arms = {arm: rows for arm, rows in _arms(document).items() if rows["all"]["metrics"]["acceptance_at"]}
    if not arms:
        return False
    figure.set_size_inches(6.4, 4.2)
    axes = _axes(figure, document, "Acceptance by depth", f"thin: workloads with {FEWEST} guesses or more")
    for number, (arm, rows) in enumerate(arms.items()):
        for name, row in rows.items():
            rates = row["metrics"]["acceptance_at"]
            if name != "all":
                rates = [rate for rate, n in zip(rates, row["reached_at"], strict=True) if n >= FEWEST]
            depths = range(1, len(rates) + 1)
            colour = COLOURS[number % 6]
            if name != "all":
                axes.plot(depths, rates, color=colour, linewidth=0.9, alpha=0.3)
                continue
            axes.plot(depths, rates, color=colour, linewidth=2.4, marker="o", label=arm, zorder=3)
    axes.set_ylim(0, 1.02)
    deepest = max(len(rows["all"]["metrics"]["acceptance_at"]) for rows in arms.values())
    axes.set_xticks(range(1, deepest + 1))
    axes.set_xlabel("depth of the guess")
    axes.set_ylabel("P(kept | the one before was)")
    axes.grid(axis="y")
    _legend(axes, 2)
    return True


def time_split(figure: Figure, document: Mapping[str, Any]) -> bool:
    """Where a token's milliseconds go, by workload; a mark shows what plain decoding takes."""
    arms = _arms(document)
    if not arms:
        return False
    names = _names(arms)
    figure.set_size_inches(2.2 + 4.2 * len(arms), 1.5 + 0.34 * len(names))
    panels = figure.subplots(1, len(arms), sharey=True, sharex=True, squeeze=False)[0]
    for axes, (arm, rows) in zip(panels, arms.items(), strict=True):
        _titles(axes, f"Time per token with {arm}", _target(document))
        for place, name in enumerate(names):
            if not (row := rows.get(name)):
                continue
            left = 0.0
            for part, colour in PART_COLOURS.items():
                width = 1e3 * row["s_per_token"] * row["metrics"]["share"][part]
                axes.barh(place, width, 0.72, left=left, color=colour, label=part)
                left += width
            plain = 1e3 * row["baseline"]["s_per_token"]
            axes.plot(
                [plain, plain], [place - 0.4, place + 0.4], color=INK, linewidth=2, label="plain decoding"
            )
        axes.axhline(len(names) - 1.5, color=FAINT, linewidth=0.6)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlabel("milliseconds")
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
    handles = dict(zip(*panels[0].get_legend_handles_labels()[::-1], strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=6, fontsize=8.5)
    return True


def passes(figure: Figure, document: Mapping[str, Any]) -> bool:
    """What a pass costs by its rows, against reading the same rows one by one."""
    cost = document["pass_cost"]
    if not cost:
        return False
    rows, ms = cost["rows"], [1e3 * seconds for seconds in cost["pass_s"]]
    figure.set_size_inches(6.4, 4.2)
    subtitle = f"{cost['cached_tokens']} tokens in the cache"
    axes = _axes(figure, document, "Cost of a pass by its rows", subtitle)
    axes.plot(rows, [ms[0] * n for n in rows], color=FAINT, linestyle=(0, (4, 3)), label="one by one")
    axes.plot(rows, ms, color=COLOURS[0], linewidth=2.4, marker="o", markersize=5, label="in one pass")
    for n, value in zip(rows, ms, strict=True):
        if n in (2, 4, 8, 16):
            axes.annotate(
                f"{value / ms[0]:.2f}×",
                (n, value),
                (0, -15),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
            )
    axes.set_ylim(0, 1.25 * max(*ms, 2 * ms[0]))
    axes.set_xlim(0.4, rows[-1] + 0.6)
    axes.set_xticks(rows)
    axes.set_xlabel("rows: the pending token and the guesses behind it")
    axes.set_ylabel("milliseconds")
    axes.grid(axis="y")
    axes.legend(loc="lower right")
    return True


FIGURES: dict[str, Callable[[Figure, Mapping[str, Any]], bool]] = {
    "speedup": speedups,
    "acceptance": acceptance,
    "time": time_split,
    "passes": passes,
}


def _arms(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of every arm that has any, by workload, all of them together last."""
    found: dict[str, dict[str, Any]] = {}
    for arm, numbers in document["arms"].items():
        rows = {name: row for name, row in numbers["by_category"].items() if row["answers"]}
        if rows:
            found[arm] = {**rows, "all": numbers["all"]}
    return found


def _names(arms: Mapping[str, Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for rows in arms.values() for name in rows if name != "all")
    return [*names, "all"]


def _axes(figure: Figure, document: Mapping[str, Any], title: str, subtitle: str) -> Axes:
    axes = figure.subplots()
    _titles(axes, title, f"{_target(document)}; {subtitle}")
    return axes


def _target(document: Mapping[str, Any]) -> str:
    target = document["backends"]["target"]
    return f"{target['name']}, {target['dtype']} on {target['device']}"


def _titles(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title)
    _note(axes, subtitle, (0, 1), (0, 9), xycoords="axes fraction", fontsize=9, color="#5a5a5a")


def _note(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float], **options: Any) -> None:
    axes.annotate(text, at, shift, textcoords="offset points", **options)


def _legend(axes: Axes, wanted: int) -> None:
    """One entry an arm, where there is more than one."""
    handles = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    if wanted > 1:
        axes.legend(handles.values(), handles, loc="best")
