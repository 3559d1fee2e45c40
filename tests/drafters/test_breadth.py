"""A draft model's trees: what they hold and cost, and that its cache is the text after each of them."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from redline.core.chance import Keyed, derive, uniforms
from redline.core.dist import Dist
from redline.core.pace import Fixed
from redline.core.ports import Chunk, Scene
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.topology import ROOT, depths, path
from redline.core.types import Budget, Draft, History
from redline.core.verify import RULES
from redline.drafters import ModelDrafter, siblings
from redline.drafters.siblings import Odds, Siblings
from redline.engine import Engine, generate
from redline.testing import ToyBackend, ToyTokenizer

GREEDY = Sampling()
SAMPLINGS = {
    "greedy": GREEDY,
    "sampled": Sampling(temperature=0.8, top_p=0.95),
    "penalised": Sampling(temperature=0.9, repetition_penalty=1.3, frequency_penalty=0.4),
    "greedy, penalised": Sampling(presence_penalty=0.8, bias={2: 1.5, 3: -np.inf}),
}
DEPTH = 5


def small(**options):
    return ToyBackend(12, seed=3, order=3, spread=6.0, tokenizer=ToyTokenizer.letters(12, ends=[]), **options)


def drafter(**options):
    return ModelDrafter(small(**options), ToyBackend(12, order=3))


def scene(text, sampling=GREEDY, nodes=12, depth=DEPTH, confidence=0.0, needs_q=False, **more):
    noise = Keyed(5)
    chance = noise.stream("draft", len(text)) if needs_q else noise.at(len(text))
    budget = Budget(depth, nodes, confidence)
    return Scene(0, History(text, 2), budget, sampling, chance, **{"trees": True, "needs_q": needs_q, **more})


def propose(model, text, *args, **options):
    model.start(0, text)
    draft = model.propose([scene(text, *args, **options)])[0]
    model.stop(0)
    return draft


def main_line(draft):
    """The first candidate of the first candidate, and so on."""
    nodes, node = [], ROOT
    while children := draft.children(node):
        nodes.append(node := children[0])
    return nodes


def texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 12, rng.integers(1, 9)).tolist() for _ in range(count)]


@pytest.mark.parametrize("confidence", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_tree_is_the_chain_and_more(sampling, confidence):
    sizes, model = Counter(), drafter()
    if sampling.reads_history or sampling.bias:
        confidence = 0.0  # a chain's own doubt is about what the model says before penalties
    for text in texts(40):
        tree = propose(model, text, sampling, confidence=confidence, nodes=30)
        chain = propose(model, text, sampling, confidence=confidence, nodes=DEPTH)
        assert chain.is_chain
        line = main_line(tree)
        assert tuple(tree.tokens[node] for node in line[: len(chain)]) == chain.tokens
        assert tuple(tree.trust[node] for node in line[: len(chain)]) == pytest.approx(chain.trust)
        assert len(chain) <= len(tree) <= 30
        assert max(depths(tree.parents)) <= DEPTH
        sizes[len(tree)] += 1
    assert len(sizes) > 2, "the shape follows the model's doubt"


def test_where_the_model_is_sure_there_is_a_chain_and_where_not_candidates():
    rows = {ROOT: [0.0, 0.0, 9.0, 0.0], 2: [1.0, 1.2, -9.0, -9.0], 1: [0.0, 9.0, 0.0, 0.0]}
    backend = ToyBackend(
        4, order=1, logits=lambda state: np.array(rows[state[0] if state[0] in (1, 2) else ROOT])
    )
    draft = propose(ModelDrafter(backend, ToyBackend(4)), [3], nodes=6, depth=3)
    assert draft.tokens[:2] == (2, 1)
    assert sorted(draft.tokens[node] for node in draft.children(ROOT)) == [2]
    assert [draft.tokens[node] for node in draft.children(0)] == [1, 0]
    # What follows either of them is read in the same pass, and certain again.
    assert sorted(draft.path(node) for node in range(len(draft))) == [
        [2],
        [2, 0],
        [2, 0, 2],
        [2, 1],
        [2, 1, 1],
    ]
    assert backend.passes == [[1], [1], [2]]


def test_siblings_are_the_next_most_probable_or_the_next_in_the_race():
    logits = np.array([1.0, 0.5, 0.9, 0.2], np.float32)
    cold = Siblings(logits, Sampling(), History([0], 1), None)
    drawn = [cold.draw(Keyed(0).at(0), 0) for _ in range(4)]
    assert [token for token, _, _ in drawn] == [0, 2, 1, 3]
    assert all(law.ids.tolist() == [token] for token, law, _ in drawn)
    assert cold.worth == 0.0
    for seed in range(50):
        warm, chance = Siblings(logits, Sampling(temperature=0.7), History([0], 1), None), Keyed(seed).at(0)
        u, law = uniforms(derive(seed, 0), np.arange(4)), Dist.of(np.exp(logits / 0.7))
        order = np.argsort(-np.log(u) / law.probs).tolist()
        drawn = [warm.draw(chance, 0) for _ in range(4)]
        assert [token for token, _, _ in drawn] == order
        assert warm.worth == 0.0
        for at, (_, law, trust) in enumerate(drawn):
            assert law.ids.tolist() == sorted(order[at:])
            assert trust == pytest.approx(Odds(logits).of(drawn[at][0]))


def test_what_a_candidate_is_worth_is_known_before_it_is_drawn():
    logits, law = np.array([1.0, 0.5, 0.9, -5.0], np.float32), Sampling(temperature=1.3)
    worths = set()
    for seed in range(30):
        found, own = Siblings(logits, law, History([0], 1), None), []
        while found.worth > 0:
            own.append(found.worth)
            found.draw(Keyed(seed).at(0), 0)
        worths.add(tuple(own))
    (own,) = worths
    assert list(own) == sorted(Odds(logits).of(token) for token in (0, 1, 2))[::-1]


@pytest.mark.parametrize("needs_q", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_vocabulary_of_two_runs_out_of_siblings(sampling, needs_q):
    sampling = replace(sampling, bias={})
    backend = ToyBackend(2, order=2, spread=0.5, tokenizer=ToyTokenizer.letters(2, ends=[]))
    draft = propose(ModelDrafter(backend, backend), [0], sampling, nodes=40, depth=3, needs_q=needs_q)
    assert len(draft) == 2 + 4 + 8
    assert len(set(zip(draft.parents, draft.tokens, strict=True))) == len(draft)
    if sampling.temperature > 0:
        assert all(
            len(draft.dists[i].ids) == 2 - (i != draft.children(p)[0]) for i, p in enumerate(draft.parents)
        )


def test_one_token_that_may_be_drawn_is_one_candidate():
    draft = propose(drafter(), [1, 2], Sampling(temperature=1, top_k=1))
    assert draft.is_chain
    assert len(draft) == DEPTH


def test_nothing_follows_an_end():
    ends = [4, 5, 6, 7]
    backend = ToyBackend(12, seed=3, order=3, spread=3.0, tokenizer=ToyTokenizer.letters(12, ends=ends))
    seen = set()
    for text in texts(30):
        draft = propose(ModelDrafter(backend, ToyBackend(12)), text, nodes=20)
        inner = {draft.tokens[parent] for parent in draft.parents if parent != ROOT}
        assert inner.isdisjoint(ends)
        seen |= set(draft.tokens)
    assert seen & set(ends)


# --- who gets none ------------------------------------------------------------------------------------


def chain_of(model, text, sampling=GREEDY, **options):
    return propose(model, text, sampling, **{"nodes": DEPTH, **options})


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_without_room_or_takers_the_chain_is_made_as_ever(sampling):
    for text in texts(10):
        plain = drafter()
        expected = chain_of(plain, text, sampling)
        for model, options in (
            (drafter(), {"trees": False}),
            (drafter(trees=False), {}),
            (drafter(), {"nodes": DEPTH}),
        ):
            draft = propose(model, text, sampling, **options)
            assert (draft.tokens, draft.parents, draft.trust) == (
                expected.tokens,
                expected.parents,
                expected.trust,
            )
            assert model.backend.passes == plain.backend.passes


def test_a_budget_of_one_is_one_guess():
    for trees in (True, False):
        assert len(propose(drafter(), [1, 2, 3], nodes=1, depth=1, trees=trees)) == 1


def test_a_depth_of_one_is_candidates_from_one_pass():
    model = drafter()
    for text in texts(10):
        model.backend.passes.clear()
        draft = propose(model, text, nodes=6, depth=1)
        assert set(draft.parents) == {ROOT}
        assert len(model.backend.passes) == 1


def test_at_the_end_of_the_drafts_context_there_are_chains():
    model = drafter(context=20)
    for length in range(1, 22):
        draft = propose(model, [1] * length, nodes=12)
        assert draft.is_chain or length <= 8
        assert (len(draft) == 0) == (length > 20)


# --- what they cost -----------------------------------------------------------------------------------


class Spy(ToyBackend):
    """A model that remembers which chunks had parents."""

    def extend(self, chunks):
        self.trees = [*getattr(self, "trees", []), *(chunk.parents is not None for chunk in chunks)]
        return super().extend(chunks)


def spied(spread, nodes):
    """What target and draft were asked for, and the steps."""
    tokenizer = ToyTokenizer.letters(12, ends=[])
    target, model = (Spy(12, seed=3, order=2, spread=spread, tokenizer=tokenizer) for _ in range(2))
    engine = Engine(target, ModelDrafter(model, target), pace=lambda: Fixed(4, nodes))
    result = generate(engine, [1, 2, 3], limits=Limits(40), seed=1)
    return target, model, [(step.emitted, step.proposed) for step in result.steps]


def test_a_tree_of_one_path_costs_what_a_chain_costs():
    target, model, steps = spied(1e5, 12)
    chain_target, chain_model, expected = spied(1e5, 4)
    assert steps == expected
    assert not any([*target.trees, *model.trees])
    assert target.passes == chain_target.passes
    # A chain reads copies of the text ahead; but for these the passes are the same ones.
    assert sum(map(sum, model.passes)) <= sum(map(sum, chain_model.passes)) + 4 * len(steps)
    assert {len(rows) for rows in model.passes} == {1}


def test_a_draft_takes_no_more_passes_than_it_is_deep():
    branching = Counter()
    for confidence in (0.0, 0.2, 0.6):
        for text in texts(30):
            model = drafter()
            draft = propose(model, text, confidence=confidence, nodes=16)
            assert len(model.backend.passes) <= max(depths(draft.parents))
            branching[confidence] += not draft.is_chain
    assert min(branching.values()) > 0


def test_no_pass_is_made_for_what_the_model_doubts():
    for text in texts(30):
        model = drafter()
        draft = propose(model, text, confidence=0.6, nodes=16)
        sure = [node for node, survives in enumerate(draft.survival) if survives >= 0.6]
        deepest = max((depths(draft.parents)[node] for node in sure), default=0)
        assert len(model.backend.passes) == min(deepest + 1, DEPTH)


def test_candidates_that_are_not_worth_a_row_are_not_made():
    for text in texts(30):
        draft = propose(drafter(), text, nodes=60)
        beside = set(range(len(draft))) - set(main_line(draft))
        assert all(draft.survival[node] >= siblings.WORTH for node in beside)


# --- the cache ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rollback_order", [2, None])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_cache_is_the_text_after_any_kept_path(sampling, rollback_order):
    """And every draft is that of a drafter without a cache."""
    rng, text = np.random.default_rng(8), [1, 2, 3]
    model = ModelDrafter(
        ToyBackend(12, seed=3, order=rollback_order, tokenizer=ToyTokenizer.letters(12)), ToyBackend(12)
    )
    model.start(0, text)
    for round_ in range(60):
        options = {
            "nodes": int(rng.integers(DEPTH, 16)),
            "trees": bool(round_ % 5),
            "confidence": float(rng.choice([0.0, 0.3, 0.6])),
            "depth": int(rng.integers(1, DEPTH + 1)),
        }
        draft = model.propose([scene(text, sampling, **options)])[0]
        held = model._texts[0]
        assert held.cache.states == cache_of(model.backend, held.read)
        assert held.read[: len(text) - 1] == text[:-1]
        fresh = ModelDrafter(model.backend, ToyBackend(12), keep=0)
        again = propose(fresh, text, sampling, **options)
        assert (again.tokens, again.parents, again.trust) == (draft.tokens, draft.parents, draft.trust)
        last = int(rng.integers(ROOT, len(draft)))
        text = [*text, *draft.path(last), int(rng.integers(0, 12))]
    model.stop(0)


def cache_of(backend, tokens):
    cache = backend.open()
    backend.extend([Chunk(cache, tokens, "none")])
    return cache.states


def test_a_batch_reads_all_its_trees_and_chains_in_the_same_passes():
    model = drafter()
    for key, text in enumerate(texts(4)):
        model.start(key, text)
    asked = [replace(scene(text, nodes=DEPTH + 3 * key), key=key) for key, text in enumerate(texts(4))]
    drafts = model.propose(asked)
    assert drafts[0].is_chain
    assert not all(draft.is_chain for draft in drafts)
    assert len(model.backend.passes) <= DEPTH
    for key, (text, own) in enumerate(zip(texts(4), drafts, strict=True)):
        alone = propose(drafter(), text, nodes=DEPTH + 3 * key)
        assert (alone.tokens, alone.parents) == (own.tokens, own.parents)


# --- constraints --------------------------------------------------------------------------------------


class Steps:
    """Any token may be followed by those that are at most `reach` above it; nothing follows `last`."""

    def __init__(self, at=0, reach=3, last=None):
        self.at, self.reach, self.last = at, reach, last

    def allowed(self):
        ids = np.arange(14)  # the target's rows are wider than the draft's
        return (ids > self.at) & (ids <= self.at + self.reach) & (self.at != self.last)

    def after(self, token):
        assert self.allowed()[token]
        return Steps(token, self.reach, self.last)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_tree_keeps_to_the_constraint(sampling):
    sizes = set()
    for start in range(12):
        draft = propose(drafter(), [start], sampling, nodes=14, constraint=Steps(start))
        for node, token in enumerate(draft.tokens):
            before = [start, *draft.path(node)][-2]
            assert before < token <= before + 3
        # The draft knows the ids below 12 only; where the constraint wants others there are no guesses.
        assert (len(draft) == 0) == (start == 11)
        sizes.add(len(draft))
    assert max(sizes) > DEPTH


def test_what_nothing_may_follow_has_no_children():
    draft = propose(drafter(), [1], nodes=14, constraint=Steps(1, last=4))
    assert 4 in draft.tokens
    assert all(draft.tokens[parent] != 4 for parent in draft.parents if parent != ROOT)


# --- trust --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("sampling", [SAMPLINGS["greedy"], SAMPLINGS["sampled"]], ids=["greedy", "sampled"])
def test_trust_is_the_models_own_probability(sampling, trees):
    for text in texts(10):
        draft = propose(drafter(), text, sampling, trees=trees)
        backend = small()
        for node, trust in enumerate(draft.trust):
            before = [*text, *draft.path(node)[:-1]]
            row = backend.extend([Chunk(backend.open(), before, "last")])[0][0].astype(float)
            assert trust == pytest.approx(np.exp(row[draft.tokens[node]]) / np.exp(row).sum(), rel=1e-5)
        assert all(a <= 1 for a in draft.survival)


def test_more_is_kept_with_breadth_than_without():
    """Of a pair that agrees often but not always, at any temperature and by either rule."""

    def logits(noise):
        @cache
        def row(state):
            own = np.random.default_rng([1, *state]).normal(0, 2.5, 24)
            return own + noise * np.random.default_rng([2, *state]).normal(0, 1, 24)

        return row

    tokenizer = ToyTokenizer.letters(24, ends=[])
    target = ToyBackend(24, order=3, logits=logits(0.0), tokenizer=tokenizer)
    for rule in ("matching", "tree"):
        for temperature in (0.0, 0.7, 1.0):
            kept = {}
            for nodes in (5, 8, 16):
                model = ModelDrafter(ToyBackend(24, order=3, logits=logits(1.0), tokenizer=tokenizer), target)
                engine = Engine(target, model, rule=RULES[rule], pace=lambda nodes=nodes: Fixed(5, nodes))
                runs = [
                    generate(engine, [i, i + 1], Sampling(temperature=temperature), Limits(60), seed=3)
                    for i in range(16)
                ]
                kept[nodes] = sum(run.metrics.tokens for run in runs) / sum(run.metrics.steps for run in runs)
            assert kept[5] < min(kept[8], kept[16]), (rule, temperature)


def test_a_draft_that_was_never_a_tree_has_its_trust_too():
    draft = chain_of(drafter(), [1, 2, 3])
    assert isinstance(draft, Draft)
    assert len(draft.trust) == len(draft) == DEPTH
    assert path(draft.parents, DEPTH - 1) == list(range(DEPTH))
