"""A suffix automaton: every run of tokens in a growing text, in time and memory in proportion to it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

ROOT = 0
SEPARATOR = -1
"""Stands between texts in one automaton; no match runs across it, for no reader ever reads it."""

HOPS = 32
"""So many of the runs that end at a place, the longest ones, hear of it. It bounds the time of a token: in a
text of one token repeated there are as many such runs as tokens."""

SCAN = 16
"""Continuations to compare at most; a run with more of them is too short to say anything."""


class Automaton:
    """Every run of the tokens so far is a path from the root; runs that end at the same places share a state.

    Built token by token in amortised constant time (Blumer et al., 1985; for drafting: Hu et al., SAM
    Decoding, arXiv 2411.10666). A state knows how often its runs stood in the text and where they did last;
    both lag one token behind, so that what is asked about the end of the text is answered from before it.

    Attributes:
        text: The tokens.
        last: The state of the whole text.
    """

    def __init__(self) -> None:
        self.text = array("i")
        self.last = ROOT
        self._link, self._length = array("i", [-1]), array("i", [0])
        self._count, self._end = array("i", [0]), array("i", [-1])
        # Most states have one edge; the others of a state are in a dictionary.
        self._token, self._to = array("i", [SEPARATOR]), array("i", [-1])
        self._more: dict[int, dict[int, int]] = {}
        self._branches = 0

    @property
    def nbytes(self) -> int:
        """Memory, nearly: six numbers a state, one a token, and what dictionaries take for branches."""
        return 24 * len(self._link) + 4 * len(self.text) + 232 * len(self._more) + 64 * self._branches

    def append(self, token: int) -> None:
        """One more token; its state is `last`."""
        self._settle()
        link, length = self._link, self._length
        self.text.append(token)
        new = self._state(length[self.last] + 1, len(self.text) - 1, 0)
        state = self.last
        while state >= 0 and self.follow(state, token) < 0:
            self._connect(state, token, new)
            state = link[state]
        if state < 0:
            link[new] = ROOT
        else:
            known = self.follow(state, token)
            link[new] = known if length[known] == length[state] + 1 else self._split(state, token, known)
        self.last = new

    def follow(self, state: int, token: int) -> int:
        """The state behind a token; -1 where it never followed."""
        if self._to[state] >= 0 and self._token[state] == token:
            return self._to[state]
        more = self._more.get(state)
        return more.get(token, -1) if more else -1

    def advance(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Where a reader of another text stands after a token, with the longest run that it shares.

        Args:
            state, length: Where it stood, and how many of its last tokens that is.
            token: What it read.
        """
        state = self.place(state, length)
        while (to := self.follow(state, token)) < 0:
            if state == ROOT:
                return ROOT, 0
            state = self._link[state]
            length = self._length[state]
        return to, length + 1

    def place(self, state: int, length: int) -> int:
        """Where a reader stands now that the automaton has grown, which may have split its state."""
        while state != ROOT and length <= self._length[self._link[state]]:
            state = self._link[state]
        return state

    def runs(self, state: int, length: int) -> Iterator[tuple[int, int]]:
        """The states of a run and its own ends, longest first, with their lengths; not the empty one."""
        while state > ROOT:
            yield state, length
            state = self._link[state]
            length = self._length[state]

    def shorter(self, state: int) -> tuple[int, int]:
        """The longest end of a state's runs that stands in more places; the empty one for the root."""
        link = max(self._link[state], ROOT)
        return link, self._length[link]

    def goes_on(self, state: int) -> tuple[int, int, float] | None:
        """What most often followed a state's runs, the latest of equals.

        Returns:
            The token, its state, and its share of all continuations; None where the text or a separator
            followed, or too many different tokens did.
        """
        at, count = self._end[state] + 1, self._count
        if at >= len(self.text):
            return None
        more = self._more.get(state, {})
        if len(more) >= SCAN:
            return None
        token, to = self.text[at], self.follow(state, self.text[at])
        if not more:
            return (token, to, 1.0) if token != SEPARATOR else None
        edges = {self._token[state]: self._to[state], **more}
        best = max(edges.items(), key=lambda edge: (count[edge[1]], edge[1] == to))
        total = sum(max(1, count[each]) for each in edges.values())
        return (*best, max(1, count[best[1]]) / total) if best[0] != SEPARATOR else None

    def end(self, state: int) -> int:
        """The place of the last token of a state's runs where they stood last."""
        return self._end[state]

    def _settle(self) -> None:
        """The runs that end where the text did learn of that place."""
        state, end = self.last, len(self.text) - 1
        link, count, ends = self._link, self._count, self._end
        for _ in range(HOPS):
            if state <= ROOT:
                break
            count[state] += 1
            ends[state] = end
            state = link[state]

    def _state(self, length: int, end: int, count: int) -> int:
        self._length.append(length)
        self._end.append(end)
        self._count.append(count)
        self._link.append(-1)
        self._token.append(SEPARATOR)
        self._to.append(-1)
        return len(self._link) - 1

    def _connect(self, state: int, token: int, to: int) -> None:
        if self._to[state] < 0 or self._token[state] == token:
            self._token[state], self._to[state] = token, to
        else:
            more = self._more.setdefault(state, {})
            self._branches += token not in more
            more[token] = to

    def _split(self, state: int, token: int, known: int) -> int:
        """A state for those runs of `known` that stand in one more place than the longer ones."""
        link = self._link
        clone = self._state(self._length[state] + 1, self._end[known], self._count[known])
        self._token[clone], self._to[clone] = self._token[known], self._to[known]
        if known in self._more:
            self._more[clone] = dict(self._more[known])
            self._branches += len(self._more[known])
        link[clone], link[known] = link[known], clone
        while state >= 0 and self.follow(state, token) == known:
            self._connect(state, token, clone)
            state = link[state]
        return clone
