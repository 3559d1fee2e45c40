"""The whole engine, over several steps: the law of the emitted tokens is that of plain decoding.

Plain decoding is written here a second time, in a dozen lines without cache, drafts or steps.
"""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from proof import CAUGHT, EXACT, WAYS, Coupled, distance, table, tree

from redline.backends.toy import ToyCache
from redline.core.dist import Dist
from redline.core.pace import Confidence, Fixed
from redline.core.ports import Chunk
from redline.core.sampling import Sampling, distribution
from redline.core.stop import Ending, Limits
from redline.core.topology import path
from redline.core.types import Draft, History
from redline.core.verify import RULES, Block, Greedy, Matching, Rejection, Tree
from redline.drafters import Compose, ModelDrafter, Ngram, breadth, compose, siblings, vocabulary
from redline.drafters.merge import merge
from redline.engine import Engine, generate
from redline.engine import live as live_module
from redline.testing import ToyBackend, ToyTokenizer, outcomes

PROMPT = [0, 2]
PAIR = (-1, -1, 0)


def within(draft, budget):
    """A draft without what a budget has no room for, whatever was drawn."""
    cut = draft.cut(budget.depth)
    return cut.only(range(min(len(cut), budget.nodes)))


class Sampler:
    """Guesses in a shape, drawn from a table of its own."""

    name = "sampler"

    def __init__(self, parents, way, words=3):
        self.draw = tree(parents, way)
        self.q = table(
            lambda rng: Dist.of(rng.dirichlet(np.ones(words)), np.sort(rng.permutation(3)[:words])), 99
        )

    def propose(self, scenes):
        drafts = []
        for scene in scenes:
            draft = self.draw(
                lambda prefix, past=tuple(scene.history.tokens): self.q(past + prefix), scene.chance
            )
            drafts.append(within(draft, scene.budget))
        return drafts

    confident = False
    draws = True

    def start(self, key, tokens): ...
    def read(self, key, tokens): ...
    def observe(self, key, emitted, verdict): ...
    def stop(self, key): ...
    def close(self): ...


def target(**options):
    return ToyBackend(3, seed=5, spread=3.0, tokenizer=ToyTokenizer.letters(3, ends=[2]), **options)


def emitted(drafter, rule, sampling, limits, pace, lengths=None, prompt=PROMPT, constraint=None):
    """The law of (tokens, reason) that the engine writes; `lengths` takes those of its drafts."""

    def run(noise):
        shared = Coupled(noise)
        engine = Engine(target(), drafter, rule=rule, pace=lambda: pace, noise=lambda seed: shared)
        result = generate(engine, prompt, sampling, limits, 0, constraint)
        if lengths is not None:
            lengths.update(len(step.proposed) for step in result.steps)
        return result.tokens, result.finish

    return outcomes(run)


def plain(sampling, limits, prompt=PROMPT, constraint=None):
    """The same law from the definition."""
    backend, law = target(), defaultdict(float)
    ends = backend.tokenizer.ends if limits.stop_tokens is None else limits.stop_tokens

    def go_on(text, weight, state):
        written = "".join(backend.tokenizer.label(token) for token in text)
        if (text and text[-1] in ends) or any(stop in written for stop in limits.stop):
            law[text, "stop"] += weight
        elif len(text) == limits.max_tokens:
            law[text, "length"] += weight
        else:
            logits = backend.extend([Chunk(backend.open(), [*prompt, *text], "last")])[0][0]
            mask = state.allowed() if state else None
            row = distribution(logits, sampling, History([*prompt, *text], len(prompt)), mask)
            for token, p in zip(row.ids.tolist(), row.probs.tolist(), strict=True):
                go_on((*text, token), weight * p, state.after(token) if state else None)

    go_on((), 1.0, constraint)
    return law


def engine_error(parents, way, rule, sampling, limits, words=3, constraint=None):
    drafter = Sampler(parents, way, words)
    pace = Fixed(drafter.draw.depth, nodes=8)
    law = emitted(drafter, rule, sampling, limits, pace, constraint=constraint)
    return distance(law, plain(sampling, limits, constraint=constraint))


