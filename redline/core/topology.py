"""Token trees as parent lists: every node names its parent, parents stand before their children."""

from __future__ import annotations

from collections.abc import Sequence

ROOT = -1
"""The parent of a draft's first guesses: the text that is already committed."""


def path(parents: Sequence[int], node: int) -> list[int]:
    """The nodes from a first guess down to `node`, itself included; none for `ROOT`."""
    nodes: list[int] = []
    while node != ROOT:
        nodes.append(node)
        node = parents[node]
    return nodes[::-1]


def depths(parents: Sequence[int]) -> list[int]:
    """The depth of every node; a first guess has depth 1."""
    deep: list[int] = []
    for parent in parents:
        deep.append(1 if parent == ROOT else deep[parent] + 1)
    return deep
