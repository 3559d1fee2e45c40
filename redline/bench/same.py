"""Do all arms write what plain decoding writes? And where one does not: is it a near-tie?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from redline.bench.run import Trial
from redline.core.metrics import checked_widths
from redline.core.ports import Backend
from redline.core.sampling import Sampling
from redline.doctor import Fork, explain


@dataclass(frozen=True, slots=True)
class Difference:
    """An answer that is not plain decoding's, and why."""

    trial: Trial
    fork: Fork

    def to_json(self) -> dict[str, Any]:
        """Which answer it is, where it parts, and by how much; null is for an infinite gap."""
        trial, fork = self.trial, self.fork
        return {
            "question": trial.question,
            "turn": trial.turn,
            "repeat": trial.repeat,
            "arm": trial.arm,
            "position": fork.position,
            "tokens": [fork.plain, fork.other],
            "gap": fork.gap if np.isfinite(fork.gap) else None,
            "noise": fork.noise,
            "verdict": fork.verdict,
            "sentence": fork.sentence,
        }


def differences(
    trials: Sequence[Trial], baseline: str, target: Backend, sampling: Sampling, seed: int
) -> Iterator[Difference]:
    """Explain every answer that differs from the baseline's; takes as long as reading it some times over.

    Args:
        trials: As `run` yields them.
        baseline: The arm that decodes plainly.
        target: Its model.
        sampling, seed: As they were for all arms.
    """
    plain = {trial.answer: trial for trial in trials if trial.arm == baseline}
    known: dict[tuple[object, ...], Fork | None] = {}  # repeats differ alike
    for trial in trials:
        if trial.arm == baseline or trial.answer not in plain:
            continue
        theirs, ours = plain[trial.answer].result.tokens, trial.result.tokens
        # Only the widths that the arm used: others may be noisier, and would excuse what they did not do.
        widths = tuple(checked_widths(trial.result.steps))
        key = (trial.prompt, theirs, ours, widths)
        if theirs != ours and key not in known:
            known[key] = explain(
                target, trial.prompt, theirs, ours, sampling=sampling, seed=seed, widths=widths
            )
        if theirs != ours and (fork := known[key]):
            yield Difference(trial, fork)
