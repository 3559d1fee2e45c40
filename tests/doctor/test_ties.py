"""A near-tie is told from a bug, on models whose noise and whose faults are known."""

import numpy as np
import pytest

from redline.backends.toy import ToyBackend, ToyCache
from redline.core.chance import Keyed, uniforms
from redline.core.errors import OptionError
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.doctor import explain, ties
from redline.drafters import Ngram
from redline.engine import Engine, generate

WARM = Sampling(temperature=0.8)
PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]


class NoisyToy(ToyBackend):
    """Every logit moves by up to `noise` with the number of rows in the pass, as with real kernels."""

    def __init__(self, *args, noise, **options):
        super().__init__(*args, **options)
        self.noise = noise

    def _read(self, chunk):
        width = len(chunk.tokens)
        shift = uniforms(width, self._ids) * 2 - 1 if width > 1 else 0 * self._ids
        return super()._read(chunk) + np.float32(self.noise * shift)


class StaleCache(ToyCache):
    """Forgets refused guesses by number only: the newest entry is one of theirs."""

    def rewind(self, length, path=()):
        newest = self.states[-1]
        refused = length + len(path) < self.length
        super().rewind(length, path)
        if refused:
            self.states[-1] = newest


class StaleToy(ToyBackend):
    def open(self):
        return StaleCache(self)


class MisreadingToy(ToyBackend):
    """Rows of wide passes see a token that they should not see."""

    def _read(self, chunk):
        rows = super()._read(chunk)
        return np.roll(rows, 1, axis=1) if len(chunk.tokens) > 1 else rows


def close_call(state, gap=0.01):
    """After token 5 two tokens are as good as equal; anything else leads round in a ring."""
    row = np.zeros(8)
    row[(state[-1] + 1) % 8] = 9
    if state[-1] == 5:
        row[6], row[2] = 9, 9 - gap
    return row


def both(target, sampling=None, seed=0, tokens=48):
    """One text by plain decoding, and with guesses."""
    limits = Limits(tokens)
    return [
        generate(engine, PROMPT, sampling, limits, seed).tokens
        for engine in (Engine(target, keep=0), Engine(target, Ngram(), keep=0))
    ]


def forks(make, sampling, seeds=range(40)):
    """The forks of many texts of many models."""
    found = []
    for seed in seeds:
        target = make(seed)
        plain, other = both(target, sampling, seed)
        fork = explain(target, PROMPT, plain, other, sampling=sampling, seed=seed, widths=range(2, 8))
        assert (fork is None) == (plain == other)
        found += [fork] if fork else []
    return found


def test_equal_texts_have_no_fork():
    target = ToyBackend()
    plain, other = both(target)
    assert plain == other
    assert explain(target, PROMPT, plain, other) is None
    assert target.passes[-1] == [1], "nothing was read for it"


def test_a_near_tie_is_told_with_its_size():
    target = ToyBackend(8, order=1, logits=close_call)
    noisy = NoisyToy(8, order=1, logits=close_call, noise=0.02)
    prompt = [*range(8), *range(8), 0, 1, 2, 3, 4]
    fork = explain(noisy, prompt, [5, 6, 7], [5, 2, 3], widths=range(2, 8))
    assert (fork.position, fork.plain, fork.other, fork.verdict) == (1, 6, 2, "near-tie")
    assert fork.gap == pytest.approx(0.01, abs=1e-5)
    shifts = [0.02 * 2 * (uniforms(w, np.array([6]))[0] - uniforms(w, np.array([2]))[0]) for w in range(2, 8)]
    assert fork.gap / 2 <= fork.noise <= np.abs(shifts).max() + 1e-5
    assert "'g' or 'c'" in fork.sentence
    wide = NoisyToy(8, order=1, logits=lambda state: close_call(state, 1.0), noise=0.02)
    bug = explain(wide, prompt, [5, 6, 7], [5, 2, 3], widths=range(2, 8))
    assert bug.verdict == "bug"
    assert bug.noise == pytest.approx(np.abs(shifts).max(), abs=1e-5), "all widths were tried"
    assert len(wide.passes) > 2 * len(noisy.passes), "what is explained is not read again and again"
    assert explain(target, prompt, [5, 6, 7], [5, 2, 3]).verdict == "bug", "without noise it is one"


def test_the_gap_has_to_be_within_twice_the_noise():
    noisy = NoisyToy(8, order=1, logits=lambda state: close_call(state, 1.0), noise=0.02)
    size = explain(noisy, [5], [6], [2]).noise
    for gap, verdict in ((1.99 * size, "near-tie"), (2.01 * size, "bug")):
        target = NoisyToy(8, order=1, logits=lambda state, gap=gap: close_call(state, gap), noise=0.02)
        assert explain(target, [5], [6], [2]).verdict == verdict


def test_equal_scores_need_no_noise():
    target = ToyBackend(8, order=1, logits=lambda state: close_call(state, 0.0))
    fork = explain(target, [5], [2], [6])
    assert (fork.verdict, fork.gap, fork.noise) == ("near-tie", 0.0, 0.0)
    assert "exactly equal" in fork.sentence


@pytest.mark.parametrize("sampling", [Sampling(), WARM, Sampling(temperature=0.8, top_k=5, top_p=0.9)])
def test_every_fork_of_a_noisy_model_is_a_near_tie(sampling):
    found = forks(lambda seed: NoisyToy(16, seed=seed, order=2, noise=0.2), sampling)
    assert len(found) > 5
    assert {fork.verdict for fork in found} == {"near-tie"}
    assert sampling.top_k or all(fork.gap <= ties.FACTOR * fork.noise for fork in found)


