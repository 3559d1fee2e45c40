"""The automaton knows what a search through the whole text would find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.drafters import automaton
from redline.drafters.automaton import HOPS, ROOT, SEPARATOR, Automaton

TEXTS = st.lists(st.integers(0, 2), max_size=HOPS)


def built(text):
    made = Automaton()
    for token in text:
        made.append(token)
    return made


def places(run, text):
    """Where a run ends in a text."""
    return [at + len(run) - 1 for at in range(len(text) - len(run) + 1) if text[at : at + len(run)] == run]


@given(TEXTS)
def test_the_ends_of_a_text_that_stood_in_it_before(text):
    made = built(text)
    found = list(made.runs(*made.shorter(made.last))) if text else []
    before = [n for n in range(len(text) - 1, 0, -1) if len(places(text[-n:], text)) > 1]
    assert [length for _, length in found] == sorted({length for _, length in found}, reverse=True)
    assert (found[0][1] if found else 0) == max(before, default=0)
    for state, length in found:
        ends = places(text[-length:], text)[:-1]
        assert made.end(state) == ends[-1]
        assert made._count[state] == len(ends)


@given(TEXTS)
def test_what_most_often_followed(text):
    made = built(text)
    for state, length in made.runs(*made.shorter(made.last)) if text else []:
        run = text[-length:]
        followed = [text[end + 1] for end in places(run, text)[:-1]]
        token, to, share = made.goes_on(state)
        assert to == made.follow(state, token)
        assert 0 < share <= 1
        if len(set(followed)) == 1:
            assert (token, share) == (followed[0], 1.0)
        else:
            assert token in followed
            assert share < 1


@given(TEXTS, TEXTS)
def test_a_reader_of_another_text_has_the_longest_run_of_its_own_that_is_in_it(text, other):
    made = built(text)
    state, length = ROOT, 0
    for n, token in enumerate(other, 1):
        state, length = made.advance(state, length, token)
        here = other[:n]
        assert length == max(k for k in range(n + 1) if k == 0 or places(here[-k:], text))
        assert state == ROOT or made._length[made._link[state]] < length <= made._length[state]


@given(TEXTS, TEXTS, TEXTS)
def test_a_reader_keeps_its_place_in_an_automaton_that_grows(text, more, other):
    made, state, length = built(text), ROOT, 0
    for i, token in enumerate(other):
        state, length = made.advance(state, length, token)
        for extra in more[i : i + 1]:
            made.append(extra)
    grown = [*text, *more[: len(other)]]
    assert not length or places(other[-length:], grown)
    place = made.place(state, length)
    assert place == ROOT or made._length[made._link[place]] < length <= made._length[place]


def test_no_run_goes_across_a_separator():
    made = built([1, 2, SEPARATOR, 3, 4])
    state, length = made.advance(*made.advance(ROOT, 0, 1), 2)
    assert length == 2
    assert made.goes_on(state) is None
    assert made.advance(state, length, 3)[1] == 1


def test_a_run_with_too_many_continuations_says_nothing(monkeypatch):
    monkeypatch.setattr(automaton, "SCAN", 3)
    made = built([0, 1, 0, 2, 0, 3, 0, 4, 0])
    assert made.goes_on(made.shorter(made.last)[0]) is None


@settings(deadline=None)
@given(st.integers(1, 3))
def test_time_and_memory_do_not_grow_with_what_is_there(words):
    """Counted, not timed: states, and steps along links."""
    rng = np.random.default_rng(words)
    made = built(rng.integers(0, words, 3000).tolist())
    assert len(made._link) <= 2 * 3000
    assert made.nbytes <= 300 * 3000
    assert made.nbytes >= 24 * len(made._link)


@pytest.mark.parametrize("n", [1, 50, 400])
def test_one_token_repeated_is_a_period_and_costs_what_others_cost(n):
    made = built([7] * n)
    assert len(made._link) == n + 1
    assert made._count[made.shorter(made.last)[0]] <= n
