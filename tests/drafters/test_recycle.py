"""recycle: the target's own successors, once more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.core.chance import Keyed
from redline.core.errors import OptionError
from redline.core.pace import Fixed
from redline.core.ports import Scene
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Budget, History, Verdict
from redline.drafters import Recycle
from redline.drafters.recycle import BLOCK, FIRST, largest
from redline.drafters.sapling import Sapling
from redline.engine import Engine, generate
from redline.testing import DrafterContract, ToyBackend


class Taught(Recycle):
    """Has seen a row for every token before any text begins."""

    def start(self, key, tokens):
        super().start(key, tokens)
        rng = np.random.default_rng(0)
        self.watch(key, list(range(16)), [rng.normal(size=16).astype(np.float32) for _ in range(16)])


class TestRecycle(DrafterContract):
    learns = True

    @pytest.fixture(params=[Recycle, Taught])
    def drafter(self, request):
        return request.param()


def scene(text, trees=True, depth=3, nodes=6, confidence=0.0):
    chance = Keyed(0).at(len(text))
    return Scene(0, History(text, len(text)), Budget(depth, nodes, confidence), Sampling(), chance, trees)


def row(*tops, size=32):
    logits = np.zeros(size, np.float32)
    for i, token in enumerate(tops):
        logits[token] = 9 - i
    return logits


def taught():
    drafter = Recycle(width=3)
    drafter.start(0, [1])
    drafter.watch(0, [1, 2, 3], [row(2, 3, 4), row(5, 6), row(7)])
    return drafter


def test_a_tree_of_successors_the_likeliest_first():
    draft = taught().propose([scene([0, 1], nodes=4)])[0]
    assert (draft.tokens[:2], draft.parents[:2]) == ((2, 5), (-1, 0))
    assert set(draft.sources) == {"recycle"}
    assert draft.trust[:2] == pytest.approx((FIRST[0], FIRST[0]))
    assert len(draft) == 4


def test_a_chain_of_first_successors_where_trees_are_no_use():
    draft = taught().propose([scene([0, 1], trees=False)])[0]
    assert draft.tokens[:2] == (2, 5)
    assert draft.is_chain


def test_unknown_tokens_have_no_successors_and_doubt_ends_guessing():
    assert len(taught().propose([scene([1, 9])])[0]) == 0
    assert len(taught().propose([scene([0, 1], confidence=0.9)])[0]) == 1


def test_a_prompt_is_better_than_nothing_and_a_row_is_better_than_a_prompt():
    drafter = Recycle()
    drafter.start(0, [1, 2, 3, 2, 5])
    drafter.read(0, [1, 2])
    drafter.read(0, [1, 2, 3, 2, 5])
    text = [1, 2, 3, 2, 5, 2]
    assert drafter.propose([scene(text, nodes=1)])[0].tokens == (3,)
    drafter.watch(0, [2], [row(8)])
    assert drafter.propose([scene(text, nodes=1)])[0].tokens == (8,)


def test_it_learns_how_often_which_successor_comes():
    drafter = taught()
    for _ in range(200):
        drafter.observe(0, [1, 3], Verdict((), 3))
    draft = drafter.propose([scene([0, 1], nodes=1)])[0]
    assert draft.tokens == (3,)
    assert draft.trust[0] > 0.8


@given(st.integers(1, 5 * BLOCK), st.integers(1, 9), st.integers(0, 5), st.integers(1, 3))
def test_the_largest_are_those_of_a_sort(size, count, seed, kinds):
    row = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    found = largest(row, count)
    assert found == np.argsort(-row, kind="stable")[:count].tolist()
    level = np.random.default_rng(seed).integers(0, kinds, size).astype(np.float32)
    assert sorted(level[largest(level, count)]) == sorted(np.sort(level)[::-1][:count])


@given(st.lists(st.floats(0.1, 0.9), min_size=1, max_size=4), st.integers(1, 12), st.integers(1, 4))
def test_a_sapling_has_the_likeliest_nodes_of_all(trusts, nodes, depth):
    sapling = Sapling(depth, nodes)
    children = list(enumerate(trusts))
    sapling.open(-1, children)
    while (node := sapling.take()) is not None:
        sapling.open(node, children)
    draft = sapling.draft("all")
    every, level = [], [1.0]
    for _ in range(depth):
        level = [survival * trust for survival in level for trust in trusts]
        every += level
    assert sorted(draft.survival, reverse=True) == pytest.approx(sorted(every, reverse=True)[:nodes])


@pytest.mark.parametrize("width", [0, 1.5])
def test_a_width_of_nothing_is_refused(width):
    with pytest.raises(OptionError, match="width is"):
        Recycle(width)


def test_what_the_target_thought_is_what_it_thinks_again():
    target = ToyBackend(16, order=1)
    engine = Engine(target, Recycle(), pace=lambda: Fixed(3, nodes=8))
    plain = generate(Engine(target), [1, 2], limits=Limits(60), seed=1)
    first, second = (generate(engine, [1, 2], limits=Limits(60), seed=1) for _ in range(2))
    assert first.tokens == second.tokens == plain.tokens
    drafts = [[step.proposed for step in result.steps if step.emitted] for result in (first, second)]
    assert drafts[0] == drafts[1]
    assert second.metrics.tokens_per_step > 1.5
    assert engine.drafter.close() is None