WARM = Sampling(temperature=1.0)
NO_END = frozenset()
SETTINGS = {
    "nothing on": WARM,
    "filters": Sampling(temperature=0.7, top_k=2, top_p=0.9, min_p=0.05),
    "repetition": Sampling(temperature=1, repetition_penalty=1.8),
    "presence": Sampling(temperature=1, presence_penalty=1.5),
    "frequency": Sampling(temperature=1, frequency_penalty=0.9),
    "all penalties in a window": Sampling(
        temperature=0.8,
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=0.7,
        penalty_window=2,
    ),
    "bias": Sampling(temperature=1, bias={0: 1.5, 1: -1.0}),
    "a banned token": Sampling(temperature=1, bias={1: -np.inf}, top_p=0.95),
}
LIMITS = {
    "a limit": Limits(max_tokens=3, stop_tokens=NO_END),
    "the model's own end": Limits(max_tokens=3),
    "two ends": Limits(max_tokens=3, stop_tokens=frozenset({0, 2})),
    "a stop string over tokens": Limits(max_tokens=3, stop=("ab", "ba"), stop_tokens=NO_END),
}
EXACT_RULES = [Matching(), Rejection(), Block(), Tree()]


def rules(those):
    return pytest.mark.parametrize("rule", those, ids=lambda rule: rule.name)


def test_these_are_all_exact_rules():
    assert {rule.name for rule in EXACT_RULES} | {"greedy"} == {
        rule.name for rule in RULES.values() if rule.exact
    }