@pytest.mark.parametrize("sampling", [Sampling(), WARM, Sampling(temperature=0.8, top_k=5, top_p=0.9)])
def test_a_stale_cache_is_a_bug(sampling):
    found = forks(lambda seed: StaleToy(16, seed=seed, order=2), sampling, range(20))
    assert len(found) > 5
    assert {fork.verdict for fork in found} == {"bug"}


def test_a_stale_cache_is_a_bug_on_a_noisy_model_too():
    class Both(NoisyToy, StaleToy):
        pass

    found = forks(lambda seed: Both(16, seed=seed, order=2, noise=0.01), Sampling(), range(30))
    assert sum(fork.verdict == "bug" for fork in found) > 0.8 * len(found) > 10


def test_passes_that_misread_are_no_noise():
    fork = explain(MisreadingToy(16, seed=3, order=2, spread=12.0), PROMPT, [4], [5])
    assert fork.noise > ties.LOUD
    assert fork.verdict == "bug"


def test_a_plain_text_that_the_model_would_not_write_is_a_bug():
    noisy = NoisyToy(8, order=1, logits=close_call, noise=0.02)
    assert explain(noisy, [1], [5], [6]).verdict == "bug", "both are far behind token 2"


def test_a_token_at_a_filters_edge_is_a_near_tie():
    """Three tokens that hardly differ, of which top-k keeps two: which two depends on the pass."""
    sampling = Sampling(temperature=1.0, top_k=2)
    row = np.array([2.0, 1.999, 1.998, -5, -5, -5, -5, -5])

    def verdicts(noise):
        target = NoisyToy(8, order=1, logits=lambda state: row, noise=noise)
        found = [explain(target, [0], [a], [2], sampling=sampling, seed=s) for a, s in wins]
        return [(fork.verdict, fork.gap) for fork in found]

    judge = ties._Judge
    history = ties.History([0], 1)
    wins = [(judge(sampling, s, history).draw(row), s) for s in range(200)]
    unfiltered = Sampling(temperature=1.0)
    wins = [(a, s) for a, s in wins if judge(unfiltered, s, history).draw(row) == 2]
    assert len(wins) > 20, "seeds under which the dropped token would have won"
    assert set(verdicts(0.05)) == {("near-tie", np.inf)}
    assert set(verdicts(0.0)) == {("bug", np.inf)}


def test_scores_order_tokens_as_the_draw_does():
    rng = np.random.default_rng(0)
    for seed in range(50):
        row = rng.normal(0, 2, 30).astype(np.float32)
        judge = ties._Judge(WARM, seed, ties.History(list(range(seed)), seed))
        margins = [judge._margin(row, judge.draw(row), token) for token in range(30)]
        assert min(margins) == 0
        assert sorted(margins)[1] > 0


def test_mutant_draws_of_another_seed_find_bugs_where_there_are_none(monkeypatch):
    monkeypatch.setattr(ties, "Keyed", lambda seed: Keyed(seed + 1))
    found = forks(lambda seed: NoisyToy(16, seed=seed, order=2, noise=0.1), WARM)
    assert "bug" in {fork.verdict for fork in found}


def test_mutant_readings_of_one_row_find_bugs_where_there_are_none(monkeypatch):
    monkeypatch.setattr(ties, "_probes", lambda widths: [(1, 0, lambda: 1)])
    found = forks(lambda seed: NoisyToy(16, seed=seed, order=2, noise=0.1), Sampling())
    assert {fork.verdict for fork in found} == {"bug"}


@pytest.mark.parametrize(("plain", "other", "ended"), [([4, 5], [4], "other"), ([], [4], "plain")])
def test_a_text_that_ends_early_is_a_bug_unless_it_was_cut(plain, other, ended):
    fork = explain(ToyBackend(), PROMPT, plain, other)
    assert (fork.position, fork.verdict) == (min(len(plain), len(other)), "bug")
    assert f"the {ended} text ends" in fork.sentence
    assert explain(ToyBackend(), PROMPT, plain, other, cut=True) is None


def test_sampled_texts_need_their_seed():
    with pytest.raises(OptionError, match="by chance"):
        explain(ToyBackend(), PROMPT, [1], [2], sampling=WARM)


class Unforgetting(ToyBackend):
    """A model whose caches cannot be rewound, and which is asked for every row once."""

    def open(self):
        cache = super().open()
        cache.rewind = None
        return cache


def test_the_text_is_read_as_plain_decoding_does_and_in_mixed_widths_and_nothing_is_rewound():
    target = Unforgetting(16)
    explain(target, PROMPT, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7], widths=(4, 3), prefill=5)
    passes = [rows for (rows,) in target.passes]
    assert passes[:8] == [5, 2, 1, 1, 1, 1, 1, 1], "the prompt but for its last token, then one by one"
    rest = passes[8:]
    starts = [i for i in range(len(rest)) if rest[i : i + 2] in ([5, 2], [5, 1]) or rest[i] == 5]
    assert len(starts) == ties.PROBES
    readings = [rest[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert {reading[-1] for reading in readings} == {3, 4}
    assert {width for reading in readings for width in reading[2:-1]} == {1, 2, 3, 4}
    assert len({tuple(reading) for reading in readings}) > 10


def test_rows_stand_at_every_place_of_a_pass():
    places = {(width, place) for width, place, _ in ties._probes((2, 3))}
    assert places == {(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)}


def test_short_texts_are_read_in_passes_as_wide_as_there_is_room():
    target = Unforgetting(16, context=4)
    fork = explain(target, [0], [1, 2, 3], [1, 2, 4], widths=[8])
    assert fork.position == 2
    assert max(rows for (rows,) in target.passes) == 4
