"""Which engine is fastest here, from a few measured passes: `--backend auto`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from redline import backends
from redline.core import theory
from redline.core.errors import OptionError, UnsupportedModel
from redline.core.ports import Backend, Chunk

_PREFIX = 64
_ROUNDS = 4
_DEPTH = 4
_ACCEPTANCE = 0.8  # of a usual draft model; a wrong guess here shifts all engines alike

_log = logging.getLogger("redline")


def fastest(path: Path, role: backends.Role, how: backends.Opening) -> Backend:
    """The backend with the least predicted time per token, opened; what was measured is logged.

    A target is judged by the cheaper of plain decoding and steps with a few guesses, since an engine whose
    single row is fast may be slow at checking. At most two engines hold the model at a time.

    Raises:
        UnsupportedModel, OptionError: No engine can run the model with these options; the first one's reason.
    """
    best: tuple[float, Backend] | None = None
    refusals: list[UnsupportedModel | OptionError] = []
    found: dict[str, float] = {}
    for name in backends.candidates(path, role):
        try:
            options = how.copy()
            options["backend"] = name
            backend = backends.open(path, role, **options)
        except (UnsupportedModel, OptionError) as error:
            refusals.append(error)
            _log.info("%s cannot run %s: %s", name, path.name, error.message)
            continue
        found[name] = predicted_s(backend, (1, _DEPTH + 1) if role == "target" else (1,))
        if best and best[0] <= found[name]:
            backend.close()
            continue
        if best:
            best[1].close()
        best = (found[name], backend)
    if best is None:
        raise refusals[0]
    times = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in found.items())
    _log.info(
        "%s runs on %s; predicted for a token: %s.", path.name, min(found, key=found.__getitem__), times
    )
    return best[1]


def predicted_s(backend: Backend, widths: Sequence[int]) -> float:
    """Seconds per token of the cheapest step among passes of these widths, guesses being free."""
    cache = backend.open()
    tokens = [i % backend.tokenizer.size for i in range(100, 100 + _PREFIX + max(widths))]
    try:
        backend.extend([Chunk(cache, tokens[:_PREFIX], "none")])
        times: dict[int, list[float]] = {width: [] for width in widths}
        for _ in range(_ROUNDS):
            for width in widths:
                began = perf_counter()
                backend.extend([Chunk(cache, tokens[_PREFIX : _PREFIX + width])])
                times[width].append(perf_counter() - began)
                if backend.traits.rollback != "none":
                    cache.rewind(_PREFIX)
    finally:
        cache.close()
    return min(median(s[1:]) / theory.expected_tokens(_ACCEPTANCE, n - 1) for n, s in times.items())
