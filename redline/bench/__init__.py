"""Measuring: the same prompts through plain decoding and through a drafter, in turns."""

from redline.bench.prompts import Question, read_questions
from redline.bench.report import report
from redline.bench.run import Trial, run

__all__ = ["Question", "Trial", "read_questions", "report", "run"]
