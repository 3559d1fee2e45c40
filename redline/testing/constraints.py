"""A constraint in a page of numpy, and what every constraint promises, as tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from redline.core.ports import Constraint

ANYTHING = -1
"""The state in which all tokens may come, and which is never left."""


class Automaton:
    """A finite automaton over token ids. Implements `ports.Constraint`.

    Args:
        vocab_size: Width of a mask.
        edges: Each allowed token after a state, and the state it leads to; never asked for `ANYTHING`.
        state: The present one.
    """

    def __init__(self, vocab_size: int, edges: Callable[[int], Mapping[int, int]], state: int = 0) -> None:
        self.state = state
        self._vocab_size, self._edges = vocab_size, edges

    @classmethod
    def no_twins(cls, vocab_size: int) -> Automaton:
        """No token twice in a row; state s + 1 is behind token s."""
        return cls(vocab_size, lambda state: {t: t + 1 for t in range(vocab_size) if t != state - 1})

    @classmethod
    def exactly(cls, vocab_size: int, tokens: Sequence[int]) -> Automaton:
        """These tokens, and then any."""
        last = len(tokens) - 1
        return cls(vocab_size, lambda state: {tokens[state]: state + 1 if state < last else ANYTHING})

    def allowed(self) -> NDArray[np.bool_] | None:
        if self.state == ANYTHING:
            return None
        mask = np.zeros(self._vocab_size, bool)
        mask[list(self._edges(self.state))] = True
        return mask

    def takes(self, tokens: Sequence[int]) -> int:
        state = self.state
        for count, token in enumerate(tokens):
            if state == ANYTHING:
                break
            if token not in self._edges(state):
                return count
            state = self._edges(state)[token]
        return len(tokens)

    def forced(self) -> list[int]:
        found: list[int] = []
        state = self.state
        while state != ANYTHING and len(self._edges(state)) == 1 and len(found) < self._vocab_size:
            token, state = next(iter(self._edges(state).items()))
            found.append(token)
        return found

    def after(self, token: int) -> Automaton:
        edges = {} if self.state == ANYTHING else self._edges(self.state)
        return Automaton(self._vocab_size, self._edges, edges.get(token, ANYTHING))


class ConstraintContract:
    """What every constraint promises. Inherit, and give a fixture `constraint`.

    Attributes:
        vocab_size: Width of a mask.
        ends: Ids that end a text.
        walks, length: How many random texts to follow, and how far.
    """

    vocab_size = 16
    ends: frozenset[int] = frozenset()
    walks, length = 5, 20

    def states(self, constraint: Constraint, seed: int = 0) -> list[tuple[list[int], Constraint]]:
        """States along random texts that the constraint allows, and how to come to them."""
        rng, found = np.random.default_rng(seed), list[tuple[list[int], Constraint]]()
        for _ in range(self.walks):
            text: list[int] = []
            state = constraint
            for _ in range(self.length):
                found.append((list(text), state))
                text.append(int(rng.choice(self.options(state))))
                state = state.after(text[-1])
                if text[-1] in self.ends:
                    break
            found.append((text, state))
        return found

    def options(self, state: Constraint) -> list[int]:
        mask = state.allowed()
        return list(range(self.vocab_size)) if mask is None else np.flatnonzero(mask).tolist()

    def test_a_mask_is_as_wide_as_a_row_and_leaves_something(self, constraint: Constraint) -> None:
        for _, state in self.states(constraint):
            mask = state.allowed()
            if mask is not None:
                assert (mask.shape, mask.dtype) == ((self.vocab_size,), np.dtype(bool))
                assert mask.any()

    def test_what_is_taken_is_what_is_allowed(self, constraint: Constraint) -> None:
        for _, state in self.states(constraint)[: 2 * self.length]:
            taken = [token for token in range(self.vocab_size) if state.takes([token]) == 1]
            assert taken == self.options(state)

    def test_several_tokens_are_taken_as_one_by_one(self, constraint: Constraint) -> None:
        rng = np.random.default_rng(1)
        for text, state in self.states(constraint):
            start = int(rng.integers(0, len(text) + 1))
            tokens = [*text[start:], *rng.integers(0, self.vocab_size, 3).tolist()]
            state = constraint
            for token in text[:start]:
                state = state.after(token)
            asked, count = state, 0
            while count < len(tokens) and tokens[count] in self.options(state):
                state, count = state.after(tokens[count]), count + 1
            assert asked.takes(tokens) == count

    def test_what_is_forced_is_all_there_is(self, constraint: Constraint) -> None:
        for _, state in self.states(constraint):
            forced = state.forced()
            assert bool(forced) == (len(self.options(state)) == 1)
            for place, token in enumerate(forced):
                assert self.options(state) == [token]
                assert token not in self.ends or place == len(forced) - 1
                state = state.after(token)

    def test_a_state_is_what_its_text_makes_it(self, constraint: Constraint) -> None:
        """Whoever else has used the constraint, and wherever they went from here."""
        known = [(text, self.options(state), state.forced()) for text, state in self.states(constraint)]
        self.states(constraint, seed=1)
        for text, options, forced in known[:: max(1, len(known) // 40)]:
            state = constraint
            for token in text:
                state.takes([0])
                state = state.after(token)
            assert (self.options(state), state.forced()) == (options, forced)

    def test_nothing_raises_behind_a_token_that_is_not_allowed_or_behind_an_end(
        self, constraint: Constraint
    ) -> None:
        for _, state in self.states(constraint)[: self.length]:
            options = self.options(state)
            for token in [*self.ends, *(t for t in range(self.vocab_size) if t not in options)][:9]:
                beyond = state.after(token)
                beyond.allowed()
                beyond.takes([token, 0])
                beyond.forced()
                beyond.after(token).allowed()
