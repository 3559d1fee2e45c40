"""Every seam of redline on one page: what each part promises to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from redline.core.dist import Dist
from redline.core.sampling import Sampling
from redline.core.types import Budget, Draft, History, Step, Verdict


class Chance(Protocol):
    """What a rule or a drafter draws from; nothing else in redline is random."""

    def accept(self, p: float, at: int) -> bool:
        """True with probability min(p, 1): a fresh u < p, strictly, so p = 0 never passes."""
        ...

    def pick(self, dist: Dist, at: int) -> int:
        """One draw from `dist` for the token `at` places after the next one."""
        ...


class Noise(Protocol):
    """The source of every `Chance` of one text. Tests put an enumeration in its place."""

    def at(self, position: int) -> Chance:
        """Noise tied to absolute positions: everybody who asks about a position meets the same noise."""
        ...

    def stream(self, name: str, step: int) -> Chance:
        """Noise that nobody else sees: every call uses a number of its own."""
        ...


class Rule(Protocol):
    """Decides which guesses stay and what the target writes next."""

    name: str
    summary: str
    exact: bool  # the emitted text has exactly the target's law
    trees: bool  # takes drafts with branches
    needs_q: bool  # reads what the guesses were drawn from
    samples: bool  # honours a temperature above 0
    shared: bool  # noise is tied to positions and shared with the drafter; else every call is fresh

    def __call__(self, draft: Draft, target: Mapping[int, Dist], chance: Chance) -> Verdict:
        """Judge a draft; `target[node]` is the target's law after `node` (or after `ROOT`)."""
        ...


@runtime_checkable
class Constraint(Protocol):
    """What may come next: one state of a grammar. It never changes, so there is nothing to roll back."""

    def allowed(self) -> NDArray[np.bool_] | None:
        """Which tokens may come next, shape (V,); None where all may, as they do behind an end token."""
        ...

    def takes(self, tokens: Sequence[int]) -> int:
        """How many of these tokens, from the first on, may follow one another."""
        ...

    def forced(self) -> list[int]:
        """The tokens to come as far as there is no choice, an end token last; none where there is one."""
        ...

    def after(self, token: int) -> Constraint:
        """The state behind a token; any state at all behind one that is not allowed, for a rule may ask."""
        ...


class Pace(Protocol):
    """Chooses how much to guess. One object a text; it learns from that text's steps alone."""

    def budget(self) -> Budget: ...

    def update(self, step: Step) -> None: ...


@dataclass(frozen=True, slots=True)
class Scene:
    """What a drafter is told about one text before it guesses.

    Attributes:
        key: Which text; the one given to `Drafter.start`.
        history: Prompt and emitted tokens; guesses continue it.
        budget: How much to guess at most; depth is at least 1.
        sampling: How the target will sample.
        chance: Noise for drawing guesses; under a rule with shared noise, the target's own.
        trees: Drafts may have branches; else they must be chains.
        needs_q: What guesses were drawn from will be read. Else a guess that stands twice is one too many.
        constraint: What the next token may be, if not anything. A guess that it forbids is a wasted one.
        vocab_size: The target's ids are below this.
        cache: The target's of this text, all of whose tokens it holds but the last. For those who draft with
            the target itself, through `Exits`; its length and what it holds stay as they are.
    """

    key: int
    history: History
    budget: Budget
    sampling: Sampling
    chance: Chance
    trees: bool = False
    needs_q: bool = True
    constraint: Constraint | None = None
    vocab_size: int = 1 << 31
    cache: Cache | None = None


@runtime_checkable
class Drafter(Protocol):
    """Guesses. Whatever it guesses, the text stays the target's; only the speed is at stake.

    Under rules that need q that holds as long as every guess was drawn from the `Dist` it comes with, by the
    scene's `chance` or for certain. `redline.testing.DrafterContract` checks it.
    """

    name: str
    confident: bool  # knows how probable its guesses are, so that a budget's `confidence` means something
    draws: (
        bool  # guesses may be drawn at random; else the text decides them, and each comes from a point mass
    )

    def start(self, key: int, tokens: Sequence[int]) -> None:
        """A text begins with this prompt."""
        ...

    def read(self, key: int, tokens: Sequence[int]) -> None:
        """The target has read so much of the prompt; what has a cache of its own reads along."""
        ...

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        """One draft a scene, within its budget; `Draft.empty()` where there is nothing to say."""
        ...

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        """What became of the last draft: these tokens were added to the text."""
        ...

    def stop(self, key: int) -> None:
        """A text has ended; forget it. Unknown keys are ignored."""
        ...

    def close(self) -> None:
        """Give back whatever it holds."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """What a drafter may offer besides: it looks at what the target thought, kept or not."""

    def watch(self, key: int, tokens: Sequence[int], rows: Sequence[NDArray[np.float32]]) -> None:
        """The target's logits after tokens of the last pass; a row may be gone with the next pass.

        Args:
            key: Which text.
            tokens: The tokens whose rows were computed, in no order that means anything.
            rows: One a token, shape (vocab_size,).
        """
        ...


@runtime_checkable
class Composed(Protocol):
    """What a drafter that asks others may offer besides."""

    spent: Mapping[str, float]  # seconds of the last `propose`, by who was asked

    def fault(self, key: int) -> str:
        """Which of them failed in a text, and how; "" where none did."""
        ...


@runtime_checkable
class Modelled(Protocol):
    """What a drafter that makes passes of a model offers besides: that model."""

    @property
    def backend(self) -> Backend: ...


@runtime_checkable
class Tokenizer(Protocol):
    """Text to token ids and back."""

    size: int  # ids 0..size-1 mean something; logits may be wider (padded heads)
    ends: frozenset[int]  # ids that end an answer

    def encode(self, text: str) -> list[int]:
        """Ids of a raw text, with the opening token where the model wants one."""
        ...

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a conversation up to where the model answers; messages have `role` and `content`.

        Raises:
            RedlineError: The model has no chat template.
        """
        ...

    def piece(self, token: int) -> bytes:
        """The bytes a token adds to the text; b"" for control tokens and for ids past `size`."""
        ...

    def label(self, token: int) -> str:
        """The token's own name in the vocabulary, control tokens included; "" past `size`."""
        ...


