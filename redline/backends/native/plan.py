"""Which rows go through the model together, and which cache slots each of them sees. No arithmetic here.

Rows of one text that lie on one line of its tree form a `Run`: consecutive positions, each seeing what
the one before it sees and itself. A chain is one run. A tree is cut into one run a leaf, and before a
run is computed its line is laid out in the cache contiguously, exactly as a chain would have stored it:
that is why a node's bits equal those of the same path read as a chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from redline.backends.chunks import Growth
from redline.backends.native.attention import spanned
from redline.backends.native.cache import NativeCache
from redline.core.ports import Chunk

ROWS = 64
"""Rows of one pass. Longer prompts take several; 64 rows keep the kernels within a tenth of their best."""

_MASK = 1 << 22
"""Numbers in a run's mask (16 MiB in float32): long caches are attended to by fewer rows at a time."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive positions of one line.

    Attributes:
        rows: Rows of the piece.
        start: Position of the first of them.
        line: The line from its first unsettled node to the last of these rows, as slots counted from
            the first unsettled one; None where the slots already are in this order.
    """

    rows: tuple[int, ...]
    start: int
    line: tuple[int, ...] | None


@dataclass(slots=True)
class Part:
    """One text's rows in a piece.

    Attributes:
        chunk: Index of its chunk.
        cache: Where keys and values go.
        rows: First row of the piece and the one after the last.
        slot: Slot of the first row.
        settled: The first slot that may belong to a tree.
        runs: The rows again, for attention.
    """

    chunk: int
    cache: NativeCache
    rows: tuple[int, int]
    slot: int
    settled: int
    runs: list[Run]


@dataclass(slots=True)
class Piece:
    """One pass through the model.

    Attributes:
        tokens, positions: Of every row.
        parts: The texts.
        wanted: Rows whose logits are asked for, grouped by chunk in the order of the parts.
    """

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)


def pieces(
    chunks: Sequence[Chunk],
    growths: Sequence[Growth],
    groups: int,
    starts: Sequence[int],
    every: bool = False,
) -> Iterator[Piece]:
    """Cut the chunks into passes of at most `ROWS` rows, in order.

    Args:
        chunks, growths: What is to be read, and where it goes.
        groups: Query heads that share keys.
        starts: How many of each chunk's first tokens need no pass.
        every: All rows are wanted, whatever the chunks say.
    """
    piece = Piece()
    for index, (chunk, grown, done) in enumerate(zip(chunks, growths, starts, strict=True)):
        count = len(chunk.tokens)
        while done < count:
            if len(piece.tokens) == ROWS:
                yield piece
                piece = Piece()
            first = len(piece.tokens)
            take = min(ROWS - first, count - done)
            piece.tokens += chunk.tokens[done : done + take]
            piece.positions += grown.positions[done : done + take]
            assert isinstance(chunk.cache, NativeCache)
            piece.parts.append(_part(index, chunk.cache, grown, done, (first, first + take), groups))
            done += take
            if every or chunk.rows == "all":
                piece.wanted += range(first, first + take)
            elif chunk.rows == "last" and done == count:
                piece.wanted.append(first + take - 1)
    if piece.tokens:
        yield piece


def _part(
    index: int, cache: NativeCache, grown: Growth, done: int, rows: tuple[int, int], groups: int
) -> Part:
    first, end = rows
    slot = cache.length + done
    if grown.parents is None:
        runs = _tiled(Run(tuple(range(first, end)), slot, None), groups)
        return Part(index, cache, rows, slot, slot, runs)
    base = cache.settled
    parents = [before - base for before in (*cache.parents, *grown.parents[: done + end - first])]
    new, runs = range(slot - base, len(parents)), []
    computed: set[int] = set()
    inside = {parents[node] for node in new}
    for leaf in (node for node in new if node not in inside):
        line = [leaf]
        while parents[line[-1]] >= 0:
            line.append(parents[line[-1]])
        line.reverse()
        fresh = [node for node in line if node in new and node not in computed]
        computed.update(fresh)
        start = base + line.index(fresh[0])
        run = Run(tuple(first + node - new.start for node in fresh), start, tuple(line))
        runs += _tiled(run, groups)
    return Part(index, cache, rows, slot, base, runs)


def _tiled(run: Run, groups: int) -> list[Run]:
    """The same rows in runs whose masks fit, and whose rows all see the same number of spans.

    How many slots a matrix product adds up decides the order in which it adds them, so that number must
    depend on a row's position alone.
    """
    runs, done = [], 0
    while done < len(run.rows):
        start = run.start + done
        span = spanned(start + 1)
        end = min(len(run.rows), done + span - start, done + max(1, _MASK // (groups * span)))
        runs.append(Run(run.rows[done:end], start, run.line))
        done = end
    return runs
