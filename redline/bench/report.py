"""What a set of trials amounts to: ratios with their spread, by category and in all."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from redline.bench.run import Trial
from redline.core.metrics import Metrics, fold

FORMAT = "redline-bench-1"


def report(trials: Sequence[Trial], baseline: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A JSON document of everything measured.

    Args:
        trials: As `run` yields them; answers that the baseline or another arm lacks are left out.
        baseline: The arm that the others are compared with.
        settings: What was asked for.
    """
    categories = dict.fromkeys(trial.category for trial in trials)
    arms = [arm for arm in dict.fromkeys(trial.arm for trial in trials) if arm != baseline]
    return {
        "format": FORMAT,
        "machine": machine(),
        "settings": settings,
        "arms": {
            arm: {
                "all": compare(trials, baseline, arm),
                "by_category": {
                    category: compare([t for t in trials if t.category == category], baseline, arm)
                    for category in categories
                },
            }
            for arm in arms
        },
        "trials": [
            {
                "question": t.question,
                "turn": t.turn,
                "repeat": t.repeat,
                "category": t.category,
                "arm": t.arm,
                "metrics": t.result.metrics.to_json(),
            }
            for t in trials
        ],
    }


def compare(trials: Sequence[Trial], baseline: str, arm: str) -> dict[str, Any]:
    """One arm against the baseline, over the answers that both have.

    Returns:
        `speedup`: seconds per token of the baseline over those of the arm, of pooled sums; `speedup_low`
        and `speedup_high`: the 10th and 90th percentile of the same ratio over single answers;
        `speedup_with_prompt`: the same with the seconds of reading the prompt; `identical`: how many of
        the `answers` have the same tokens; `baseline_tokens_per_s`; and the arm's own `metrics`.
    """
    by_arm = {
        name: {(t.question, t.turn, t.repeat): t for t in trials if t.arm == name} for name in (baseline, arm)
    }
    pairs = [(by_arm[baseline][key], trial) for key, trial in by_arm[arm].items() if key in by_arm[baseline]]
    if not pairs:
        return {"answers": 0}
    plain = fold(step for theirs, _ in pairs for step in theirs.result.steps)
    fast = fold(step for _, ours in pairs for step in ours.result.steps)
    ratios = [speedup(theirs.result.metrics, ours.result.metrics) for theirs, ours in pairs]
    return {
        "answers": len(pairs),
        "identical": sum(theirs.result.tokens == ours.result.tokens for theirs, ours in pairs),
        "speedup": speedup(plain, fast),
        "speedup_low": float(np.percentile(ratios, 10)),
        "speedup_high": float(np.percentile(ratios, 90)),
        "speedup_with_prompt": (plain.seconds + plain.prefill_s)
        / plain.tokens
        / ((fast.seconds + fast.prefill_s) / fast.tokens),
        "baseline_tokens_per_s": plain.tokens_per_s,
        "metrics": fast.to_json(),
    }


def speedup(plain: Metrics, fast: Metrics) -> float:
    """Seconds per token of the first over those of the second."""
    return fast.tokens_per_s / plain.tokens_per_s


def machine() -> dict[str, Any]:
    """What a number was measured on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("redline", "torch", "numpy")},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
