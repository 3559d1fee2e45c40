"""suffix: what is looked up, how far it is believed, and what is remembered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.core.chance import Keyed
from redline.core.errors import OptionError
from redline.core.ports import Scene
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Budget, History, Verdict
from redline.drafters import Corpus, Suffix
from redline.drafters.trust import FIRST, LENGTHS, MEMORY, Trust
from redline.engine import Engine, generate
from redline.testing import DrafterContract, ToyBackend


class TestSuffix(DrafterContract):
    @pytest.fixture(params=[None, "corpus"])
    def drafter(self, request):
        return Suffix(Corpus() if request.param else None)


def scene(text, depth=6, confidence=0.0, key=0):
    budget = Budget(depth, depth, confidence)
    return Scene(key, History(text, len(text)), budget, Sampling(), Keyed(0).at(len(text)))


def guess(text, drafter=None, **options):
    drafter = drafter or Suffix()
    drafter.start(0, text)
    draft = drafter.propose([scene(text, **options)])[0]
    drafter.stop(0)
    return draft


@pytest.mark.parametrize("text", [[], [1], [1, 2], [1, 2, 3, 4]])
def test_texts_without_a_match_get_no_guess(text):
    assert len(guess(text)) == 0


@pytest.mark.parametrize("n", [2, 3, 50, 300])
def test_a_match_that_runs_into_itself_is_a_period(n):
    assert guess([5] * n).tokens == (5,) * 6
    assert guess([1, 2, 3] * n).tokens == (1, 2, 3, 1, 2, 3)


def test_the_longer_match_is_believed_more():
    text = [1, 2, 3, 9, 7, 2, 3, 8, 5, 1, 2, 3]
    draft = guess(text)
    assert draft.tokens[0] == 9
    assert set(draft.sources) == {"suffix"}
    assert all(0 < trust < 1 for trust in draft.trust)


def test_what_followed_more_often_is_guessed():
    assert guess([4, 1, 4, 2, 4, 1, 4, 1, 4, 2, 4]).tokens[0] in (1, 2)
    assert guess([4, 1, 0, 4, 1, 8, 4, 2, 7, 4, 1, 6, 4]).tokens[0] == 1


def test_doubt_ends_a_draft_where_the_pace_asks_for_confidence():
    text = [1, 2, 3, 4, 5, 6, 7, 8, 0, 2, 3]
    sure, unsure = guess(text), guess(text, confidence=0.5)
    assert len(unsure) < len(sure)
    assert not len(unsure) or unsure.survival[-1] >= 0.15
    assert len(guess(text, Suffix(doubt=0.0), confidence=0.5)) == len(sure)
    assert len(guess(text, Suffix(doubt=1.0), confidence=1.0)) == 0


@pytest.mark.parametrize("doubt", [-0.1, 1.1, float("nan")])
def test_a_doubt_that_is_no_probability_is_refused(doubt):
    with pytest.raises(OptionError, match="doubt is"):
        Suffix(doubt=doubt)


def test_trust_begins_with_a_belief_and_goes_to_what_happens():
    trust = Trust()
    assert [trust.of(length, 1.0) for length in LENGTHS] == pytest.approx(FIRST)
    assert trust.of(2, 0.5) == pytest.approx(FIRST[1] / 2)
    for _ in range(1000):
        trust.learn(2, 1.0, True)
    assert trust.of(2, 1.0) > 0.94
    assert trust.of(3, 1.0) == pytest.approx(FIRST[2])
    for _ in range(int(4 * MEMORY)):
        trust.learn(2, 1.0, False)
    assert trust.of(2, 1.0) < 0.1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(1, 6))
def test_trust_learned_along_the_way_is_trust_learned_at_once(text, at):
    whole, parts = Suffix(), Suffix()
    for drafter in (whole, parts):
        drafter.start(0, text)
    for end in range(1, len(text), at):
        parts.propose([scene(text[:end])])
    one, other = (drafter.propose([scene(text)])[0] for drafter in (parts, whole))
    assert (one.tokens, one.trust) == (other.tokens, other.trust)


def test_an_answer_of_the_past_is_guessed_and_named():
    drafter, answer = Suffix(Corpus()), [*range(10, 22)]
    drafter.start(0, [1, 2])
    drafter.observe(0, answer, Verdict((), answer[-1]))
    drafter.stop(0)
    draft = guess([3, 4, 10, 11, 12], drafter)
    assert draft.tokens == tuple(range(13, 19))
    assert set(draft.sources) == {"memory"}
    assert len(guess([3, 4, 1, 2], drafter)) == 0  # prompts are nobody's business
    assert len(guess([3, 4, 10, 11, 12])) == 0


def test_a_text_that_is_written_meets_answers_that_are_added_meanwhile():
    drafter = Suffix(Corpus())
    drafter.start(0, [1])
    drafter.start(1, [2])
    drafter.propose([scene([1, 10, 11])])
    drafter.observe(1, [*range(10, 20)], Verdict((), 19))
    drafter.stop(1)
    assert drafter.propose([scene([1, 10, 11, 12, 13])])[0].tokens == tuple(range(14, 20))


def test_the_same_text_again_takes_few_passes_and_stays_the_same():
    engine = Engine(ToyBackend(64), Suffix(Corpus()))
    first, second = (generate(engine, [1, 2], limits=Limits(60), seed=1) for _ in range(2))
    assert first.tokens == second.tokens
    assert second.metrics.steps < first.metrics.steps / 3
    assert second.metrics.sources["memory"].accepted > 40


def test_memory_is_bounded_and_keeps_what_is_used():
    corpus, rng = Corpus(limit_bytes=120_000), np.random.default_rng(0)
    used = rng.integers(0, 1000, 30).tolist()
    corpus.add(used)
    for _ in range(300):
        corpus.add(rng.integers(0, 1000, 30).tolist())
        assert corpus.nbytes <= 120_000
        draft = Suffix(corpus)
        assert guess([5000, *used[:8]], draft).tokens == tuple(used[8:14])
    fresh = Corpus(limit_bytes=120_000)
    fresh.add(used)
    for _ in range(300):
        fresh.add(rng.integers(0, 1000, 30).tolist())
    assert guess([5000, *used[:8]], Suffix(fresh)).tokens != tuple(used[8:14])


def test_an_answer_that_is_larger_than_the_memory_is_cut_and_a_short_one_is_not_kept():
    corpus = Corpus(limit_bytes=20_000)
    corpus.add(list(range(5000)))
    assert 0 < corpus.nbytes <= 20_000
    tiny = Corpus()
    empty = tiny.nbytes
    tiny.add([1, 2, 3])
    assert tiny.nbytes == empty
    for wrong in (0, 1.5):
        with pytest.raises(OptionError, match="limit_bytes is"):
            Corpus(wrong)
