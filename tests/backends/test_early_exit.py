"""A target that drafts for itself writes what it writes alone, and keeps a drafter's contract."""

from dataclasses import replace

import numpy as np
import pytest
from matrix import EXACT, SAMPLINGS

from redline.core.chance import Keyed
from redline.core.errors import OptionError, RewindError
from redline.core.pace import Confidence, Fixed
from redline.core.ports import Chunk, Scene
from redline.core.sampling import Sampling, distribution
from redline.core.stop import Limits
from redline.core.types import Budget, Draft, History
from redline.core.verify import RULES
from redline.drafters import Ngram
from redline.drafters.early_exit import EarlyExit
from redline.engine import Engine, generate, generate_many
from redline.testing import DrafterContract, ToyBackend

PROMPTS = [[1, 2, 3, 1, 2], [4], [5] * 30 + [6], [0, 7, 3]]
TOKENS = 14


class Alone(EarlyExit):
    """Without an engine: it reads the target's cache itself, as an engine would have."""

    def __init__(self, target, layers=None):
        super().__init__(target, layers)
        self.target, self.caches = target, {}

    def start(self, key, tokens):
        self.caches[key] = self.target.open()

    def propose(self, scenes):
        for scene in scenes:
            cache, tokens = self.caches[scene.key], scene.history.tokens
            if unread := tokens[cache.length : -1]:
                self.target.extend([Chunk(cache, unread, "none")])
        return super().propose([replace(scene, cache=self.caches[scene.key]) for scene in scenes])

    def stop(self, key):
        if key in self.caches:
            self.caches.pop(key).close()


class TestEarlyExit(DrafterContract):
    vocab_size = 288

    @pytest.fixture(params=[1, 2, None])
    def drafter(self, request, opened_file, precision):
        return Alone(opened_file("llama", precision), request.param)


def decode(target, drafter, rule="matching", sampling=None, pace=None, prompts=PROMPTS, **options):
    engine = Engine(target, drafter, rule=RULES[rule], pace=lambda: pace or Fixed(4), prefill=7, **options)
    results = generate_many(engine, prompts, sampling, Limits(TOKENS, stop_tokens=frozenset()), seed=11)
    assert not any(step.fault for result in results for step in result.steps)
    return [result.tokens for result in results]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_matching_writes_what_plain_decoding_writes(opened_file, precision, sampling):
    target, how = opened_file("qwen3", precision), SAMPLINGS[sampling]
    expected = decode(target, None, sampling=how)
    for layers in target.exits:
        for pace in (Fixed(1), Fixed(3), Fixed(9), Fixed(70), Confidence(5, 0.001)):
            assert decode(target, EarlyExit(target, layers), sampling=how, pace=pace) == expected
        for prompt, tokens in zip(PROMPTS, expected, strict=True):
            assert decode(target, EarlyExit(target, layers), sampling=how, prompts=[prompt]) == [tokens]


@pytest.mark.parametrize("rule", EXACT, ids=lambda rule: rule.name)
def test_every_exact_rule(opened_file, precision, rule):
    """At temperature 0 it is greedy decoding; sampled, a text does not depend on its batch."""
    target = opened_file("llama", precision)
    greedy = Sampling(frequency_penalty=0.2, penalty_window=9)
    assert decode(target, EarlyExit(target), rule.name, greedy) == decode(target, None, sampling=greedy)
    warm = SAMPLINGS["sampled" if rule.samples else "greedy"]
    together = decode(target, EarlyExit(target), rule.name, warm)
    for prompt, tokens in zip(PROMPTS, together, strict=True):
        assert decode(target, EarlyExit(target), rule.name, warm, prompts=[prompt]) == [tokens]


class Bushy(EarlyExit):
    """With other guesses between and behind its own, as where drafters are merged."""

    def propose(self, scenes):
        return [self.more(draft, scene) for draft, scene in zip(super().propose(scenes), scenes, strict=True)]

    def more(self, draft, scene):
        nodes = min(scene.budget.nodes, len(draft) + 2)
        place = len(scene.history.tokens) % 3
        chain, other = [*zip(draft.tokens, draft.parents, strict=True)], (len(scene.history.tokens) % 250, -1)
        if place == 0:  # the exit's guesses are not the first ones any more
            chain = [other, *((token, parent + 1 if parent >= 0 else -1) for token, parent in chain)]
        else:
            chain += [other, (7, 0)][:place]
        tokens, parents = zip(*chain[:nodes], strict=True)
        points = tuple(map(type(draft.dists[0]).point, tokens))
        return Draft(tokens, parents, points, ("bushy",) * len(tokens)).cut(scene.budget.depth)


def test_merged_with_other_guesses(opened_file, precision):
    target = opened_file("llama", precision)
    for sampling in SAMPLINGS.values():
        expected = decode(target, None, sampling=sampling)
        assert decode(target, Bushy(target), sampling=sampling, pace=Fixed(3, nodes=5)) == expected
        assert decode(target, Bushy(target), sampling=sampling, pace=Fixed(3, nodes=5), keep=0) == expected


def test_texts_after_one_another_in_kept_caches(opened_file):
    target = opened_file("llama")
    engine = Engine(target, EarlyExit(target), pace=lambda: Fixed(3))
    for prompt in ([1, 2, 3], [1, 2, 3, 4], [1, 2, 9], [1, 2, 3]):
        text = generate(engine, prompt, SAMPLINGS["sampled"], Limits(9), seed=2)
        assert text.tokens == generate(Engine(target), prompt, SAMPLINGS["sampled"], Limits(9), seed=2).tokens


