"""The proof: whatever was guessed, the law of the text is the target's. Shared by all proofs and mutants.

A problem is a pair of tables, p for the target and q for the drafter, which give a distribution over three
tokens after every short text. Guesses are drawn from q, a rule judges them, and what it emits is continued
from p to a fixed length. `law_error` takes every branch of all of that and says how far the law of the
result is from p's own.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np

from redline.core.chance import Fresh
from redline.core.dist import Dist
from redline.core.sampling import Sampling, distribution
from redline.core.topology import ROOT, depths
from redline.core.types import Draft, History
from redline.testing import outcomes

VOCAB = 3
EXACT = 1e-12
"""What a true rule may differ by: rounding."""
CAUGHT = 1e-6
"""What a false rule must differ by at least."""

Table = Callable[[tuple[int, ...]], Dist]
Law = dict[tuple[int, ...], float]


@dataclass(frozen=True)
class Problem:
    """Two tables with a name."""

    name: str
    p: Table
    q: Table


# --- tables -----------------------------------------------------------------------------------------


def table(make: Callable[[np.random.Generator], Dist], *key: int) -> Table:
    """A random distribution for every text, the same each time it is asked for."""
    return cache(lambda prefix: make(np.random.default_rng([*key, len(prefix), *prefix])))


def dense(rng: np.random.Generator) -> Dist:
    return Dist.of(rng.dirichlet(np.ones(VOCAB)))


def sparse(rng: np.random.Generator) -> Dist:
    """Some tokens cannot occur."""
    weights = rng.dirichlet(np.ones(VOCAB)) * (rng.random(VOCAB) < 0.6)
    return Dist.of(weights) if weights.sum() > 0 else Dist.point(int(rng.integers(VOCAB)))


def certain(rng: np.random.Generator) -> Dist:
    return Dist.point(int(rng.integers(VOCAB)))


def filtered(settings: Sampling) -> Callable[[np.random.Generator], Dist]:
    """Random logits through the real pipeline."""
    return lambda rng: distribution(rng.normal(0, 1.5, VOCAB), settings, History([], 0))


FILTERS = (
    (Sampling(temperature=0.5), Sampling(temperature=1.7)),
    (Sampling(temperature=1, top_k=2), Sampling(temperature=1)),
    (Sampling(temperature=1), Sampling(temperature=1, top_k=2)),
    (Sampling(temperature=1, top_p=0.7), Sampling(temperature=1, min_p=0.3)),
    (Sampling(temperature=0.8, top_k=2, top_p=0.9, min_p=0.1), Sampling(temperature=1.2, top_p=0.8)),
    (Sampling(temperature=0), Sampling(temperature=1)),
    (Sampling(temperature=1), Sampling(temperature=0)),
)


def disjoint(seed: int) -> Problem:
    """No guess can ever be kept."""

    def weights(rng: np.random.Generator) -> np.ndarray:
        mine = rng.permutation([True, False, bool(rng.integers(2))])
        return mine * rng.dirichlet(np.ones(VOCAB)), ~mine * rng.dirichlet(np.ones(VOCAB))

    return Problem(
        f"disjoint supports {seed}",
        table(lambda rng: Dist.of(weights(rng)[0]), seed, 8),
        table(lambda rng: Dist.of(weights(rng)[1]), seed, 8),
    )


def problems(seed: int) -> list[Problem]:
    """One problem of every kind."""
    target = table(dense, seed, 0)
    kinds = [
        Problem("dense", target, table(dense, seed, 1)),
        Problem("p is q", target, target),
        Problem("zeros", table(sparse, seed, 2), table(sparse, seed, 3)),
        Problem("certain target", table(certain, seed, 4), table(dense, seed, 5)),
        Problem("certain draft", target, table(certain, seed, 6)),
        disjoint(seed),
    ]
    for i, (mine, its) in enumerate(FILTERS):
        same_logits = i % 2  # the drafter is the target with other filters, or another model
        kinds.append(
            Problem(
                f"filters {i}", table(filtered(mine), seed, 7), table(filtered(its), seed, 7 + same_logits)
            )
        )
    return kinds


# --- drafters ---------------------------------------------------------------------------------------

Draw = Callable[[Table, object], Draft]


def remaining(q: Dist, taken: Sequence[int]) -> Dist | None:
    """q without some tokens; None where nothing is left."""
    for token in taken:
        if q.prob(token) == 1 or q.ids.tolist() == [token]:
            return None
        q = q.without(token) if q.prob(token) else q
    return q


def ranked(q: Dist, taken: Sequence[int]) -> Dist | None:
    """The next most probable token, for certain."""
    order = q.ids[np.argsort(-q.probs, kind="stable")]
    return Dist.point(int(order[len(taken)])) if len(taken) < len(order) else None


WAYS: dict[str, Callable[[Dist, Sequence[int], bool], Dist | None]] = {
    "with replacement": lambda q, taken, last: q,
    "without replacement": lambda q, taken, last: remaining(q, taken),
    "top": lambda q, taken, last: ranked(q, taken),
    "hybrid": lambda q, taken, last: (remaining if last else ranked)(q, taken),
}
"""How siblings are drawn: from q, those already there, and whether this is the last one."""


def tree(parents: Sequence[int], way: str) -> Draw:
    """Guesses in a given shape; where q has no further sibling, that branch is missing."""

    def draw(q: Table, chance) -> Draft:
        tokens, ups, dists, place = [], [], [], {ROOT: ROOT}
        for node, parent in enumerate(parents):
            if parent not in place:
                continue
            up = place[parent]
            prefix = Draft(tuple(tokens), tuple(ups), tuple(dists), ("",) * len(tokens)).path(up)
            taken = [tokens[i] for i in range(len(tokens)) if ups[i] == up]
            law = WAYS[way](q(tuple(prefix)), taken, parent not in parents[node + 1 :])
            if law is None:
                continue
            place[node] = len(tokens)
            tokens.append(chance.pick(law, at=len(prefix)))
            ups.append(up)
            dists.append(law)
        return Draft(tuple(tokens), tuple(ups), tuple(dists), (way,) * len(tokens))

    draw.depth = max(depths(parents), default=0)
    return draw


def chain(depth: int, way: str = "with replacement") -> Draw:
    return tree(range(ROOT, depth - 1), way)


def confident(depth: int, threshold: float = 0.5) -> Draw:
    """A chain that stops where its drafter's best token is not probable enough, before anything is drawn."""

    def draw(q: Table, chance) -> Draft:
        tokens, dists = [], []
        while len(tokens) < depth and q(tuple(tokens)).probs.max() >= threshold:
            dists.append(q(tuple(tokens)))
            tokens.append(chance.pick(dists[-1], at=len(tokens)))
        return Draft.chain(tokens, "confident", dists)

    draw.depth = depth
    return draw


