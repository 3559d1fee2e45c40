"""Every number by hand."""

from dataclasses import replace

import pytest

from redline.core.metrics import DEFINITIONS, PARTS, fold
from redline.core.types import Step


def step(accepted, proposed, **options):
    """A step of a chain."""
    return Step(
        key=0,
        position=0,
        emitted=(*range(accepted), 999),  # 999: the target's own
        proposed=tuple(range(proposed)),
        parents=tuple(range(-1, proposed - 1)),
        path=tuple(range(accepted)),
        **options,
    )


@pytest.mark.parametrize("j", range(5))
def test_acceptance_is_j_of_four_exactly(j):
    metrics = fold([step(j, 4)] * 7)
    assert metrics.acceptance == j / 4
    assert metrics.tokens_per_step == j + 1
    assert metrics.acceptance_at == (1.0,) * j + ((0.0,) if j < 4 else ())


def test_kept_guesses_and_passes_add_up_to_the_tokens():
    steps = [step(j, 4) for j in (0, 4, 2, 1)] + [step(0, 0)]
    metrics = fold(steps)
    assert metrics.accepted + metrics.steps == metrics.tokens == 12


def test_totals_are_pooled_and_rates_are_never_averaged():
    metrics = fold([step(1, 1, target_s=1.0), step(0, 9, target_s=3.0)])
    assert metrics.acceptance == 0.1
    assert metrics.tokens_per_s == 3 / 4
    assert fold([step(1, 1)]).acceptance == 1.0


def test_plain_decoding_has_one_token_a_step_and_no_acceptance():
    metrics = fold([step(0, 0, target_s=0.5)] * 3)
    assert (metrics.tokens_per_step, metrics.acceptance, metrics.acceptance_at) == (1.0, None, ())
    assert metrics.tokens_per_s == 2.0


def test_nothing_at_all_is_zeros_and_no_exception():
    metrics = fold([])
    assert metrics.to_json() == {
        "tokens": 0,
        "steps": 0,
        "tokens_per_step": 0.0,
        "proposed": 0,
        "accepted": 0,
        "acceptance": None,
        "acceptance_at": (),
        "seconds": 0.0,
        "tokens_per_s": 0.0,
        "sources": {},
        "share": dict.fromkeys(PARTS, 0.0),
        "prefill_tokens": 0,
        "prefill_s": 0.0,
    }


def test_guesses_count_for_whoever_made_them():
    chain = {"emitted": (1, 2, 3), "proposed": (1, 2, 9), "parents": (-1, 0, 1), "path": (0, 1)}
    steps = [
        Step(0, 0, **chain, sources=("a", "a", "b"), spent={"a": 1.0, "b": 2.0, "idle": 0.5}),
        Step(0, 3, **chain, sources=("b", "b", "b"), spent={"a": 1.0}, finish="stop"),
        Step(
            0, 6, emitted=(1,), proposed=(1, 2), parents=(-1, 0), path=(0,), sources=("a", "b"), finish="stop"
        ),
    ]
    metrics = fold(steps)
    sources = metrics.to_json()["sources"]
    assert sources["a"] == {"proposed": 3, "accepted": 3, "seconds": 2.0, "acceptance": 1.0}
    assert sources["b"] == {"proposed": 4, "accepted": 2, "seconds": 2.0, "acceptance": 0.5}
    assert sources["idle"] == {"proposed": 0, "accepted": 0, "seconds": 0.5, "acceptance": None}
    assert sum(each["proposed"] for each in sources.values()) == metrics.proposed
    assert sum(each["accepted"] for each in sources.values()) == metrics.accepted


def test_shares_sum_to_one():
    seconds = {"draft_s": 0.1, "target_s": 0.4, "verify_s": 0.2, "rewind_s": 0.05, "other_s": 0.25}
    metrics = fold([step(1, 2, **seconds), step(0, 2, **seconds)])
    assert sum(metrics.share.values()) == pytest.approx(1, abs=1e-12)
    assert metrics.share["target"] == pytest.approx(0.4)
    assert metrics.seconds == pytest.approx(2.0)


def test_acceptance_at_a_depth_is_given_that_the_depth_before_was_kept():
    metrics = fold([step(0, 3), step(1, 3), step(1, 1), step(3, 3), step(0, 0)])
    assert metrics.acceptance_at == (3 / 4, 1 / 2, 1.0)


def test_a_tree_counts_every_guess_and_its_kept_path():
    tree = replace(step(2, 0), proposed=(5, 0, 1, 7), parents=(-1, -1, 1, 1), path=(1, 2))
    metrics = fold([tree])
    assert (metrics.proposed, metrics.accepted, metrics.acceptance) == (4, 2, 0.5)
    assert metrics.acceptance_at == (1.0, 1.0)


def test_reading_the_prompt_is_counted_by_itself():
    prompt = Step(key=0, position=0, prefilled=100, target_s=2.0, other_s=1.0)
    metrics = fold([prompt, step(0, 0, target_s=0.5)])
    assert (metrics.prefill_tokens, metrics.prefill_s) == (100, 3.0)
    assert (metrics.steps, metrics.seconds) == (1, 0.5)


def test_every_number_has_a_definition_and_a_value():
    values = fold([step(1, 2)]).to_json()
    assert list(values) == list(DEFINITIONS)
    assert all(DEFINITIONS.values())


def test_a_step_knows_its_depth_and_its_seconds():
    assert step(0, 0).depth == 0
    assert step(1, 3).depth == 3
    assert replace(step(0, 0), proposed=(1, 2, 3), parents=(-1, -1, 0)).depth == 2
    assert step(0, 0, draft_s=1, target_s=2, verify_s=3, rewind_s=4, other_s=5).seconds == 15


def test_a_shallow_leaf_is_not_a_refusal():
    """The kept branch of a tree ended before its longest one did."""
    tree = Step(0, 0, emitted=(5, 9), proposed=(5, 6, 7), parents=(-1, -1, 1), path=(0,))
    assert (tree.depth, tree.refused) == (2, None)
    assert fold([tree]).acceptance_at == (1.0,)


def test_the_refused_guess_is_the_first_that_the_target_did_not_write():
    assert step(2, 4).refused == 2
    assert step(4, 4).refused is None
    assert step(0, 0).refused is None
    tree = Step(0, 0, emitted=(5, 9), proposed=(5, 6, 7, 8), parents=(-1, -1, 0, 0), path=(0,))
    assert tree.refused == 7
