"""Speculative decoding that is exact, measured, and explains itself.

Example:
    >>> import redline
    >>> engine = redline.load("smollm2-135m", draft="auto")
    >>> redline.generate(engine, "Once upon a time", limits=redline.Limits(64)).text
"""

from redline.core.errors import RedlineError
from redline.core.metrics import Metrics, fold
from redline.core.sampling import Sampling, distribution
from redline.core.stop import Limits
from redline.core.types import Draft, Step, Verdict
from redline.core.verify import RULES, speculative_verify
from redline.engine import Engine, Piece, Result, generate, generate_many, stream
from redline.engine.load import load

__all__ = [
    "RULES",
    "Draft",
    "Engine",
    "Limits",
    "Metrics",
    "Piece",
    "RedlineError",
    "Result",
    "Sampling",
    "Step",
    "Verdict",
    "distribution",
    "fold",
    "generate",
    "generate_many",
    "load",
    "speculative_verify",
    "stream",
]