@rules(EXACT_RULES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_sampling_settings(rule, settings):
    assert engine_error((-1, 0), "with replacement", rule, SETTINGS[settings], LIMITS["a limit"]) < EXACT


@rules(EXACT_RULES)
@pytest.mark.parametrize("limits", LIMITS)
def test_endings(rule, limits):
    assert engine_error((-1, 0), "with replacement", rule, WARM, LIMITS[limits]) < EXACT


@rules(EXACT_RULES)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_longer_texts_of_two_words(rule, depth):
    limits, two = Limits(max_tokens=4, stop_tokens=NO_END), Sampling(temperature=1, top_k=2)
    parents = range(-1, depth - 1)
    assert engine_error(parents, "with replacement", rule, two, limits, words=2) < EXACT


@rules(EXACT_RULES)
def test_drafts_that_end_where_the_model_doubts(rule):
    """How long a draft gets hangs on what it guessed."""
    small = ToyBackend(3, seed=7, spread=3.0, tokenizer=ToyTokenizer.letters(3, ends=[]))
    drafter, lengths = ModelDrafter(small, target()), set()
    two, limits = Sampling(temperature=1, top_k=2), Limits(max_tokens=4, stop_tokens=NO_END)
    law = emitted(drafter, rule, two, limits, Confidence(3, 0.3), lengths)
    assert lengths >= {1, 2, 3}
    assert distance(law, plain(two, limits)) < EXACT


@rules(EXACT_RULES)
@pytest.mark.parametrize(
    ("sampling", "prompt", "widths"),
    [
        (WARM, PROMPT, {2, 3}),
        (SETTINGS["all penalties in a window"], PROMPT, {2, 3}),
        # At first there is nothing to guess, and no pass is made for it.
        (Sampling(temperature=1, bias={0: -np.inf, 1: -np.inf}), [2, 0, 1], {3}),
    ],
    ids=["nothing on", "all penalties in a window", "no common token"],
)
def test_drafts_of_common_tokens(rule, sampling, prompt, widths, monkeypatch):
    """Some guesses can be any token, and some only one that is not rare."""
    monkeypatch.setattr(vocabulary, "COMMON", 2)
    monkeypatch.setattr(vocabulary, "RECENT", 2)
    monkeypatch.setattr(vocabulary, "RARE", 0)
    small = ToyBackend(3, seed=7, spread=1.0, tokenizer=ToyTokenizer.letters(3, ends=[]))
    extend, asked = small.extend, set()

    def spy(chunks):
        asked.update(chunk.vocabulary for chunk in chunks if chunk.rows != "none")
        return extend(chunks)

    monkeypatch.setattr(small, "extend", spy)
    limits = Limits(max_tokens=4, stop_tokens=NO_END)
    law = emitted(ModelDrafter(small, target()), rule, sampling, limits, Fixed(2), prompt=prompt)
    assert asked == widths
    assert distance(law, plain(sampling, limits, prompt)) < EXACT


@rules([rule for rule in EXACT_RULES if rule.trees])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("settings", ["filters", "all penalties in a window"])
def test_trees(rule, way, settings):
    limits, two = Limits(max_tokens=4), replace(SETTINGS[settings], top_k=2)
    for parents in (PAIR, (-1, 0, 0)):
        assert engine_error(parents, way, rule, two, limits, words=2) < EXACT


def composed(how):
    """A look-up and a model that draws; both have something to say about `LOOPING`, and not the same."""
    small = ToyBackend(3, seed=7, spread=1.0, tokenizer=ToyTokenizer.letters(3, ends=[]))
    return Compose([Ngram(1, 2), ModelDrafter(small, target())], how)


LOOPING = [0, 1, 0, 2, 0]
TWO, FOUR = Sampling(temperature=1, top_k=2), Limits(max_tokens=4, stop_tokens=NO_END)


@rules(EXACT_RULES)
@pytest.mark.parametrize("how", compose.WAYS)
@pytest.mark.parametrize("nodes", [2, 4])
def test_several_drafters(rule, how, nodes, monkeypatch):
    """Model and look-up take turns, and stand beside each other."""
    monkeypatch.setattr(compose, "BROUGHT", 0.9)  # so that it depends on the text who is asked
    law = emitted(composed(how), rule, TWO, FOUR, Fixed(2, nodes=nodes), prompt=LOOPING)
    assert distance(law, plain(TWO, FOUR, LOOPING)) < EXACT


@pytest.mark.parametrize("settings", SETTINGS)
def test_several_drafters_in_a_tree_with_settings(settings):
    sampling, limits = SETTINGS[settings], LIMITS["a limit"]
    law = emitted(composed("merge"), Tree(), sampling, limits, Fixed(2, nodes=4), prompt=LOOPING)
    assert distance(law, plain(sampling, limits, LOOPING)) < EXACT


@pytest.mark.parametrize("settings", SETTINGS)
@rules([Greedy(), *EXACT_RULES])
def test_temperature_zero(rule, settings):
    cold = replace(SETTINGS[settings], temperature=0.0)
    parents = PAIR if rule.trees else (-1, 0)
    for limits in LIMITS.values():
        assert engine_error(parents, "without replacement", rule, cold, limits) < EXACT


def letters(**options):
    return ToyBackend(3, seed=3, order=2, tokenizer=ToyTokenizer.letters(3, ends=[]), **options)


def broad_error(rule, sampling, limits, pace, spread=2.0, sizes=None):
    """How far the law of what is written with a draft model's trees is from plain decoding's."""
    drafter = ModelDrafter(letters(spread=spread), target())
    return distance(emitted(drafter, rule, sampling, limits, pace, sizes), plain(sampling, limits))


TWO = Sampling(temperature=1, top_k=2)


@rules([rule for rule in EXACT_RULES if rule.trees])
@pytest.mark.parametrize(
    ("sampling", "pace", "length"),
    [
        (WARM, Fixed(1, nodes=3), 2),  # every token there is
        (WARM, Fixed(2, nodes=4), 3),
        (SETTINGS["filters"], Fixed(2, nodes=6), 3),
        (SETTINGS["all penalties in a window"], Fixed(2, nodes=3), 3),
        (TWO, Fixed(2, nodes=5), 3),
        (TWO, Fixed(3, nodes=5), 4),
        (TWO, Confidence(3, 0.5, nodes=5), 4),
        (TWO, Confidence(3, 0.2, nodes=6), 4),
    ],
    ids=["wide", "deep", "filters", "penalties", "two words", "deeper", "doubt", "less doubt"],
)
def test_trees_of_a_model(rule, sampling, pace, length):
    """Where there are branches hangs on what was drawn before them."""
    sizes = set()
    limits = Limits(max_tokens=length, stop_tokens=NO_END)
    assert broad_error(rule, sampling, limits, pace, sizes=sizes) < EXACT
    assert max(sizes) > 1


def test_trees_of_a_model_whose_shape_is_random():
    sizes, limits = set(), Limits(max_tokens=4, stop_tokens=NO_END)
    assert broad_error(Tree(), TWO, limits, Fixed(2, nodes=6), spread=6.0, sizes=sizes) < EXACT
    assert len(sizes) > 3


@rules([Greedy(), Tree()])
def test_trees_of_a_model_at_temperature_zero(rule):
    for limits in LIMITS.values():
        assert broad_error(rule, Sampling(), limits, Fixed(2, nodes=6)) < EXACT


def test_trees_of_certain_guesses_for_a_sampled_text():
    """A draft model may be greedy where the target is not."""
    drafter = ModelDrafter(letters(), target(), Sampling())
    limits = Limits(max_tokens=3, stop_tokens=NO_END)
    law = emitted(drafter, Tree(), WARM, limits, Fixed(2, nodes=6))
    assert distance(law, plain(WARM, limits)) < EXACT


# --- trees with one fault ---------------------------------------------------------------------------


def broad_caught():
    limits = Limits(max_tokens=2, stop_tokens=NO_END)
    return broad_error(Tree(), WARM, limits, Fixed(1, nodes=3)) > CAUGHT


def test_dropping_what_turned_out_improbable_is_caught(monkeypatch):
    """The best of all candidates is what EAGLE-2 keeps: right for certain guesses, wrong for drawn ones."""

    def keep_the_best(self, source):
        draft = draw(self, source)
        kept = [i for i in range(len(draft)) if min(draft.trust[j] for j in path(draft.parents, i)) > 0.3]
        return draft.only(kept)

    draw = breadth.Tree.draft
    monkeypatch.setattr(breadth.Tree, "draft", keep_the_best)
    assert broad_caught()


def test_siblings_that_hide_what_they_were_drawn_without_are_caught(monkeypatch):
    def draw(self, chance, at):
        whole = self._whole = getattr(self, "_whole", self._left)
        token, _, trust = honest(self, chance, at)
        return token, whole, trust

    honest = siblings.Siblings.draw
    monkeypatch.setattr(siblings.Siblings, "draw", draw)
    assert broad_caught()


# --- engines with one fault -------------------------------------------------------------------------


def caught(rule, sampling, limits, parents=(-1, 0)):
    return engine_error(parents, "with replacement", rule, sampling, limits) > CAUGHT


def test_a_bonus_after_the_end_is_caught(monkeypatch):
    def only_the_last(self, tokens):
        self.left -= len(tokens)
        self.finish = "stop" if tokens[-1] in self._stop_tokens else None if self.left > 0 else "length"
        return tuple(tokens), ("",) * len(tokens)

    monkeypatch.setattr(Ending, "take", only_the_last)
    assert caught(Matching(), WARM, LIMITS["the model's own end"])


def test_penalties_that_do_not_see_the_guesses_are_caught(monkeypatch):
    monkeypatch.setattr(Draft, "path", lambda self, node: [])
    assert caught(Matching(), SETTINGS["frequency"], LIMITS["a limit"], parents=(-1, 0))


def test_penalties_that_see_every_guess_are_caught(monkeypatch):
    monkeypatch.setattr(Draft, "path", lambda self, node: list(self.tokens))
    assert caught(Matching(), SETTINGS["presence"], LIMITS["a limit"])


def test_filters_on_the_last_row_only_are_caught(monkeypatch):
    class Rows(live_module.Rows):
        def __missing__(self, node):
            settings = self._live.sampling if node == len(self._draft) - 1 else WARM
            return distribution(self._logits[node + 1], settings, self._live.history)

    monkeypatch.setattr("redline.engine.loop.Rows", Rows)
    assert caught(Rejection(), SETTINGS["filters"], LIMITS["a limit"])


def test_a_stale_row_is_caught(monkeypatch):
    class Rows(live_module.Rows):
        def __missing__(self, node):
            return distribution(self._logits[max(node, 0)], self._live.sampling, self._live.history)

    monkeypatch.setattr("redline.engine.loop.Rows", Rows)
    assert caught(Matching(), WARM, LIMITS["a limit"])


def test_a_cache_that_keeps_a_refused_guess_is_caught(monkeypatch):
    def keep_the_first(self, length, path=()):
        slots = [*range(length), *(range(length, length + len(path)))]
        self.states = [self.states[slot] for slot in slots]
        self.positions = [self.positions[slot] for slot in slots]

    monkeypatch.setattr(ToyCache, "rewind", keep_the_first)
    assert engine_error((-1, -1, 1), "top", Matching(), WARM, LIMITS["a limit"]) > CAUGHT


def test_a_drawn_guess_that_is_merged_into_a_certain_one_is_caught(monkeypatch):
    monkeypatch.setattr(compose, "merge", lambda drafts, drawn=(): merge([*drafts, *drawn]))
    limits = LIMITS["a limit"]
    law = emitted(composed("merge"), Tree(), WARM, limits, Fixed(2, nodes=4), prompt=LOOPING)
    assert distance(law, plain(WARM, limits, LOOPING)) > CAUGHT


def test_choosing_among_drafts_by_what_was_drawn_is_caught(monkeypatch):
    class Greedy(Compose):
        """Takes the model's draft only where it has drawn what the look-up says."""

        def _pick(self, scenes):
            drafts = self._ask(0, scenes)
            drawn = self._ask(1, scenes)
            return {
                key: drawn[key] if drawn[key].tokens[:1] == (0,) else draft for key, draft in drafts.items()
            }

    drafter = composed("best")
    drafter._how = lambda self, scenes: Greedy._pick(self, scenes)
    law = emitted(drafter, Rejection(), TWO, FOUR, Fixed(2, nodes=4), prompt=LOOPING)
    assert distance(law, plain(TWO, FOUR, LOOPING)) > CAUGHT
