"""Which engine is fastest here, from a few measured passes: `--backend auto`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from redline import backends
from redline.core import theory
from redline.core.errors import NoRoom, OptionError, UnsupportedModel
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
        UnsupportedModel, OptionError, NoRoom: No engine can run the model with these options; the first
            one's reason.
    """
    widths = (1, _DEPTH + 1) if role == "target" else (1,)
    opened: list[Backend] = []
    refusals: list[UnsupportedModel | OptionError | NoRoom] = []
    found: list[tuple[float, str]] = []
    try:
        for name in backends.candidates(path, role, how):
            options = how.copy()
            options["backend"] = name
            try:
                opened.append(backends.open(path, role, **options))
            except (UnsupportedModel, OptionError, NoRoom) as error:
                refusals.append(error)
                _log.info("%s cannot run %s: %s %s", name, path.name, error.message, error.hint)
                continue
            found.append((predicted_s(opened[-1], widths), f"{name} in {opened[-1].traits.dtype}"))
            if len(opened) == 2:  # keep the faster one
                opened.pop(0 if found[-1] < min(found[:-1]) else 1).close()
    except BaseException:
        for backend in opened:
            backend.close()
        raise
    if not opened:
        raise refusals[0]
    times = ", ".join(f"{what} {1000 * seconds:.0f} ms" for seconds, what in found)
    guessing = f" with {_ACCEPTANCE:.0%} of guesses kept" if role == "target" else ""
    _log.info("%s runs on %s; predicted for a token%s: %s.", path.name, min(found)[1], guessing, times)
    return opened[0]


def predicted_s(backend: Backend, widths: Sequence[int]) -> float:
    """Seconds per token of the cheapest step among passes of these widths, guesses being free."""
    cache, ahead = backend.open(), max(widths)
    prefix = min(_PREFIX, backend.traits.context - ahead)
    tokens = [i % backend.tokenizer.size for i in range(100, 100 + prefix + ahead)]
    times: dict[int, list[float]] = {width: [] for width in widths}
    try:
        if prefix > 0:
            backend.extend([Chunk(cache, tokens[:prefix], "none")])
        for _ in range(_ROUNDS):
            for width in widths:
                began = perf_counter()
                backend.extend([Chunk(cache, tokens[-width:])])
                times[width].append(perf_counter() - began)
                if backend.traits.rollback != "none":
                    cache.rewind(prefix)
    finally:
        cache.close()
    return min(median(s[1:]) / theory.expected_tokens(_ACCEPTANCE, n - 1) for n, s in times.items())
