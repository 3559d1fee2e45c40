"""Several drafters as one."""

from dataclasses import replace

import pytest

from redline.core.chance import Keyed
from redline.core.dist import Dist
from redline.core.errors import UnknownName
from redline.core.ports import Scene
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Budget, Draft, History, Verdict
from redline.drafters import Compose, ModelDrafter, Ngram, Recycle, Suffix
from redline.drafters.compose import BROUGHT, WAYS
from redline.drafters.merge import likeliest, merge
from redline.drafters.trust import Calibration
from redline.engine import Engine, generate
from redline.testing import DrafterContract, ToyBackend


class TestCompose(DrafterContract):
    learns = True

    @pytest.fixture(
        params=[(how, members) for how in WAYS for members in ("free", "model", "three")], ids=str
    )
    def drafter(self, request):
        how, members = request.param
        model = ModelDrafter(ToyBackend(order=2), ToyBackend(seed=1))
        free = [Suffix(), Ngram()]
        return Compose({"free": free, "model": [Suffix(), model], "three": [model, *free]}[members], how)


class Says:
    """Says the same every time, and counts how often it was asked."""

    confident = False

    def __init__(self, name, *tokens, trust=(), draws=False):
        self.name, self.draws, self.asked, self.told = name, draws, 0, []
        self.draft = Draft.chain(tokens, name, trust=trust)

    def start(self, key, tokens): ...
    def read(self, key, tokens): ...

    def propose(self, scenes):
        self.asked += len(scenes)
        return [self.draft.cut(scene.budget.depth) for scene in scenes]

    def observe(self, key, emitted, verdict):
        self.told.append(key)

    def stop(self, key): ...

    def close(self):
        self.told.append("closed")


def scene(trees=True, needs_q=False, nodes=6, temperature=0.0, key=0):
    chance = Keyed(0).at(3)
    sampling = Sampling(temperature=temperature)
    return Scene(key, History([1, 2, 3], 3), Budget(3, nodes), sampling, chance, trees, needs_q)


def ask(drafter, a_scene=None):
    a_scene = a_scene or scene()
    drafter.start(a_scene.key, [1, 2, 3])
    return drafter.propose([a_scene])[0]


def test_first_takes_the_first_that_has_a_guess():
    silent, one, two = Says("silent"), Says("one", 5), Says("two", 6, 7)
    draft = ask(Compose([silent, one, two], "first"))
    assert (draft.tokens, draft.sources) == ((5,), ("one",))
    assert (silent.asked, one.asked, two.asked) == (1, 1, 0)
    assert ask(Compose([silent, silent], "first")) == Draft.empty()


def test_best_takes_what_promises_most():
    long, sure = Says("long", 5, 6, 7, trust=(0.4, 0.4, 0.4)), Says("sure", 8, trust=(0.9,))
    assert ask(Compose([long, sure])).sources == ("sure",)
    assert ask(Compose([sure, Says("longer", 5, 6, 7, trust=(0.6, 0.9, 0.9))])).sources == ("longer",) * 3


def test_a_model_is_asked_where_free_guesses_promise_too_little():
    model = Says("model", 1, 2, draws=True)
    good, poor = Says("good", 5, 6, 7), Says("poor", 5, trust=(0.3,))
    assert ask(Compose([good, model])).sources[0] == "good"
    assert model.asked == 0
    assert ask(Compose([poor, model])).sources == ("model", "model")
    assert ask(Compose([poor, Says("dumb", draws=True)])).sources == ("poor",)


def test_a_model_is_asked_where_many_free_guesses_promise_little_each():
    model = Says("model", 1, 2, draws=True)
    long, sure = Says("long", *range(9), trust=(0.9, 0.9, 0.9, 0.5, 0.5, *[1.0] * 4)), Says("sure", 5, 6, 7)
    assert sum(Calibration().survival(long.draft)) > sum(Calibration().survival(sure.draft)) > BROUGHT
    deep = replace(scene(), budget=Budget(9, 9))
    assert ask(Compose([long, model]), deep).sources[0] == "model"
    assert ask(Compose([sure, model]), deep).sources[0] == "sure"


def test_a_model_that_brings_nothing_is_asked_less():
    model, free = Says("model", 1, draws=True), Says("free", 5, trust=(0.8,))
    composed = Compose([free, model])
    composed.start(0, [1])
    asked = []
    for _ in range(30):
        draft = composed.propose([scene()])[0]
        asked.append(draft.sources[0] == "model")
        kept = draft.sources[0] == "free"
        composed.observe(0, [5, 9] if kept else [9], Verdict((0,) if kept else (), 9))
    assert asked[0]
    assert not asked[-1]
    assert BROUGHT > 1


def test_trust_that_is_not_justified_is_corrected():
    boaster, modest = Says("boaster", 5, 6, 7), Says("modest", 8, trust=(0.5,))
    composed = Compose([boaster, modest])
    composed.start(0, [1])
    for _ in range(20):
        kept = composed.propose([scene()])[0].sources[0] == "modest"
        composed.observe(0, [8, 9] if kept else [9], Verdict((0,) if kept else (), 9))
    assert composed.propose([scene()])[0].sources[0] == "modest"


