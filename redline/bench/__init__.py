"""Measuring: the same prompts through plain decoding and through drafters, in turns."""

from redline.bench.cost import pass_cost
from redline.bench.machine import describe
from redline.bench.prompts import Question, read_questions
from redline.bench.report import report
from redline.bench.run import Trial, run
from redline.bench.same import Difference, differences

__all__ = [
    "Difference",
    "Question",
    "Trial",
    "describe",
    "differences",
    "pass_cost",
    "read_questions",
    "report",
    "run",
]
