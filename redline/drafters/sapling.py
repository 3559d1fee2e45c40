"""A token tree in the making: the node that is most probable to be kept grows next."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from redline.core.dist import Dist
from redline.core.topology import ROOT
from redline.core.types import Draft


class Sapling:
    """Grows certain guesses by the product of trust along their paths, which is best for a number of nodes.

    Args:
        depth, nodes: How deep and how many at most.
        doubt: A node less probable than this never grows.

    Attributes:
        tokens: Of the nodes that are there.
    """

    def __init__(self, depth: int, nodes: int, doubt: float = 0.0) -> None:
        self.tokens: list[int] = []
        self._limits, self._doubt = (depth, nodes), doubt
        self._parents: list[int] = []
        self._trust: list[float] = []
        self._depth, self._survival = {ROOT: 0}, {ROOT: 1.0}
        self._buds: list[tuple[float, int, int, int, float]] = []
        self._order = 0

    def open(self, node: int, children: Iterable[tuple[int, float]]) -> None:
        """What may follow a node: tokens that differ, each with its trust."""
        if self._depth[node] == self._limits[0]:
            return
        for token, trust in children:
            survival = self._survival[node] * trust
            if survival >= self._doubt:
                heapq.heappush(self._buds, (-survival, self._order, node, token, trust))
                self._order += 1  # of equals the first one grows

    def take(self) -> int | None:
        """The next node; None where there is no more, or no more room."""
        if not self._buds or len(self.tokens) == self._limits[1]:
            return None
        survival, _, parent, token, trust = heapq.heappop(self._buds)
        node = len(self.tokens)
        self.tokens.append(token)
        self._parents.append(parent)
        self._trust.append(trust)
        self._depth[node], self._survival[node] = self._depth[parent] + 1, -survival
        return node

    def draft(self, source: str) -> Draft:
        """The tree as it is."""
        n = len(self.tokens)
        dists = tuple(map(Dist.point, self.tokens))
        return Draft(tuple(self.tokens), tuple(self._parents), dists, (source,) * n, tuple(self._trust))
