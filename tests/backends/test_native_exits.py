"""Tokens read part of the way: what goes on from there has the bits of what begins at the beginning."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import make_reference, reference_logits

from redline.backends.native import NativeBackend, cache
from redline.backends.native.cache import Ahead, NativeCache
from redline.backends.strict import Strict
from redline.core.errors import ContextError
from redline.core.ports import Chunk, Exits
from redline.core.topology import path
from redline.testing import ToyBackend

SHAPES = ["llama", "qwen2", "qwen3"]


def entries(cache):
    """Keys and values slot by slot, (2, layers, kv_heads, length, width)."""
    keys, values = cache.store
    block = cache._block
    blocks = keys.reshape(*keys.shape[:2], -1, keys.shape[3], block)
    return torch.stack([blocks.transpose(3, 4).reshape(values.shape), values])[:, :, :, : cache.length]


class Pair:
    """A cache that is read part of the way now and then, and one that never is."""

    def __init__(self, backend):
        self.backend, self.text = backend, []
        self.cache, self.plain = backend.open(), backend.open()

    def chunks(self, tokens, rows="all", parents=None):
        return [Chunk(each, tokens, rows, parents) for each in (self.cache, self.plain)]

    def same(self):
        assert self.cache.length == self.plain.length == len(self.text)
        assert torch.equal(entries(self.cache), entries(self.plain))

    def leave(self, tokens, layers):
        (rows,) = self.backend.extend_exit([Chunk(self.cache, tokens)], layers)
        whole = [*self.text, *tokens]
        (fresh,) = self.backend.extend_exit([Chunk(self.backend.open(), whole)], layers)
        np.testing.assert_array_equal(rows, fresh[len(self.text) :])

    def extend(self, tokens, parents=None, deferred=False):
        extend = self.backend.extend_deferred if deferred else self.backend.extend
        mine, theirs = self.chunks(tokens, "all", parents)
        (rows,), (want,) = extend([mine]), self.backend.extend([theirs])
        np.testing.assert_array_equal([rows[i] for i in range(len(tokens))], want)
        self.text += tokens
        self.same()

    def rewind(self, length, kept=()):
        for each in (self.cache, self.plain):
            each.rewind(length, kept)
        self.text = [self.text[slot] for slot in (*range(length), *kept)]
        self.same()


class Histories:
    """Any history of a few texts; few words, so that the same ones stand in the same place by chance."""

    word = st.integers(1, 2)

    def __init__(self, backend, data):
        self.backend, self.draw = backend, data.draw
        self.pairs = [Pair(backend) for _ in range(self.draw(st.integers(1, 3)))]
        for pair in self.pairs:
            pair.extend([i % 3 for i in range(self.draw(st.sampled_from([1, 5, 60, 118, 125])))])
        steps = (self.leave, self.leave, self.extend, self.extend_all, self.tree, self.rewind)
        for step in self.draw(st.lists(st.sampled_from(steps), min_size=3, max_size=10)):
            step()

    def some(self, most=5):
        return self.draw(st.lists(self.word, min_size=1, max_size=most))

    def one(self):
        short = [pair for pair in self.pairs if len(pair.text) < 140] or [Pair(self.backend)]
        return self.draw(st.sampled_from(short))

    def leave(self):
        self.one().leave(self.some(), self.draw(st.integers(1, 2)))

    def extend(self):
        self.one().extend(self.some(12), deferred=self.draw(st.booleans()))

    def extend_all(self):
        """Texts that have come differently far, some of them nowhere."""
        pairs = [pair for pair in self.pairs if len(pair.text) < 100]
        news = [self.some(self.draw(st.sampled_from([1, 4, 40]))) for _ in pairs]
        asked = [self.draw(st.sampled_from(["all", "last", "none"])) for _ in pairs]
        chunks = [pair.chunks(new, rows) for pair, new, rows in zip(pairs, news, asked, strict=True)]
        found = self.backend.extend([mine for mine, _ in chunks])
        for pair, new, rows, (_, theirs) in zip(pairs, news, found, chunks, strict=True):
            np.testing.assert_array_equal(rows, self.backend.extend([theirs])[0])
            pair.text += new
            pair.same()

    def tree(self):
        pair, nodes = self.one(), self.some(8)
        parents = [
            i - 1 if self.draw(st.booleans()) else self.draw(st.integers(-1, i - 1))
            for i in range(len(nodes))
        ]
        base = len(pair.text)
        pair.extend(nodes, parents)
        kept = path(parents, self.draw(st.integers(-1, len(nodes) - 1)))
        pair.rewind(base, [base + node for node in kept])

    def rewind(self):
        pair = self.one()
        pair.rewind(self.draw(st.integers(max(0, len(pair.text) - 4), len(pair.text))))


@pytest.mark.parametrize("shape", SHAPES)
def test_any_history_with_exits_equals_the_one_without(opened_file, shape, precision):
    backend = opened_file(shape, precision)

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def check(data):
        Histories(backend, data)

    check()


def filled(backend, count):
    pair = Pair(backend)
    pair.extend([i % 7 for i in range(count)])
    return pair


def rewound(backend):
    pair = filled(backend, 6)
    pair.leave([8, 9], 2)
    pair.rewind(4)
    pair.extend([8, 9])


def kept_as_it_is(backend):
    pair = filled(backend, 6)
    pair.leave([8, 9], 2)
    pair.rewind(6)
    pair.extend([8, 9])


def other_tokens(backend):
    pair = filled(backend, 6)
    pair.leave([8, 9, 10], 2)
    pair.extend([8, 11, 10])


def branches(backend):
    pair = filled(backend, 6)
    pair.leave([8, 9, 10], 2)
    pair.extend([8, 9, 10], [-1, 0, 0])


def a_larger_store(backend):
    pair = filled(backend, 110)
    pair.leave([8, 9, 10], 2)
    assert pair.cache.store.shape[3] == 128
    pair.extend([8, 9, 10, *range(11, 30)])
    assert pair.cache.store.shape[3] == 256


def another_exit(backend):
    pair = filled(backend, 6)
    pair.leave([8, 9, 10], 1)
    pair.leave([8, 9, 10], 2)
    pair.extend([8, 9, 10])


def read_twice(backend):
    """What has been read in full is no longer ahead."""
    pair = filled(backend, 6)
    pair.leave([8, 9], 2)
    pair.extend([8, 9])
    pair.extend([8, 9])


SCRIPTS = [rewound, kept_as_it_is, other_tokens, branches, a_larger_store, another_exit, read_twice]


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_was_left_is_used_where_it_belongs(opened_file, script, precision):
    script(opened_file("qwen3", precision))


def take_whatever(self, chunk):
    ahead, self.ahead = self.ahead, None
    if ahead is None:
        return None
    count = min(len(ahead.tokens), len(chunk.tokens))
    return Ahead(ahead.layers, ahead.tokens[:count], ahead.states[:count])


def take_and_keep(self, chunk, take=NativeCache.take_ahead):
    ahead = self.ahead
    found = take(self, chunk)
    self.ahead = ahead
    return found


def take_branches(self, chunk, take=NativeCache.take_ahead):
    return take(self, replace(chunk, parents=None))


def keep_ahead(self, length, path, keep=NativeCache.keep):
    ahead = self.ahead
    keep(self, length, path)
    self.ahead = ahead


def reserve_and_lose(self, length, reserve=NativeCache.reserve):
    ahead, self.ahead = self.ahead, None
    store = reserve(self, length)
    self.ahead = ahead
    return store


def any_exit(self, chunks, leave=None):
    known = []
    for chunk in chunks:
        chunk.cache.reserve(chunk.cache.length + len(chunk.tokens))
        ahead = chunk.cache.take_ahead(chunk)
        known.append(replace(ahead, layers=leave) if ahead and leave else ahead)
    return known


@pytest.mark.parametrize(
    ("place", "name", "wrong", "script"),
    [
        (NativeCache, "keep", keep_ahead, rewound),
        (NativeCache, "take_ahead", take_whatever, other_tokens),
        (NativeCache, "take_ahead", take_branches, branches),
        (NativeCache, "take_ahead", take_and_keep, read_twice),
        (NativeCache, "reserve", reserve_and_lose, a_larger_store),
        (NativeBackend, "_prepare", any_exit, another_exit),
    ],
    ids=["after a rewind", "other tokens", "a tree", "twice", "lost by growing", "another exit"],
)
def test_what_is_used_where_it_does_not_belong_shows(
    opened_file, monkeypatch, precision, place, name, wrong, script
):
    backend = opened_file("qwen3", precision)
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError):
        script(backend)


def test_layers_that_have_been_gone_through_are_not_gone_through_again(opened_file, precision, monkeypatch):
    backend = opened_file("qwen3", precision)
    model, passes = backend._model, []
    forward = type(model).forward

    def spy(piece, layers, x=None):
        passes.append((list(piece.tokens), layers.start, layers.stop))
        return forward(model, piece, layers, x)

    monkeypatch.setattr(model, "forward", spy)
    one, two, three = (backend.open() for _ in range(3))
    backend.extend_exit([Chunk(one, [1, 2], "last"), Chunk(two, [7])], 2)
    backend.extend_exit([Chunk(one, [1, 2, 3], "last"), Chunk(two, [7])], 2)
    backend.extend_exit([Chunk(one, [1, 2, 3], "last")], 2)  # all there: only the head
    assert passes == [([1, 2, 7], 0, 2), ([3], 0, 2)]
    passes.clear()
    backend.extend([Chunk(one, [1, 2, 3, 4]), Chunk(two, [7]), Chunk(three, [9, 9])])
    assert passes == [([4, 9, 9], 0, 2), ([1, 2, 3, 4, 7, 9, 9], 2, 3)]
    passes.clear()
    backend.extend_exit([Chunk(one, [5])], 1)
    backend.extend_exit([Chunk(two, [6])], 2)
    backend.extend([Chunk(one, [5]), Chunk(two, [6, 6], "none")])
    assert passes[2:] == [([6], 0, 1), ([5, 6], 1, 2), ([5, 6, 6], 2, 3)]


@pytest.mark.parametrize("layers", [1, 2])
def test_an_exit_is_a_model_of_fewer_layers(opened_file, precision, layers):
    backend, model = opened_file("qwen3", precision), copy.deepcopy(make_reference("qwen3"))
    model.model.layers = model.model.layers[:layers]
    tokens = [(i * 37 + 5) % 200 for i in range(90)]
    (rows,) = backend.extend_exit([Chunk(backend.open(), tokens)], layers)
    np.testing.assert_allclose(rows, reference_logits(model, tokens), atol=2e-3)


def test_rows_are_what_was_asked_for(opened_file, precision):
    backend, width = opened_file("llama", precision), 288
    chunks = [Chunk(backend.open(), [1, 2, 3], rows) for rows in ("all", "last", "none")]
    every, last, none = backend.extend_exit(chunks, 2)
    assert (every.shape, last.shape, none.shape) == ((3, width), (1, width), (0, width))
    np.testing.assert_array_equal(every[-1:], last)
    assert backend.extend_exit(chunks[2:], 1)[0].shape == (0, width)
    assert backend.extend_exit([], 1) == []
    (few,) = backend.extend_exit([Chunk(backend.open(), [1, 2], "last", vocabulary=100)], 2)
    np.testing.assert_array_equal(few[0, :100], every[1, :100])
    many = [Chunk(backend.open(), [1, 2, 3], "last") for _ in range(70)]
    np.testing.assert_array_equal(np.concatenate(backend.extend_exit(many, 2)), np.repeat(last, 70, 0))


def test_what_is_refused_changes_nothing(opened_file):
    backend = opened_file("qwen3")
    pair = filled(backend, 6)
    pair.leave([8, 9], 2)
    before = pair.cache.ahead
    for error, chunk, layers in (
        (ValueError, Chunk(pair.cache, [8]), 0),
        (ValueError, Chunk(pair.cache, [8]), 3),
        (ValueError, Chunk(pair.cache, []), 2),
        (ValueError, Chunk(pair.cache, [8, 9], "all", [-1, -1]), 2),
        (ContextError, Chunk(pair.cache, [8] * 187), 2),
    ):
        with pytest.raises(error):
            backend.extend_exit([chunk], layers)
        assert pair.cache.ahead is before
    pair.extend([8, 9, 10])
    pair.backend.extend([Chunk(pair.cache, [1, 2], "none", [-1, -1])])
    with pytest.raises(ValueError, match="chains"):
        backend.extend_exit([Chunk(pair.cache, [1])], 2)


def test_a_pass_cut_short_leaves_the_cache_as_it_was(opened_file, monkeypatch):
    backend = opened_file("qwen3")
    pair = filled(backend, 6)
    pair.leave([8, 9], 2)
    with monkeypatch.context() as patch:
        patch.setattr(backend._model, "forward", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            backend.extend_exit([Chunk(pair.cache, [8, 9, 10])], 2)
    pair.extend([8, 9, 10])


def test_where_rows_do_not_keep_their_bits_nothing_is_left_for_later(opened_file, monkeypatch):
    """Else a text would depend on who has guessed. Here, whatever there is would be taken."""
    backend = opened_file("qwen3")
    monkeypatch.setattr(backend, "traits", replace(backend.traits, row_invariant=False))
    monkeypatch.setattr(cache, "shared_prefix", lambda a, b: min(len(a), len(b)))
    pair = filled(backend, 6)
    backend.extend_exit([Chunk(pair.cache, [8, 9])], 2)
    pair.extend([11, 12])


def test_who_has_exits(opened_file):
    backend = opened_file("qwen3")
    assert isinstance(backend, Exits)
    assert list(backend.exits) == [1, 2]
    assert not isinstance(ToyBackend(), Exits)
    assert not isinstance(Strict(ToyBackend()), Exits)
