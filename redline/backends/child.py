"""A process that is waited for with something to tell, and never outlives the wait."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

POLL_S = 0.1


def attend(process: subprocess.Popen[Any], tick: Callable[[], None]) -> int:
    """Wait for a child, calling `tick` now and then; its exit status. Ctrl-C does not leave it running."""
    try:
        while True:
            try:
                return process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                tick()
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()
