"""The definition of every number redline prints, as one fold over the records of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from redline.core.ports import Traits
from redline.core.types import Step


@dataclass(frozen=True, slots=True)
class Source:
    """What came from one drafter; the numbers mean what they do in `Metrics`."""

    proposed: int
    accepted: int
    seconds: float

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.proposed if self.proposed else None


PARTS = ("draft", "target", "verify", "rewind", "other")

DEFINITIONS: Mapping[str, str] = {
    "tokens": "tokens emitted",
    "steps": "target passes that emitted them; reading the prompt does not count",
    "tokens_per_step": "tokens / steps; plain decoding has 1.0",
    "proposed": "guesses put before the target; those behind the end of the text do not count",
    "accepted": "guesses that became text",
    "acceptance": "accepted / proposed, from 0 to 1; null where nothing was guessed",
    "acceptance_at": "entry d − 1: how often a guess at depth d was kept when the one before it was",
    "seconds": "time of those steps, from the guess to the repaired cache",
    "tokens_per_s": "tokens / seconds, of sums and never a mean of rates",
    "sources": "by who guessed: proposed, accepted, acceptance as above, and the seconds of guessing",
    "share": "where the seconds went: draft, target, verify, rewind, other; sums to 1",
    "prefill_tokens": "prompt tokens read; those found in a kept cache are not read again",
    "prefill_s": "seconds that took",
}


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a run of steps amounts to; `DEFINITIONS` says what each number means."""

    tokens: int
    steps: int
    proposed: int
    accepted: int
    acceptance_at: tuple[float, ...]
    sources: Mapping[str, Source]
    seconds: float
    share: Mapping[str, float]
    prefill_tokens: int
    prefill_s: float

    @property
    def tokens_per_step(self) -> float:
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.proposed if self.proposed else None

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """Every number by the name it has in `DEFINITIONS`."""
        document = {name: getattr(self, name) for name in DEFINITIONS}
        sources = {
            name: {**asdict(each), "acceptance": each.acceptance} for name, each in self.sources.items()
        }
        return {**document, "sources": sources}


def checked_widths(steps: Iterable[Step]) -> list[int]:
    """Rows of the passes over one text that checked guesses, ascending."""
    return sorted({1 + len(step.proposed) for step in steps if step.proposed})


def inexact_widths(traits: Traits, steps: Iterable[Step]) -> tuple[int, ...]:
    """Rows of the passes over one text whose bits may not be those of one-row passes, ascending.

    A memory that comes back from a snapshot reads again what was kept, which is a pass too.
    """
    if traits.row_invariant:
        return ()
    decode = [step for step in steps if step.emitted]
    widths = {1 + len(step.proposed) for step in decode}
    if traits.rollback == "snapshot":
        widths |= {1 + step.accepted for step in decode if step.accepted < len(step.proposed)}
    return tuple(sorted(widths - set(traits.exact_widths)))


def fold(steps: Iterable[Step]) -> Metrics:
    """The numbers of a run; of several texts or runs together if their steps are given together."""
    steps = list(steps)
    decode = [step for step in steps if step.emitted]
    prefill = [step for step in steps if not step.emitted]
    seconds = sum(step.seconds for step in decode)
    spent = {part: sum(getattr(step, f"{part}_s") for step in decode) for part in PARTS}
    return Metrics(
        tokens=sum(len(step.emitted) for step in decode),
        steps=len(decode),
        proposed=sum(len(step.counted) for step in decode),
        accepted=sum(step.accepted for step in decode),
        acceptance_at=_acceptance_at(decode),
        sources=_by_source(decode),
        seconds=seconds,
        share={part: s / seconds if seconds else 0.0 for part, s in spent.items()},
        prefill_tokens=sum(step.prefilled for step in prefill),
        prefill_s=sum(step.seconds for step in prefill),
    )


def _by_source(steps: list[Step]) -> dict[str, Source]:
    names = {name for step in steps for name in (*step.spent, *step.sources)}
    return {
        name: Source(
            proposed=sum(step.sources[i] == name for step in steps for i in step.counted),
            accepted=sum(step.sources[i] == name for step in steps for i in step.path),
            seconds=sum(step.spent.get(name, 0.0) for step in steps),
        )
        for name in sorted(names)
    }


def _acceptance_at(steps: list[Step]) -> tuple[float, ...]:
    rates: list[float] = []
    depth = 1
    while reached := [s for s in steps if s.accepted + (s.refused is not None) >= depth]:
        rates.append(sum(s.accepted >= depth for s in reached) / len(reached))
        depth += 1
    return tuple(rates)