class Cache(Protocol):
    """What a backend remembers of one text, addressed by position. The design calls it Sequence."""

    length: int

    def rewind(self, length: int, path: Sequence[int] = ()) -> None:
        """Keep the first `length` entries, then the entries at the slots `path`, in that order.

        After an `extend` whose chunk began at slot s, entry i of the chunk is at slot s + i. So
        `rewind(s + 1, [s + 1, s + 3])` keeps the chunk's first token and two nodes of its tree.

        Args:
            length: Entries to keep, at most the present length.
            path: Ascending slots, each at least `length` and below the present length.

        Raises:
            RewindError: This cache cannot do that; it is unchanged. Never a silent no-op.
        """
        ...

    def close(self) -> None:
        """Free the memory. A closed cache cannot be extended."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """New tokens for one cache.

    Attributes:
        cache: Where they go.
        tokens: At least one id.
        rows: Which logits are wanted: after every token, after the last one, or none.
        parents: For a tree: each token's parent within the chunk, smaller than its own index, or -1 for
            "follows what the cache already has". Left out, the tokens are a chain.
        vocabulary: Only the logits of so many tokens, the first ones, will be read: a backend that can save
            work may give rows that are shorter than usual, but not shorter than this.
    """

    cache: Cache
    tokens: Sequence[int]
    rows: Literal["all", "last", "none"] = "all"
    parents: Sequence[int] | None = None
    vocabulary: int | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """What a backend is and can do, measured rather than believed.

    Attributes:
        vocab_size: Width of a row of logits.
        context: Positions the model has.
        rollback: "truncate": rewind to any length. "snapshot": only to within the last chunk.
            "none": never; such a backend cannot speculate.
        trees: Takes chunks with `parents` and rewinds along a path.
        row_invariant: A row's logits do not depend, bit for bit, on the other rows of the pass.
        exact_widths: Where that does not hold: how many rows a pass over one text alone may have and still
            give every row the bits that passes of one row give it, ascending. Empty where not even a single
            row's bits are its own, since they depend on what else is in memory.
        dtype, device: What the arithmetic runs in and on.
        threads: CPU threads that are busy during a pass; 0 where the work is elsewhere.
    """

    vocab_size: int
    context: int
    rollback: Literal["truncate", "snapshot", "none"] = "truncate"
    trees: bool = True
    row_invariant: bool = True
    exact_widths: tuple[int, ...] = (1,)
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1


@runtime_checkable
class Backend(Protocol):
    """A language model that can read several texts at once and forget what it should not have read."""

    name: str
    traits: Traits
    tokenizer: Tokenizer

    def open(self) -> Cache:
        """A new, empty cache."""
        ...

    def extend(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """Read every chunk in one pass, each into a cache of its own.

        Returns:
            One array a chunk, shape (rows, vocab_size), narrower where `Chunk.vocabulary` allows it: row i
            holds the logits after token i of the chunk ("all"), the one row after its last token ("last"),
            or no row ("none").

        Raises:
            ContextError: A chunk does not fit; no cache has changed.
            ValueError: A chunk is empty, an id is not in the vocabulary, a cache is closed, belongs to
                another backend or stands twice in one call; no cache has changed.
        """
        ...

    def close(self) -> None:
        """Free the weights and whatever else it holds."""
        ...


class Logits(Protocol):
    """Rows of logits by their place in the chunk; an array of shape (rows, vocab_size) is one."""

    def __getitem__(self, row: int, /) -> NDArray[np.float32]: ...


@runtime_checkable
class Deferring(Protocol):
    """What a backend may offer besides: rows are computed when somebody asks for them."""

    def extend_deferred(self, chunks: Sequence[Chunk]) -> Sequence[Logits]:
        """As `Backend.extend`, with the same bits; rows behind a refused guess need never be computed."""
        ...


@runtime_checkable
class Exits(Protocol):
    """What a backend may offer besides: a token can leave after some of the layers, to guess what follows.

    Attributes:
        exits: After how many layers; none where there are too few.
    """

    @property
    def exits(self) -> range: ...

    def extend_exit(self, chunks: Sequence[Chunk], layers: int) -> list[NDArray[np.float32]]:
        """Read chunks through the first `layers` layers only, then norm and head.

        `Cache.length` does not change, but the cache remembers how far these tokens have come: the next call,
        of this or of `Backend.extend`, goes on from there with those of its first tokens that are the same,
        and gives the bits that it gives without. Whatever else happens to the cache, it forgets them.

        Args:
            chunks: As for `Backend.extend`, but no trees; they begin where the caches end.
            layers: How many; one of `exits`.

        Returns:
            As `Backend.extend`: logits, but after so many layers.

        Raises:
            ContextError, ValueError: As for `Backend.extend`, or there is no such exit, or a tree is in the
                way; no cache has changed.
        """
        ...