def test_merge_has_everybodys_guesses_once():
    draft = ask(Compose([Says("a", 5, 6), Says("b", 5, 7), Says("c", 8)], "merge"))
    assert sorted(zip(draft.tokens, draft.sources, strict=True)) == [(5, "a"), (6, "a"), (7, "b"), (8, "c")]
    assert draft.path(draft.tokens.index(7)) == [5, 7]


def test_merge_is_best_where_trees_cannot_be_checked():
    draft = ask(Compose([Says("a", 5, 6), Says("b", 9, trust=(0.2,))], "merge"), scene(trees=False))
    assert draft.tokens == (5, 6)


def test_merge_keeps_the_likeliest_that_there_is_room_for():
    composed = Compose([Says("a", 5, 6, trust=(0.5, 0.5)), Says("b", 8, 9, trust=(0.9, 0.9))], "merge")
    assert ask(composed, scene(nodes=3)).tokens == (5, 8, 9)


def test_what_was_drawn_stays_a_candidate_of_its_own_where_q_is_read():
    q = Dist.of([0.25, 0.75])
    certain, drawn = Draft.chain([1, 4], "a"), Draft.chain([1, 0], "model", [q, q])
    tree = merge([certain], [drawn])
    assert (tree.tokens, tree.parents) == ((1, 4, 1, 0), (-1, 0, -1, 0))
    assert [len(dist.ids) for dist in tree.dists] == [1, 1, 2, 2]
    assert merge([certain, drawn]).tokens == (1, 4, 0)


def test_room_for_what_is_certain_does_not_hang_on_what_was_drawn():
    model = Says("model", draws=True)
    composed = Compose([Says("a", 1, 2, 3), Says("b", 4, 5, 6), model], "merge")
    counts = set()
    for length in range(4):
        q = Dist.of([0.0, 0.5, 0.5])
        model.draft = Draft.chain([1, 2, 1][:length], "model", [q] * length)
        draft = ask(composed, scene(needs_q=True, temperature=1.0))
        counts.add(sum(len(dist.ids) == 1 for dist in draft.dists))
        assert len(draft) <= 6
    assert len(counts) == 1


def test_no_share_is_no_question():
    model = Says("model", 1, draws=True)
    assert (
        len(ask(Compose([Says("a", 4), model], "merge"), scene(needs_q=True, temperature=1.0, nodes=1))) == 1
    )
    assert model.asked == 0


def test_the_likeliest_nodes_keep_their_parents():
    draft = Draft((1, 2, 3), (-1, 0, -1), tuple(map(Dist.point, (1, 2, 3))), ("a",) * 3, (0.5, 1.0, 0.4))
    assert likeliest(draft, 2, Calibration()).tokens == (1, 2)


def test_a_member_that_fails_is_skipped_and_named(caplog):
    class Fails(Ngram):
        name = "fails"

        def propose(self, scenes):
            raise ZeroDivisionError

    for how in WAYS:
        composed = Compose([Fails(), Ngram(1, 3)], how)
        result = generate(Engine(ToyBackend(order=1), composed), [1, 2, 1, 2, 1], limits=Limits(30), seed=1)
        assert result.steps[-1].fault == "fails: ZeroDivisionError"
        assert result.metrics.sources["ngram"].proposed > 0


def test_seconds_belong_to_whoever_was_asked():
    composed = Compose([Suffix(), Recycle()], "merge")
    result = generate(Engine(ToyBackend(order=1), composed), [1, 2, 1, 2, 1], limits=Limits(30), seed=1)
    sources = result.metrics.sources
    assert sources.keys() >= {"suffix", "recycle"}
    assert all(source.seconds > 0 for source in sources.values())
    assert sum(source.seconds for source in sources.values()) <= result.metrics.seconds


def test_everybody_is_told_and_closed():
    one, two = Says("one", 5), Says("two", 6)
    composed = Compose([one, two], "first")
    composed.start(7, [1])
    composed.propose([scene(key=7)])
    composed.observe(7, [5, 9], Verdict((0,), 9))
    composed.watch(7, [], [])
    composed.stop(7)
    composed.close()
    assert one.told == two.told == [7, "closed"]
    assert composed.name == "one+two"


def test_unknown_ways_suggest_their_neighbours():
    with pytest.raises(UnknownName, match="Did you mean best"):
        Compose([Ngram()], "bset")


def test_calibration_counts_what_was_judged():
    tree = Draft((1, 2, 3), (-1, -1, 1), tuple(map(Dist.point, (1, 2, 3))), ("a", "b", "b"), (0.5,) * 3)
    calibration = Calibration()
    for _ in range(60):
        calibration.learn(
            tree, Verdict((1,), 9), 2
        )  # the first refused, its sibling kept, what follows refused
    assert calibration.of("a", 0.5) < 0.1
    assert 0.4 < calibration.of("b", 0.5) < 0.6
    assert calibration.of("c", 0.5) == 0.5
    ended = Calibration()
    ended.learn(tree, Verdict((1, 2), 9), 1)  # the text ended with the first of them
    assert ended.of("b", 0.5) == pytest.approx((1 + 2) / 5)
