"""The nouns of speculative decoding: what is guessed, judged, asked for and recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, overload

from redline.core.dist import Dist
from redline.core.topology import ROOT, depths, path

Finish: TypeAlias = Literal["stop", "length", "cancelled", "failed"]
"""Why a text ended: a stop token or string, a token or context limit, its reader left, or an error."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed continuations of one text, as a token tree. A chain is a tree without branches.

    Every token carries the distribution that it was drawn from, so that a rule can never divide by
    a q nobody sampled from. Siblings stand in the order in which they were drawn; each `Dist` is the
    law of that draw given the siblings before it.

    Attributes:
        tokens: Guessed ids, parents before children, length n.
        parents: Index of each token's parent, smaller than its own, or `ROOT`; length n.
        dists: What each token was drawn from; `Dist.point` for a deterministic guess; length n.
        sources: Who guessed each of them, for records and pictures; length n.
        trust: How probable its drafter thinks each is to be kept if its parent is, from 0 to 1; length n.
            1 where left out: a drafter that cannot tell. No rule reads it.

    Raises:
        ValueError: Lengths differ, a parent follows its child, a token could not have been drawn, or trust is
            no probability.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    dists: tuple[Dist, ...]
    sources: tuple[str, ...]
    trust: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.trust:
            object.__setattr__(self, "trust", (1.0,) * len(self.tokens))
        each = (self.tokens, self.parents, self.dists, self.sources, self.trust)
        if any(len(things) != len(self.tokens) for things in each):
            raise ValueError("tokens, parents, dists, sources and trust must have one entry per guess")
        if not all(0 <= trust <= 1 for trust in self.trust):
            raise ValueError("trust is a probability, from 0 to 1")
        for i, (token, parent, q) in enumerate(zip(self.tokens, self.parents, self.dists, strict=True)):
            if not ROOT <= parent < i:
                raise ValueError(f"guess {i} has parent {parent}; parents come before their children")
            if not q.prob(token) > 0:  # written so that NaN is refused too
                raise ValueError(f"guess {i} is token {token}, which its own distribution cannot produce")

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def empty(cls) -> Draft:
        """No guess at all: with it, a speculative step is a plain decoding step."""
        return cls((), (), (), ())

    @classmethod
    def chain(
        cls,
        tokens: Sequence[int],
        source: str,
        dists: Sequence[Dist] | None = None,
        trust: Sequence[float] = (),
    ) -> Draft:
        """One guess after another; deterministic ones where `dists` is left out."""
        drawn, n = tuple(map(Dist.point, tokens) if dists is None else dists), len(tokens)
        return cls(tuple(tokens), tuple(range(ROOT, n - 1)), drawn, (source,) * n, tuple(trust))

    @property
    def is_chain(self) -> bool:
        """Whether every guess follows the one before it."""
        return all(parent == i - 1 for i, parent in enumerate(self.parents))

    def children(self, node: int) -> list[int]:
        """The guesses that follow `node` (or `ROOT`), in the order in which they were drawn."""
        return [i for i in range(node + 1, len(self.parents)) if self.parents[i] == node]

    def path(self, node: int) -> list[int]:
        """The tokens from a first guess down to `node`; none for `ROOT`."""
        return [self.tokens[i] for i in path(self.parents, node)]

    @property
    def survival(self) -> list[float]:
        """How probable each guess is to be kept, it is said: trust along its path, multiplied."""
        found: list[float] = []
        for trust, parent in zip(self.trust, self.parents, strict=True):
            found.append(trust * (found[parent] if parent != ROOT else 1.0))
        return found

    def cut(self, depth: int) -> Draft:
        """The draft without the guesses deeper than `depth`, for drafters that make more than is asked."""
        return self.only([i for i, deep in enumerate(depths(self.parents)) if deep <= depth])

    def only(self, nodes: Collection[int]) -> Draft:
        """The draft without all other guesses; with every node its parent must be there."""
        keep = sorted(nodes)
        if len(keep) == len(self):
            return self
        index = {ROOT: ROOT} | {old: new for new, old in enumerate(keep)}
        return Draft(
            tuple(self.tokens[i] for i in keep),
            tuple(index[self.parents[i]] for i in keep),
            tuple(self.dists[i] for i in keep),
            tuple(self.sources[i] for i in keep),
            tuple(self.trust[i] for i in keep),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule decided about one draft.

    Attributes:
        accepted: Nodes kept, from the root down.
        token: The target's own next token: a correction where a guess was refused, else a bonus.
    """

    accepted: tuple[int, ...]
    token: int


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a drafter may guess.

    Attributes:
        depth: Longest chain of guesses.
        nodes: Guesses in all.
        confidence: A drafter that knows its probabilities stops when that of all its guesses is below this.
    """

    depth: int
    nodes: int
    confidence: float = 0.0


class Text(Sequence[int]):
    """Somebody else's growing list, to be read and not changed. Slices are copies."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        return self._tokens[at]

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)


@dataclass(frozen=True, slots=True)
class History:
    """The text so far as sampling sees it.

    Attributes:
        tokens: Prompt and everything after it. It may be a view of a growing text: read it, do not keep it.
        prompt: How many of them are the prompt.
    """

    tokens: Sequence[int]
    prompt: int

    def then(self, tokens: Sequence[int]) -> History:
        """The same text with more tokens behind it; this one is unchanged."""
        return History([*self.tokens, *tokens], self.prompt) if tokens else self


@dataclass(frozen=True, slots=True)
class Step:
    """The record of one target pass over one text. Every number redline prints is a fold over these.

    Seconds are this text's share of the pass: guessing is split evenly over the texts that were guessed
    for, a target pass by the tokens that each text put into it, so that sums over steps are wall time.

    Attributes:
        key: Which text.
        position: Index in the text of the first token that this pass emitted, or read of the prompt.
        prefilled: Prompt tokens read by this pass; such a step emits nothing.
        emitted: Tokens added to the text, kept guesses first, the target's own last.
        texts: The text that became certain with each of them, one string a token.
        proposed: The guesses put before the target.
        parents: Their places in the tree.
        path: The guesses that became text, from the root down; they lead `emitted`.
        sources: Who guessed each of them.
        draft_s, target_s, verify_s, rewind_s, other_s: Seconds spent guessing, in the target, judging,
            repairing the cache, and in the loop around them.
        spent: Seconds of making these guesses, by who was asked, whether or not it had any.
        fault: Why the drafter is not asked any more in this text, where this step found that out.
        finish: Why the text ended here, or None.
    """

    key: int
    position: int
    emitted: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    proposed: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    prefilled: int = 0
    sources: tuple[str, ...] = ()
    draft_s: float = 0.0
    target_s: float = 0.0
    verify_s: float = 0.0
    rewind_s: float = 0.0
    other_s: float = 0.0
    spent: Mapping[str, float] = field(default_factory=dict)
    fault: str = ""
    finish: Finish | None = None

    @property
    def accepted(self) -> int:
        """How many guesses became text."""
        return len(self.path)

    @property
    def depth(self) -> int:
        """Length of the longest chain among the guesses."""
        return max(depths(self.parents), default=0)

    @property
    def counted(self) -> list[int]:
        """The guesses that were judged: those behind the end of the text were put before nobody."""
        end = len(self.emitted) if self.finish else len(self.proposed)
        return [i for i, deep in enumerate(depths(self.parents)) if deep <= end]

    @property
    def refused(self) -> int | None:
        """The token in whose place the target wrote one of its own; None where it had none to refuse."""
        return None if self.refused_node is None else self.proposed[self.refused_node]

    @property
    def refused_node(self) -> int | None:
        """Which guess that was: the first one there."""
        if len(self.emitted) == len(self.path):
            return None
        last = self.path[-1] if self.path else ROOT
        return next((i for i, parent in enumerate(self.parents) if parent == last), None)

    @property
    def seconds(self) -> float:
        """All the time this step took."""
        return self.draft_s + self.target_s + self.verify_s + self.rewind_s + self.other_s
