"""How many CPU cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that the process may run on: a container or `taskset` can leave it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
