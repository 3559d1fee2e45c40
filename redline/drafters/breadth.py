"""A draft model guesses a tree: several candidates where it is unsure, one where it is sure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from redline.backends.pool import shared_prefix
from redline.core.dist import Dist
from redline.core.ports import Backend, Chunk, Constraint
from redline.core.sampling import adjusted
from redline.core.topology import ROOT, path
from redline.core.types import Draft
from redline.drafters.siblings import WORTH, Siblings

if TYPE_CHECKING:
    from redline.drafters.model import Guess

READ = 2 * WORTH
"""A candidate beside the main chain is read if it may have a child that is worth it."""


def broaden(guess: Guess, backend: Backend) -> Guess | Tree:
    """A tree instead of a chain where the budget has room for more than one, and everybody takes trees."""
    scene = guess.scene
    room = backend.traits.context - len(scene.history.tokens)
    takes = scene.trees and backend.traits.trees and scene.budget.nodes <= room
    return Tree(guess, backend.tokenizer.ends) if takes and scene.budget.nodes > guess.depth > 0 else guess


class Tree:
    """A tree of guesses in the making, on a cache that holds a chain before and after every pass.

    The first candidates make a main chain, which is the one that would be guessed without breadth and ends
    where that would. What the budget has beyond its depth goes to other candidates, the best first by the
    product of what those on their path are worth (cf. EAGLE-2, arXiv 2406.16858). A pass reads the newest
    node of the main chain and, with it, the newest candidates beside it that are likely enough. It is made
    as long as one of these is as probable as the budget's `confidence`. What is left of the budget goes to
    candidates that nobody reads.

    Whether and where a candidate is drawn depends on those drawn before it and never on itself, and what was
    drawn stays. So each has the law that it comes with, given all before it. A rule that refuses one looks
    no more at what follows it, and meets its later siblings, which were drawn after it: rules that read q
    stay exact.

    A chunk can follow nothing but the last entry of a cache. So nodes are read again from where the lines
    part, as long as more than one line goes on, and nothing is read ahead from copies of the text.

    Args:
        guess: What it is for; its text's cache ends before `guess.unread`.
        ends: Tokens that nothing follows.
    """

    def __init__(self, guess: Guess, ends: frozenset[int]) -> None:
        self._guess, self._scene, self._ends = guess, guess.scene, ends
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._dists: list[Dist] = []
        self._trust: list[float] = []
        self._survival = {ROOT: 1.0}
        self._deep = {ROOT: 0}
        self._after: dict[int, Siblings] = {}
        self._states: dict[int, Constraint | None] = {ROOT: guess.scene.constraint}
        self._main: list[int] = []
        self._stem: list[int] = []  # as much of it as is in the cache
        self._next, self._reading = [ROOT], list[int]()

    @property
    def grows(self) -> bool:
        """Whether there is something to read."""
        return bool(self._next)

    def draft(self, source: str) -> Draft:
        """The guesses, in the order in which they were drawn."""
        tokens, sources = tuple(self._tokens), (source,) * len(self._tokens)
        return Draft(tokens, tuple(self._parents), tuple(self._dists), sources, tuple(self._trust))

    def chunk(self) -> Chunk:
        """What is to be read next; the cache forgets what it must follow no more."""
        guess, text = self._guess, self._guess.text
        if self._next == [ROOT]:
            return Chunk(text.cache, guess.unread, "last", vocabulary=guess.vocabulary)
        lines = [path(self._parents, node) for node in self._next]
        common = min(shared_prefix(self._stem, line) for line in lines)
        if dropped := len(self._stem) - common:
            del text.read[-dropped:], self._stem[common:]
            text.cache.rewind(len(text.read))
        self._reading = sorted({node for line in lines for node in line[common:]})
        place = {node: i for i, node in enumerate(self._reading)}
        parents = [place.get(self._parents[node], ROOT) for node in self._reading]
        return Chunk(
            text.cache,
            [self._tokens[node] for node in self._reading],
            "last" if len(self._next) == 1 else "all",
            None if parents == list(range(ROOT, len(parents) - 1)) else parents,
            guess.vocabulary,
        )

    def take(self, rows: NDArray[np.float32]) -> None:
        """Go on from the rows of a chunk, shape (rows, V)."""
        rows, text = rows[:, : self._guess.vocabulary], self._guess.text
        if self._next == [ROOT]:
            text.read += self._guess.unread
        else:
            self._keep_main()
        for node in self._next:
            row = rows[-1] if len(self._next) == 1 else rows[self._reading.index(node)]
            self._open(node, row)
        self._next = self._widen(self._next)
        if not self._next:
            self._fill()

    def _keep_main(self) -> None:
        """Let the cache hold a chain again: the main one as far as it was read."""
        text, main = self._guess.text, set(self._main)
        kept = [(slot, node) for slot, node in enumerate(self._reading) if node in main]
        if len(kept) < len(self._reading):
            text.cache.rewind(len(text.read), [len(text.read) + slot for slot, _ in kept])
        text.read += [self._tokens[node] for _, node in kept]
        self._stem += [node for _, node in kept]

    def _open(self, node: int, row: NDArray[np.float32]) -> None:
        """Make a row the candidates after a node; there are none where a constraint forbids all."""
        sampling, history = self._guess.sampling, self._scene.history
        if sampling.reads_history:
            history = history.then([self._tokens[i] for i in path(self._parents, node)])
        state = self._states[node]
        allowed = state.allowed() if state else None
        if allowed is not None:
            allowed = allowed[: len(row)]
            if adjusted(row, sampling, history, allowed).max() == -np.inf:
                return
        self._after[node] = Siblings(row, sampling, history, allowed)

    def _widen(self, read: list[int]) -> list[int]:
        """Draw after the nodes that were just read; those of the new ones that are to be read."""
        tip, main = self._main[-1] if self._main else ROOT, []
        if tip in read and tip in self._after:
            tip = self._draw(tip)
            self._main.append(tip)
            main = [tip] if self._leads_on(tip) and self._is_trusted(tip) else []
        reserved = self._guess.depth - self._deep[tip] if main else 0
        beside: list[int] = []
        while len(self._tokens) < self._scene.budget.nodes - reserved:
            worth, node = self._best(read)
            if worth < READ or self._deep[node] + 1 == self._guess.depth:
                break
            beside.append(self._draw(node))
        new = main + [node for node in beside if self._leads_on(node)]
        return new if any(map(self._is_trusted, new)) else []

    def _fill(self) -> None:
        """Spend what is left of the budget on what no pass has to be made for."""
        while len(self._tokens) < self._scene.budget.nodes:
            worth, node = self._best(self._after)
            if worth < WORTH:
                break
            self._draw(node)

    def _best(self, nodes: Iterable[int]) -> tuple[float, int]:
        """What the best next candidate after these nodes is worth, and after which; the first on a tie."""
        known = [node for node in nodes if node in self._after]
        worths = [self._survival[node] * self._after[node].worth for node in known]
        best = max(worths, default=0.0)
        return best, known[worths.index(best)] if known else ROOT

    def _draw(self, parent: int) -> int:
        """A new node, the next candidate after `parent`."""
        siblings, node = self._after[parent], len(self._tokens)
        self._survival[node] = self._survival[parent] * siblings.worth
        self._deep[node] = self._deep[parent] + 1
        token, law, trust = siblings.draw(self._scene.chance, at=self._deep[parent])
        state = self._states[parent]
        self._states[node] = state.after(token) if state else None
        self._tokens.append(token)
        self._parents.append(parent)
        self._dists.append(law)
        self._trust.append(trust)
        return node

    def _leads_on(self, node: int) -> bool:
        """Whether anything may follow."""
        return self._deep[node] < self._guess.depth and self._tokens[node] not in self._ends

    def _is_trusted(self, node: int) -> bool:
        return self._survival[node] >= self._scene.budget.confidence
