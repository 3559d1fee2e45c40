"""What every backend's caches have in common: slots, lines of a tree, and what a rewind may ask for."""

import pytest

from redline.backends.chunks import Growth, Slots, check_chunks
from redline.core.errors import RewindError
from redline.core.ports import Chunk
from redline.testing import ToyBackend


class Moves(Slots):
    """Writes down what it is asked to keep."""

    def __init__(self, backend):
        super().__init__(backend)
        self.asked = []

    def keep(self, length, path):
        self.asked.append((length, list(path)))


def filled(rollback="truncate", trees=True):
    """Three slots of a chain, then a tree of four: 3, and behind it 4 and 5, and 6 behind 5."""
    cache = Moves(ToyBackend(rollback=rollback, trees=trees))
    cache.commit(cache.growth(Chunk(cache, [1, 2, 3])))
    if trees:
        cache.commit(cache.growth(Chunk(cache, [4, 5, 6, 7], parents=[-1, 0, 0, 2])))
    return cache


def test_positions_are_places_in_a_line():
    cache = filled()
    assert (cache.length, cache.settled, cache.parents, cache.chunk_start) == (7, 3, [2, 3, 3, 5], 3)
    assert cache.growth(Chunk(cache, [8, 9])) == Growth([6, 7], [6, 7])
    assert cache.growth(Chunk(cache, [8, 9], parents=[-1, -1])) == Growth([6, 6], [6, 6])


def test_a_line_that_is_kept_becomes_a_chain():
    cache = filled()
    cache.rewind(3, [3, 5])
    assert (cache.length, cache.settled, cache.parents) == (5, 5, [])
    assert cache.asked == [(3, [3, 5])]
    assert cache.growth(Chunk(cache, [8])) == Growth(None, [5])


def test_what_need_not_move_is_no_path():
    cache = filled()
    cache.rewind(3, [3, 4])
    cache.rewind(2)
    cache.rewind(0, [0])
    assert cache.asked == [(5, []), (2, []), (1, [])]
    assert (cache.length, cache.settled) == (1, 1)


def test_what_cannot_be_kept_leaves_everything_as_it_is():
    class Stubborn(Slots):
        def keep(self, length, path):
            raise RewindError("no")

    cache = Stubborn(ToyBackend())
    cache.commit(cache.growth(Chunk(cache, [1, 2, 3])))
    with pytest.raises(RewindError, match="no"):
        cache.rewind(1)
    assert (cache.length, cache.settled) == (3, 3)


def test_a_snapshot_reaches_back_to_the_last_chunk_and_no_further():
    cache = filled("snapshot", trees=False)
    cache.commit(cache.growth(Chunk(cache, [4, 5])))
    cache.rewind(4)
    cache.rewind(3)
    with pytest.raises(RewindError, match="remembers no state before slot 3"):
        cache.rewind(2)
    assert cache.length == 3


def test_what_never_forgets_keeps_everything_or_refuses():
    cache = filled("none", trees=False)
    cache.rewind(3)
    cache.rewind(1, [1, 2])
    with pytest.raises(RewindError, match="cannot forget"):
        cache.rewind(2)
    assert cache.length == 3


def test_a_tree_is_refused_where_there_are_none_and_a_chain_in_its_form_is_not():
    cache = filled(trees=False)
    assert check_chunks(cache.backend, [Chunk(cache, [1, 2], parents=[-1, 0])], Moves) == [
        Growth(None, [3, 4])
    ]
    with pytest.raises(ValueError, match="takes no trees"):
        check_chunks(cache.backend, [Chunk(cache, [1, 2], parents=[-1, -1])], Moves)
    assert cache.length == 3
