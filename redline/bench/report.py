"""What a set of trials amounts to: ratios with their spread, by category and in all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from redline.bench.machine import commit, machine, versions
from redline.bench.run import Trial
from redline.bench.same import Difference
from redline.bench.stats import FloatArray, geometric_mean, interval, pooled, ratios
from redline.core.metrics import Metrics, fold
from redline.core.types import Step

FORMAT = "redline-bench-2"


def report(
    trials: Sequence[Trial],
    baseline: str,
    settings: dict[str, Any],
    *,
    differences: Sequence[Difference] = (),
    backends: dict[str, Any] | None = None,
    pass_cost: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A JSON document of everything measured.

    Args:
        trials: As `run` yields them; answers that the baseline or another arm lacks are left out.
        baseline: The arm that the others are compared with.
        settings: What was asked for. `comparable` says whether all arms must write the same.
        differences: Every answer that is not the baseline's, explained.
        backends: The models and their engines, by role.
        pass_cost: What a pass of the target costs by its rows.
    """
    categories = list(dict.fromkeys(trial.category for trial in trials))
    arms = [arm for arm in dict.fromkeys(trial.arm for trial in trials) if arm != baseline]
    found: dict[str, Any] = {}
    for arm in arms:
        own = [d for d in differences if d.trial.arm == arm] if settings["comparable"] else None
        rows = {c: compare([t for t in trials if t.category == c], baseline, arm, own) for c in categories}
        every = compare(trials, baseline, arm, own)
        speedups = [row["speedup"] for row in rows.values() if row["answers"]]
        if speedups:
            every["speedup_geomean"] = None if None in speedups else geometric_mean(speedups)
        found[arm] = {"all": every, "by_category": rows}
    return {
        "format": FORMAT,
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "settings": settings,
        "backends": backends or {},
        "arms": found,
        "pass_cost": pass_cost,
        "differences": [difference.to_json() for difference in differences],
        "trials": [_trial(trial) for trial in trials],
    }


def compare(
    trials: Sequence[Trial], baseline: str, arm: str, differences: Sequence[Difference] | None = ()
) -> dict[str, Any]:
    """One arm against the baseline, over the answers that both have.

    Args:
        trials: Of these two arms, and perhaps of others.
        baseline, arm: Which two.
        differences: The arm's answers that are not the baseline's; None where they need not be the same.

    Returns:
        `answers`; of these `identical` ones, `near_ties` and `bugs`; `past_end`, the tokens behind the
        model's own end; `metrics` and `s_per_token` of both arms; `reached_at`, how many guesses each entry
        of `acceptance_at` counts; and for the speed-up, which is None where there is a bug: `speedup` of
        pooled sums, `speedup_interval` as `stats.interval` has it, `speedup_median`, `speedup_low` and
        `speedup_high`, which are percentiles 50, 10 and 90 of the same ratio over single answers, and
        `speedup_with_prompt`, with the seconds of reading it.
    """
    by_arm = {name: {t.answer: t for t in trials if t.arm == name} for name in (baseline, arm)}
    pairs = [(by_arm[baseline][key], trial) for key, trial in by_arm[arm].items() if key in by_arm[baseline]]
    if not pairs:
        return {"answers": 0}
    plain = fold(step for theirs, _ in pairs for step in theirs.result.steps)
    fast = fold(step for _, ours in pairs for step in ours.result.steps)
    verdicts = {d.trial.answer: d.fork.verdict for d in differences or ()}
    fates = [verdicts.get(ours.answer) for _, ours in pairs]
    row = {
        "answers": len(pairs),
        "identical": sum(theirs.result.tokens == ours.result.tokens for theirs, ours in pairs),
        "near_ties": fates.count("near-tie") if differences is not None else None,
        "bugs": fates.count("bug") if differences is not None else None,
        "past_end": sum(ours.past_end for _, ours in pairs),
        "baseline": {"s_per_token": plain.seconds / plain.tokens, "metrics": plain.to_json()},
        "s_per_token": fast.seconds / fast.tokens,
        "metrics": fast.to_json(),
        "reached_at": _reached_at([step for _, ours in pairs for step in ours.result.steps], fast),
    }
    return row | (dict.fromkeys(_RATIOS) if row["bugs"] else _speedups(pairs, plain, fast))


_RATIOS = (
    "speedup",
    "speedup_interval",
    "speedup_median",
    "speedup_low",
    "speedup_high",
    "speedup_with_prompt",
)


def _speedups(pairs: Sequence[tuple[Trial, Trial]], plain: Metrics, fast: Metrics) -> dict[str, Any]:
    """The ratios of a row.

    The repeats of an answer are one answer: asking it again tells nothing new. For the interval the turns of
    a conversation are one too, since each reads what came before it.
    """
    answers: dict[Any, FloatArray] = defaultdict(lambda: np.zeros((2, 2)))
    questions: dict[Any, FloatArray] = defaultdict(lambda: np.zeros((2, 2)))
    groups: dict[Any, str] = {}
    for theirs, ours in pairs:
        groups[ours.question] = ours.category
        for sums in (answers[ours.question, ours.turn], questions[ours.question]):
            sums += [(m.seconds, m.tokens) for m in (theirs.result.metrics, ours.result.metrics)]
    each, every = np.array(list(answers.values())), np.array(list(questions.values()))
    single = ratios(each[:, 0], each[:, 1])
    values = (
        pooled(each[:, 0], each[:, 1]),
        interval(every[:, 0], every[:, 1], list(groups.values())),
        *(float(np.percentile(single, at)) for at in (50, 10, 90)),
        (plain.seconds + plain.prefill_s) / plain.tokens / ((fast.seconds + fast.prefill_s) / fast.tokens),
    )
    return dict(zip(_RATIOS, values, strict=True))


def _reached_at(steps: Sequence[Step], metrics: Metrics) -> list[int]:
    depths = range(1, len(metrics.acceptance_at) + 1)
    return [sum(s.accepted + (s.refused is not None) >= depth for s in steps) for depth in depths]


def speedup(plain: Metrics, fast: Metrics) -> float:
    """Seconds per token of the first over those of the second."""
    return fast.tokens_per_s / plain.tokens_per_s


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "question": trial.question,
        "turn": trial.turn,
        "repeat": trial.repeat,
        "category": trial.category,
        "arm": trial.arm,
        "prompt_tokens": len(trial.prompt),
        "past_end": trial.past_end,
        "tokens": list(trial.result.tokens),
        "metrics": trial.result.metrics.to_json(),
    }
