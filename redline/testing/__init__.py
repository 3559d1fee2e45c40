"""What proves a rule, a backend or a drafter right: for redline's own tests and for plug-in authors'.

`outcomes` runs a computation once for every way its randomness can fall and returns the exact probability
of each result. `BackendContract`, `backend_machine`, `ConstraintContract` and `DrafterContract` are the
tests that every implementation of a seam must pass. Needs pytest and hypothesis.
"""

from redline.backends.toy import ToyBackend, ToyTokenizer
from redline.testing.backends import BackendContract, backend_machine
from redline.testing.chance import Enumerated, outcomes
from redline.testing.constraints import Automaton, ConstraintContract
from redline.testing.drafters import DrafterContract

__all__ = [
    "Automaton",
    "BackendContract",
    "ConstraintContract",
    "DrafterContract",
    "Enumerated",
    "ToyBackend",
    "ToyTokenizer",
    "backend_machine",
    "outcomes",
]