class Parity:
    """Even and odd tokens in turns."""

    def __init__(self, odd=0):
        self.odd = odd

    def allowed(self):
        return np.arange(288) % 2 == self.odd

    def takes(self, tokens):
        return next((i for i, t in enumerate(tokens) if t % 2 != (self.odd + i) % 2), len(tokens))

    def forced(self):
        return []

    def after(self, token):
        assert token % 2 == self.odd
        return Parity(1 - self.odd)


@pytest.mark.parametrize("rule", ["matching", "rejection", "block", "tree"])
def test_guesses_keep_to_a_constraint(opened_file, rule):
    target = opened_file("llama")
    limits, warm = Limits(12, stop_tokens=frozenset()), Sampling(temperature=1.0)
    engine = Engine(target, EarlyExit(target, 2), rule=RULES[rule], pace=lambda: Fixed(4))
    result = generate(engine, [1, 2], warm, limits, 5, Parity())
    for step in result.steps:
        first = step.position % 2  # the prompt has two tokens
        assert [token % 2 for token in step.proposed] == [(first + i) % 2 for i in range(len(step.proposed))]
    assert any(step.proposed for step in result.steps)
    if rule == "matching":
        assert result.tokens == generate(Engine(target), [1, 2], warm, limits, 5, Parity()).tokens


def scene(target, tokens, budget, sampling=None, **more):
    cache = target.open()
    if tokens[:-1]:
        target.extend([Chunk(cache, tokens[:-1], "none")])
    chance = Keyed(7).at(len(tokens))
    return Scene(0, History(tokens, len(tokens)), budget, sampling or Sampling(), chance, cache=cache, **more)


@pytest.mark.parametrize("constraint", [None, Parity()])
def test_a_guess_says_how_probable_the_exit_finds_it(opened_file, precision, constraint):
    target, text, one = opened_file("llama", precision), [3, 1, 4, 1, 5], Sampling(temperature=1.0)
    asked = scene(target, text, Budget(4, 4), Sampling(temperature=0.6, top_k=20), constraint=constraint)
    (draft,) = EarlyExit(target, 2).propose([asked])
    assert len(draft) == 4
    assert set(draft.sources) == {"early_exit"}
    rows = target.extend_exit([Chunk(target.open(), [*text, *draft.tokens])], 2)[0][len(text) - 1 :]
    state = constraint
    for row, token, q, trust in zip(rows, draft.tokens, draft.dists, draft.trust, strict=False):
        allowed = state.allowed() if state else None
        law = distribution(row, asked.sampling, History(text, 5), allowed)
        np.testing.assert_array_equal(q.probs, law.probs)
        np.testing.assert_array_equal(q.ids, law.ids)
        assert trust == pytest.approx(distribution(row, one, History(text, 5), allowed).prob(token), rel=1e-5)
        state = state.after(token) if state else None
    assert asked.cache.length == len(text) - 1


def test_it_stops_when_it_doubts_and_where_an_answer_ends(opened_file):
    target, text = opened_file("llama"), [3, 1, 4]
    drafter = EarlyExit(target, 2)
    (long,) = drafter.propose([scene(target, text, Budget(6, 6, 1e-9))])
    sure = np.cumprod(long.trust)  # greedy guesses are the favourites
    assert len(long) == 6
    for depth in range(1, 6):
        threshold = float(sure[depth - 1 : depth + 1].mean()) if depth > 1 else float(sure[:2].mean())
        (draft,) = drafter.propose([scene(target, text, Budget(6, 6, threshold))])
        assert draft.tokens == long.tokens[: int((sure >= threshold).sum()) + 1]
    end = min(target.tokenizer.ends)
    (draft,) = drafter.propose([scene(target, text, Budget(6, 6), Sampling(bias={end: 1e9}))])
    assert draft.tokens == (end,)


class Flat(ToyBackend):
    exits = range(1, 1)

    def extend_exit(self, chunks, layers): ...


def test_what_cannot_be_is_refused(opened_file):
    target = opened_file("llama")
    with pytest.raises(OptionError, match="native backend"):
        EarlyExit(ToyBackend())
    for layers in (0, 3, -1, 1.0, True):
        with pytest.raises(OptionError, match="after 1 to 2"):
            EarlyExit(target, layers)
    assert EarlyExit(target).layers == 2
    with pytest.raises(OptionError, match="single layer"):
        EarlyExit(Flat())
    without = replace(scene(target, [1, 2], Budget(2, 2)), cache=None)
    with pytest.raises(OptionError, match="has none"):
        EarlyExit(target).propose([without])


class Meddler(Ngram):
    """Reads its guesses into the target's cache as if they were text."""

    def propose(self, scenes):
        for each in scenes:
            each.cache.backend.extend([Chunk(each.cache, [1], "none")])
        return super().propose(scenes)


def test_a_drafter_that_changes_the_cache_is_found_out():
    engine = Engine(ToyBackend(), Meddler())
    with pytest.raises(RewindError, match="changed the target's cache"):
        generate(engine, [1, 2, 3], limits=Limits(4))
    assert not engine.live
