"""What every backend promises, as tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import TestCase

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from numpy.typing import NDArray

from redline.core.errors import ContextError, RewindError
from redline.core.ports import Backend, Cache, Chunk, Deferring, Exits
from redline.core.topology import path


class BackendContract:
    """What every backend promises. Inherit, and give a fixture `backend`; its context may be short.

    Rows are compared bit for bit where the backend says it is row-invariant, else within `tolerance`.
    """

    tolerance = 1e-3
    chunk_sizes = (1, 2, 3, 5, 8, 16)

    def tokens(self, backend: Backend, n: int, seed: int = 0) -> list[int]:
        """n ids that the model knows."""
        ids = np.random.default_rng(seed).integers(0, backend.tokenizer.size, n)
        return [int(token) for token in ids]

    def same(self, backend: Backend, a: NDArray[Any], b: NDArray[Any]) -> None:
        assert a.shape == b.shape
        if backend.traits.row_invariant:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, atol=self.tolerance, rtol=0)

    def read(self, backend: Backend, tokens: Sequence[int]) -> NDArray[np.float32]:
        """The rows of a text read token by token into a fresh cache: the reference for everything else."""
        cache = backend.open()
        rows = [backend.extend([Chunk(cache, [token])])[0] for token in tokens]
        cache.close()
        return np.concatenate(rows)

    def test_rows_are_what_was_asked_for(self, backend: Backend) -> None:
        caches = [backend.open() for _ in range(3)]
        tokens = self.tokens(backend, 5)
        width = backend.traits.vocab_size
        every, last, none = backend.extend(
            [
                Chunk(caches[0], tokens, "all"),
                Chunk(caches[1], tokens, "last"),
                Chunk(caches[2], tokens, "none"),
            ]
        )
        assert (every.shape, last.shape, none.shape) == ((5, width), (1, width), (0, width))
        assert every.dtype == last.dtype == np.float32
        self.same(backend, every[-1:], last)
        after = [backend.extend([Chunk(cache, tokens[:1])])[0] for cache in caches]
        self.same(backend, after[0], after[1])
        self.same(backend, after[0], after[2])

    def test_fewer_tokens_are_the_first_ones(self, backend: Backend) -> None:
        tokens, width = self.tokens(backend, 4), backend.traits.vocab_size
        expected = self.read(backend, tokens)
        for asked in (1, width // 2, width, width + 1):
            (rows,) = backend.extend([Chunk(backend.open(), tokens, vocabulary=asked)])
            assert rows.shape[0] == 4
            assert min(asked, width) <= rows.shape[1] <= width
            self.same(backend, rows, expected[:, : rows.shape[1]])
        # More rows than go through the native engine together.
        many = [Chunk(backend.open(), tokens, vocabulary=1 + text) for text in range(18)]
        for chunk, rows in zip(many, backend.extend(many), strict=True):
            assert rows.shape[1] >= min(chunk.vocabulary or 0, width)
            self.same(backend, rows, expected[:, : rows.shape[1]])

    def test_rows_outlive_the_next_pass(self, backend: Backend) -> None:
        cache, tokens = backend.open(), self.tokens(backend, 6)
        rows = backend.extend([Chunk(cache, tokens[:3])])[0]
        kept = rows.copy()
        backend.extend([Chunk(cache, tokens[3:])])
        np.testing.assert_array_equal(rows, kept)

    def test_chunking_does_not_matter(self, backend: Backend) -> None:
        tokens = self.tokens(backend, 32)
        expected = self.read(backend, tokens)
        for size in self.chunk_sizes:
            cache = backend.open()
            parts = [
                backend.extend([Chunk(cache, tokens[i : i + size])])[0] for i in range(0, len(tokens), size)
            ]
            self.same(backend, np.concatenate(parts), expected)

    def test_batch_mates_do_not_matter(self, backend: Backend) -> None:
        texts = [self.tokens(backend, n, seed=n) for n in (1, 4, 9, 2)]
        chunks = [Chunk(backend.open(), text) for text in texts]
        for text, rows in zip(texts, backend.extend(chunks), strict=True):
            self.same(backend, rows, self.read(backend, text))

    def test_what_was_rewound_is_forgotten(self, backend: Backend) -> None:
        if backend.traits.rollback == "none":
            pytest.skip("this backend never forgets, and says so")
        tokens, cache = self.tokens(backend, 12), backend.open()
        backend.extend([Chunk(cache, tokens[:4], "none")])
        backend.extend([Chunk(cache, [tokens[4], *self.tokens(backend, 5, seed=9)], "none")])
        cache.rewind(5)
        assert cache.length == 5
        self.same(backend, backend.extend([Chunk(cache, tokens[5:])])[0], self.read(backend, tokens)[5:])

    def test_a_tree_is_its_chains(self, backend: Backend) -> None:
        if not backend.traits.trees:
            pytest.skip("this backend takes no trees, and says so")
        prompt, nodes = self.tokens(backend, 7), self.tokens(backend, 8, seed=5)
        parents = [-1, 0, 0, 1, 2, 2, 5, 3]
        for node in range(len(nodes)):
            cache = backend.open()
            backend.extend([Chunk(cache, prompt, "none")])
            rows = backend.extend([Chunk(cache, nodes, "all", parents)])[0]
            kept = path(parents, node)
            text = [*prompt, *(nodes[i] for i in kept)]
            expected = self.read(backend, [*text, *prompt])
            self.same(backend, rows[kept], expected[len(prompt) : len(text)])
            cache.rewind(len(prompt), [len(prompt) + i for i in kept])
            assert cache.length == len(text)
            self.same(backend, backend.extend([Chunk(cache, prompt)])[0], expected[len(text) :])

    def test_deferred_rows_are_the_same_rows(self, backend: Backend) -> None:
        if not isinstance(backend, Deferring):
            pytest.skip("this backend computes all rows at once")
        tokens = self.tokens(backend, 20)
        branches = [-1, 0, 0, 1, 2, 2, 5, 3, 3, 8, 9, 10, 11, 12, 13, 14, 15, 0, 17, 18]
        for count, parents, texts in (
            (1, None, 1),
            (9, None, 1),
            (20, None, 1),
            (20, branches, 1),
            (9, None, 3),
        ):
            if parents and not backend.traits.trees:
                continue
            expected, rows = (
                extend([Chunk(backend.open(), tokens[:count], "all", parents) for _ in range(texts)])
                for extend in (backend.extend, backend.extend_deferred)
            )
            backend.extend([Chunk(backend.open(), tokens)])  # which does not disturb them
            for text in range(texts):
                for row in np.random.default_rng(count).permutation(count).tolist():
                    self.same(backend, rows[text][row], expected[text][row])

    def test_tokens_that_left_early_go_on_as_if_they_had_not(self, backend: Backend) -> None:
        if not isinstance(backend, Exits):
            pytest.skip("this backend has no exits")
        tokens = self.tokens(backend, 12)
        expected = self.read(backend, tokens)
        for layers in {backend.exits[0], backend.exits[-1]}:
            cache = backend.open()
            backend.extend([Chunk(cache, tokens[:4], "none")])
            for end in (5, 6, 9):
                (rows,) = backend.extend_exit([Chunk(cache, tokens[4:end])], layers)
                (fresh,) = backend.extend_exit([Chunk(backend.open(), tokens[:end])], layers)
                self.same(backend, rows, fresh[4:])
                assert cache.length == 4
            self.same(backend, backend.extend([Chunk(cache, tokens[4:])])[0], expected[4:])
            cache.rewind(6)
            backend.extend_exit([Chunk(cache, tokens[6:9])], layers)
            cache.rewind(5)  # the text ends elsewhere, and what was ahead is not
            backend.extend_exit([Chunk(cache, [*tokens[5:7], tokens[0]])], layers)
            self.same(backend, backend.extend([Chunk(cache, tokens[5:])])[0], expected[5:])

    def test_a_refused_rewind_changes_nothing(self, backend: Backend) -> None:
        cache, tokens = backend.open(), self.tokens(backend, 6)
        backend.extend([Chunk(cache, tokens[:5], "none")])
        for length, kept in ((6, ()), (-1, ()), (3, (2,)), (3, (5,)), (3, (4, 3)), (3, (3, 3))):
            with pytest.raises(RewindError):
                cache.rewind(length, kept)
        if backend.traits.rollback == "none":
            with pytest.raises(RewindError):
                cache.rewind(4)
        assert cache.length == 5
        cache.rewind(5)
        self.same(backend, backend.extend([Chunk(cache, tokens[5:])])[0], self.read(backend, tokens)[5:])

    def test_a_refused_pass_changes_nothing(self, backend: Backend) -> None:
        tokens, good, closed = self.tokens(backend, 6), backend.open(), backend.open()
        backend.extend([Chunk(good, tokens[:5], "none")])
        closed.close()
        full = [tokens[0]] * (backend.traits.context + 1)
        for error, bad in (
            (ValueError, [Chunk(good, [])]),
            (ValueError, [Chunk(good, [backend.traits.vocab_size])]),
            (ValueError, [Chunk(good, [-1])]),
            (ValueError, [Chunk(good, tokens[:1]), Chunk(good, tokens[:1])]),
            (ValueError, [Chunk(good, tokens[:1]), Chunk(closed, tokens[:1])]),
            (ValueError, [Chunk(good, tokens[:2], "all", [-1])]),
            (ValueError, [Chunk(good, tokens[:2], "all", [-1, 1])]),
            (ContextError, [Chunk(good, tokens[:1]), Chunk(backend.open(), full, "none")]),
        ):
            with pytest.raises(error):
                backend.extend(bad)
            assert good.length == 5
        self.same(backend, backend.extend([Chunk(good, tokens[5:])])[0], self.read(backend, tokens)[5:])


def backend_machine(
    make: Callable[[], Backend], most_tokens: int = 48, tolerance: float = 1e-3
) -> type[TestCase]:
    """A hypothesis test: any history of extends, rewinds and batches equals reading the text from scratch.

    Args:
        make: Gives the backend; called once an example.
        most_tokens: Longest text to build.
        tolerance: Largest difference of logits where the backend is not row-invariant.
    """

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.backend = make()
            self.texts: list[tuple[Cache, list[int]]] = []
            self.chunk_starts: list[int] = []  # how far each of them can be rewound from a snapshot

        def expect(self, rows: NDArray[np.float32], texts: Sequence[Sequence[int]]) -> None:
            for row, text in zip(rows, texts, strict=True):
                cache = self.backend.open()
                scratch = self.backend.extend([Chunk(cache, text, "last")])[0][0]
                cache.close()
                if self.backend.traits.row_invariant:
                    np.testing.assert_array_equal(row, scratch)
                else:
                    np.testing.assert_allclose(row, scratch, atol=tolerance, rtol=0)

        @precondition(lambda self: len(self.texts) < 3)
        @rule()
        def open(self) -> None:
            self.texts.append((self.backend.open(), []))
            self.chunk_starts.append(0)

        @precondition(lambda self: self.texts)
        @rule(data=st.data())
        def extend(self, data: st.DataObject) -> None:
            which = data.draw(st.lists(st.sampled_from(range(len(self.texts))), min_size=1, unique=True))
            token = st.integers(0, self.backend.tokenizer.size - 1)
            chunks, wanted = [], []
            for i in which:
                cache, text = self.texts[i]
                if len(text) > most_tokens:
                    continue
                new = data.draw(st.lists(token, min_size=1, max_size=6))
                asked: Any = data.draw(st.sampled_from(("all", "last", "none")))
                chunks.append(Chunk(cache, new, asked))
                self.chunk_starts[i] = len(text)
                after = [[*text, *new[: i + 1]] for i in range(len(new))]
                wanted.append({"all": after, "last": after[-1:], "none": []}[asked])
                text += new
            for rows, texts in zip(self.backend.extend(chunks) if chunks else [], wanted, strict=True):
                self.expect(rows, texts)

        @precondition(lambda self: self.texts and self.backend.traits.trees)
        @rule(data=st.data())
        def grow_a_tree(self, data: st.DataObject) -> None:
            i = data.draw(st.sampled_from(range(len(self.texts))))
            cache, text = self.texts[i]
            token = st.integers(0, self.backend.tokenizer.size - 1)
            nodes = data.draw(st.lists(token, min_size=1, max_size=6))
            parents = [data.draw(st.integers(-1, i - 1)) for i in range(len(nodes))]
            rows = self.backend.extend([Chunk(cache, nodes, "all", parents)])[0]
            self.expect(rows, [[*text, *(nodes[i] for i in path(parents, n))] for n in range(len(nodes))])
            kept = path(parents, data.draw(st.integers(-1, len(nodes) - 1)))
            self.chunk_starts[i] = len(text)
            cache.rewind(len(text), [len(text) + i for i in kept])
            text += [nodes[i] for i in kept]

        @precondition(lambda self: self.texts and self.backend.traits.rollback != "none")
        @rule(data=st.data())
        def rewind(self, data: st.DataObject) -> None:
            i = data.draw(st.sampled_from(range(len(self.texts))))
            cache, text = self.texts[i]
            free = self.backend.traits.rollback == "truncate"
            length = data.draw(st.integers(0 if free else self.chunk_starts[i], len(text)))
            cache.rewind(length)
            del text[length:]

        @precondition(lambda self: self.texts)
        @rule(data=st.data())
        def close(self, data: st.DataObject) -> None:
            i = data.draw(st.integers(0, len(self.texts) - 1))
            self.texts.pop(i)[0].close()
            self.chunk_starts.pop(i)

        def teardown(self) -> None:
            for cache, text in self.texts:
                assert cache.length == len(text)
                cache.close()

    return Machine.TestCase