def alternating(depth: int) -> Draw:
    """A chain whose guesses are drawn and certain in turn, as when two drafters take turns."""

    def draw(q: Table, chance) -> Draft:
        tokens, dists = [], []
        while len(tokens) < depth:
            law = q(tuple(tokens))
            dists.append(Dist.point(law.top) if len(tokens) % 2 else law)
            tokens.append(chance.pick(dists[-1], at=len(tokens)))
        return Draft.chain(tokens, "alternating", dists)

    draw.depth = depth
    return draw


def shapes(nodes: int, depth: int = 3) -> list[tuple[int, ...]]:
    """Every parent list with so many nodes."""
    lists = product(*(range(ROOT, i) for i in range(nodes)))
    return [parents for parents in lists if max(depths(parents), default=0) <= depth]


# --- noise ------------------------------------------------------------------------------------------


class Coupled:
    """Enumerated noise whose tied part is one uniform a position, so that target and drafter can share it."""

    def __init__(self, noise) -> None:
        self.branch, self.stream = noise.branch, noise.stream
        self.cells: dict[int, tuple[float, float]] = {}

    def at(self, position: int) -> "CoupledChance":
        return CoupledChance(self, position)


class CoupledChance:
    """Inverts the distribution function at the uniform of a position, better known after each draw."""

    def __init__(self, noise: Coupled, position: int) -> None:
        self.noise, self.position = noise, position

    def pick(self, dist: Dist, at: int) -> int:
        low, high = self.noise.cells.get(self.position + at, (0.0, 1.0))
        edges = [0.0, *np.cumsum(dist.probs)[:-1].tolist(), 1.0]
        cells = [(max(low, a), min(high, b)) for a, b in pairwise(edges)]
        sizes = [(b - a) / (high - low) if b - a > 1e-15 else 0.0 for a, b in cells]
        way = self.noise.branch(sizes)
        self.noise.cells[self.position + at] = cells[way]
        return int(dist.ids[way])


