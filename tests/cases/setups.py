"""Small models and drafters that the cases share: always right, always wrong, right for a while, silent."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from redline.core.dist import Dist
from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.topology import ROOT
from redline.core.types import Draft
from redline.core.verify import RULES
from redline.drafters import ModelDrafter, Replay
from redline.engine import Engine, generate
from redline.testing import ToyBackend, ToyTokenizer, outcomes

EXACT = [rule for rule in RULES.values() if rule.exact]
SAMPLERS = [rule for rule in EXACT if rule.name != "greedy"]


def tiny(vocab_size=12, **options):
    """A model whose rows depend on the whole text and every position in it."""
    return ToyBackend(vocab_size, **{"seed": 5, **options})


def table(probs, **options):
    """A model that has the same row everywhere; zeros are ids it can never write."""
    with np.errstate(divide="ignore"):
        row = np.log(np.asarray(probs, np.float64))
    return ToyBackend(len(probs), order=1, logits=lambda state: row, **options)


def forced(tokens, vocab_size, **options):
    """A model that writes exactly `tokens` after a prompt of one token, and then the first id for ever."""

    def row(state):
        at = len(state) - 1
        return np.eye(vocab_size)[tokens[at] if at < len(tokens) else 0] * 50

    return ToyBackend(vocab_size, order=1_000_000, logits=row, **options)


def byte_tokenizer(ends=()):
    """Every byte is a token; id 256 is a control token."""
    return ToyTokenizer([*(bytes([i]) for i in range(256)), b""], ends)


def write(
    target, prompt, drafter=None, depth=4, rule="matching", sampling=None, limits=24, seed=7, pace=None
):
    """One text, by an engine of its own."""
    limits = Limits(limits) if isinstance(limits, int) else limits
    engine = Engine(target, drafter, rule=RULES[rule], pace=pace or (lambda: Fixed(depth)))
    result = generate(engine, prompt, sampling, limits, seed)
    assert not engine.live
    engine.close()
    return result


def twin(target_of, target):
    """The draft model that is the target itself."""
    return ModelDrafter(target_of(), target)


def right(text, vocab_size=12):
    return Replay([text], vocab_size)


def wrong(text, vocab_size=12):
    """Never guesses the target's token."""
    return Replay([text], vocab_size, accuracy=0.0)


def script(text, rights, depth, vocab_size=12):
    """Right for the first `rights` guesses of every block of `depth`, wrong after."""
    return Replay([text], vocab_size, script=lambda at: (rights, depth - rights))


def silent(text, depth, vocab_size=12):
    """Guesses nothing, one token or a whole block, in turn."""
    turn = itertools.cycle([0, 1, depth])
    return Replay([text], vocab_size, script=lambda at: (next(turn), 0))


class Says:
    """A drafter that makes the same draft every time; `draft` gets the budget."""

    name = "says"
    confident = False
    draws = True

    def __init__(self, draft):
        self._draft = draft

    def read(self, key, tokens):
        pass

    def start(self, key, tokens):
        pass

    def propose(self, scenes):
        return [self._draft(scene) for scene in scenes]

    def observe(self, key, emitted, verdict):
        pass

    def stop(self, key):
        pass

    def close(self):
        pass


def always(token):
    """A drafter sure of one token."""
    return Says(lambda scene: Draft.chain([token] * scene.budget.depth, "always"))


def liar(q):
    """The classic fault: takes the likeliest token and claims to have drawn it from q."""
    law = Dist.of(np.array(q))
    return Says(lambda scene: Draft.chain([law.top], "liar", [law]))


def siblings(tokens):
    """Several candidates for the next position, drawn without replacement from nothing but certainty."""

    def draft(scene):
        few = tokens[: scene.budget.nodes]
        return Draft(tuple(few), (ROOT,) * len(few), tuple(map(Dist.point, few)), ("siblings",) * len(few))

    return Says(draft)


def law(target_of, drafter_of, rule="matching", sampling=None, tokens=2, depth=2, prompt=(0,)):
    """The exact probability of every text, by taking every branch of the randomness."""
    sampling = sampling or Sampling(temperature=1.0)

    def run(noise):
        target = target_of()
        engine = Engine(
            target,
            drafter_of(target) if drafter_of else None,
            rule=RULES[rule],
            pace=lambda: Fixed(depth, nodes=8),
            noise=lambda seed: noise,
        )
        return generate(engine, list(prompt), sampling, Limits(tokens), 0).tokens

    return outcomes(run)


def same_law(a, b):
    assert a.keys() == b.keys()
    for text, probability in a.items():
        assert abs(probability - b[text]) < 1e-12, (text, probability, b[text])


def draws(engine, prompt, sampling, texts=100, tokens=50):
    """How often every token was written, over many texts with a seed each."""
    limits = Limits(tokens)
    keys = [engine.submit(prompt, sampling, limits, seed) for seed in range(texts)]
    counts = Counter()
    for step in follow(engine, keys):
        counts.update(step.emitted)
    return counts


CHI_SQUARE = {1: 23.93, 2: 27.64, 3: 30.67, 4: 33.38, 5: 35.89, 6: 38.26, 7: 40.53}
"""By degrees of freedom: the value that a true law exceeds once in a million."""


def fits(counts, probs):
    """Whether counts may be draws from `probs` (Pearson's chi-square)."""
    total = sum(counts.values())
    if any(probs[token] == 0 for token in counts):
        return False
    possible = [token for token, p in enumerate(probs) if p > 0]
    chi = sum((counts[t] - total * probs[t]) ** 2 / (total * probs[t]) for t in possible)
    return chi < CHI_SQUARE[len(possible) - 1]


class Counting(ToyBackend):
    """A toy that remembers every cache it opened and where its tokens went."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.caches = []
        self.furthest = 0

    def open(self):
        self.caches.append(super().open())
        return self.caches[-1]

    def extend(self, chunks):
        rows = super().extend(chunks)
        self.furthest = max([self.furthest, *(p + 1 for c in chunks for p in c.cache.positions)])
        return rows

    @property
    def opened(self):
        return sum(not cache.closed for cache in self.caches)


def follow(engine, keys):
    """Step the engine until these texts have ended; their records as they come."""
    waiting = set(keys)
    while waiting:
        for step in engine.step():
            if step.key in waiting:
                waiting -= {step.key} if step.finish else set()
                yield step
