"""A target that guesses for itself writes what it writes alone, in law, by every exact rule."""

import pytest
from proof import EXACT, distance
from test_whole_engine import EXACT_RULES, NO_END, SETTINGS, WARM, emitted, plain, rules

from redline.core.chance import derive, uniforms
from redline.core.pace import Confidence, Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.drafters.early_exit import EarlyExit
from redline.testing import ToyBackend, ToyTokenizer


class Leaving(ToyBackend):
    """What the toy thinks half way is something else."""

    exits = range(1, 3)

    def extend_exit(self, chunks, layers):
        states = [derive(layers, *chunk.cache.states[-1], *chunk.tokens) for chunk in chunks]
        return [3.0 * uniforms(state, self._ids)[None].astype("float32") for state in states]


def drafter():
    return EarlyExit(Leaving(3, tokenizer=ToyTokenizer.letters(3, ends=[2])), 1)


@rules(EXACT_RULES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_sampling_settings(rule, settings):
    sampling, limits, lengths = SETTINGS[settings], Limits(max_tokens=3, stop_tokens=NO_END), set()
    law = emitted(drafter(), rule, sampling, limits, Fixed(2), lengths)
    assert 2 in lengths
    assert distance(law, plain(sampling, limits)) < EXACT


@rules(EXACT_RULES)
def test_drafts_that_end_where_the_exit_doubts(rule):
    limits, lengths = Limits(max_tokens=4), set()
    two = Sampling(temperature=1, top_k=2)
    law = emitted(drafter(), rule, two, limits, Confidence(3, 0.3), lengths)
    assert len(lengths) > 1
    assert distance(law, plain(two, limits)) < EXACT
    assert distance(emitted(drafter(), rule, WARM, limits, Fixed(1)), plain(WARM, limits)) < EXACT