class Apart(Coupled):
    """Noise of which nothing is shared: the drafter of a rule with tied noise draws by itself."""

    def at(self, position: int):
        first, self.asked = not hasattr(self, "asked"), True
        return self.stream("draft", 0) if first else super().at(position)


class Grid:
    """Production's fresh noise with uniforms from 0, 1/4, 1/2, 3/4: the ends of u < p show."""

    chance = Fresh

    def __init__(self, noise) -> None:
        self.noise = noise

    def stream(self, name: str, step: int) -> Fresh:
        chance = self.chance(0, name, step)
        chance._next = lambda: self.noise.branch([0.25] * 4) / 4
        return chance


def quarters(*rows: Sequence[int]) -> Table:
    """The same rows after every text, by its length, in quarters."""
    return lambda prefix: Dist.of(np.array(rows[len(prefix) % len(rows)]) / 4)


GRID = Problem("grid", quarters((1, 1, 2), (0, 1, 3)), quarters((2, 1, 1), (2, 1, 1)))
"""Every ratio and residual of this problem is a multiple of a quarter."""


# --- the proof --------------------------------------------------------------------------------------


def emitted(rule, draw: Draw, problem: Problem, wrap=Coupled) -> Law:
    """The law of what one step emits."""

    def run(base) -> tuple[int, ...]:
        noise = wrap(base)
        draft = draw(problem.q, noise.at(0) if rule.shared else noise.stream("draft", 0))
        rows = {node: problem.p(tuple(draft.path(node))) for node in range(ROOT, len(draft))}
        verdict = rule(draft, rows, noise.at(0) if rule.shared else noise.stream("verify", 0))
        return (*(draft.tokens[node] for node in verdict.accepted), verdict.token)

    return outcomes(run)


def complete(law: Law, p: Table, length: int) -> Law:
    """The law of texts of a given length, written on by the target."""
    done: Law = defaultdict(float)
    for text, weight in law.items():
        if len(text) == length:
            done[text] += weight
        else:
            row = p(text)
            longer = {(*text, int(x)): weight * float(px) for x, px in zip(row.ids, row.probs, strict=True)}
            for end, mass in complete(longer, p, length).items():
                done[end] += mass
    return done


def distance(a: Law, b: Law) -> float:
    """The largest difference of two laws at one text."""
    return max(abs(a.get(text, 0.0) - b.get(text, 0.0)) for text in a.keys() | b.keys())


def law_error(rule, draw: Draw, problem: Problem, wrap=Coupled) -> float:
    """How far the law of the text is from the target's own, over one token more than the deepest guess."""
    length = draw.depth + 1
    ours = complete(emitted(rule, draw, problem, wrap), problem.p, length)
    return distance(ours, complete({(): 1.0}, problem.p, length))


def mean_length(law: Law) -> float:
    return sum(len(text) * weight for text, weight in law.items())
