"""Token trees as parent lists: every node names its parent, parents stand before their children."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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


def ancestry(parents: Sequence[int]) -> NDArray[np.bool_]:
    """Which nodes each node follows: `mask[i, j]` says that j lies on the path to i, i itself included.

    Returns:
        Booleans, shape (n, n): the attention mask of a tree among its own nodes (Miao et al.,
        SpecInfer, arXiv 2305.09781).
    """
    mask = np.eye(len(parents), dtype=np.bool_)
    for i, parent in enumerate(parents):
        if parent != ROOT:
            mask[i] |= mask[parent]
    return mask
