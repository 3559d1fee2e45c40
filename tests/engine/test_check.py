"""What the engine refuses; every refusal names the way out."""

import numpy as np
import pytest

from redline.core.dist import Dist
from redline.core.errors import ContextError, OptionError, RedlineError
from redline.core.pace import Confidence, Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.core.types import Draft
from redline.core.verify import RULES
from redline.drafters import Ngram
from redline.engine import Engine, generate
from redline.testing import ToyBackend


class Says(Ngram):
    name = "says"

    def __init__(self, draft):
        super().__init__()
        self._draft = draft

    def propose(self, scenes):
        return [self._draft] * len(scenes)


WIDE = Draft((1, 2, 3, 4, 5, 6), (-1,) * 6, tuple(map(Dist.point, range(1, 7))), ("says",) * 6)
TREE = Draft((1, 2), (-1, -1), (Dist.point(1), Dist.point(2)), ("says",) * 2)


def says(draft, rule="matching", **options):
    engine = Engine(ToyBackend(**options), Says(draft), rule=RULES[rule], pace=lambda: Fixed(3, nodes=5))
    engine.submit([1])
    return engine.step()[0]


REFUSED = {
    "no rollback": (
        lambda: Engine(ToyBackend(rollback="none"), Ngram()),
        OptionError,
        "toy-16-0 cannot forget refused guesses",
    ),
    "prefill": (lambda: Engine(ToyBackend(), prefill=0), OptionError, "prefill is 0"),
    "keep": (lambda: Engine(ToyBackend(), keep=-1), OptionError, "keep is -1"),
    "empty prompt": (lambda: generate(Engine(ToyBackend()), []), OptionError, "The prompt is empty"),
    "empty text": (lambda: generate(Engine(ToyBackend()), ""), OptionError, "The prompt is empty"),
    "long prompt": (
        lambda: generate(Engine(ToyBackend(context=4)), [1] * 4),
        ContextError,
        "The prompt has 4 tokens, and toy-16-0 has room for 4 in all",
    ),
    "id too large": (
        lambda: generate(Engine(ToyBackend()), [1, 16]),
        OptionError,
        "The prompt names token 16, but toy-16-0 has 16 tokens",
    ),
    "id below zero": (lambda: generate(Engine(ToyBackend()), [-1]), OptionError, "The prompt names token -1"),
    "bias": (
        lambda: generate(Engine(ToyBackend()), [1], Sampling(bias={3: 1.0, 16: 1.0})),
        OptionError,
        "bias names token 16, but toy-16-0 has 16 tokens",
    ),
    "greedy and warm": (
        lambda: generate(Engine(ToyBackend(), rule=RULES["greedy"]), [1], Sampling(temperature=0.5)),
        OptionError,
        "The greedy rule cannot honour temperature 0.5",
    ),
    "no confidence": (
        lambda: generate(Engine(ToyBackend(), Ngram(), pace=lambda: Confidence(3)), [1]),
        OptionError,
        "The drafter ngram does not know how probable its guesses are",
    ),
    **{
        f"seed {seed!r}": (
            lambda seed=seed: generate(Engine(ToyBackend()), [1], seed=seed),
            OptionError,
            f"seed is {seed!r}",
        )
        for seed in (-1, 1.5, "7", True)
    },
    **{
        f"{name} {value!r}": (lambda n=name, v=value: Sampling(**{n: v}), OptionError, f"{name} is")
        for name, value in (
            ("top_k", 5.0),
            ("top_k", True),
            ("penalty_window", 1.5),
            ("temperature", float("nan")),
        )
    },
    "a drafter that is none": (lambda: Engine(ToyBackend(), object()), OptionError, "is no Drafter"),
    "a target that is none": (lambda: Engine(object()), OptionError, "is no Backend"),
    "sampling of another kind": (
        lambda: generate(Engine(ToyBackend()), [1], {"temperature": 1}),
        OptionError,
        "sampling is",
    ),
    "limits of another kind": (
        lambda: generate(Engine(ToyBackend()), [1], None, 3),
        OptionError,
        "limits is 3",
    ),
    "bytes": (lambda: generate(Engine(ToyBackend()), b"hi"), OptionError, "is not a prompt"),
    "no prompt": (lambda: generate(Engine(ToyBackend()), None), OptionError, "is not a prompt"),
    "a hot temperature": (lambda: Sampling(temperature="hot"), OptionError, "temperature is 'hot'"),
    "a bias of words": (lambda: Sampling(bias={1: "x"}), OptionError, "bias is"),
    "a bias on half a token": (lambda: Sampling(bias={1.5: 3.0}), OptionError, "bias is"),
    "a bias of pairs": (lambda: Sampling(bias=[1, 2]), OptionError, "bias is"),
    "half a guess": (lambda: Fixed(1.5), OptionError, "depth is 1.5"),
    "half a token": (lambda: Limits(2.5), OptionError, "max_tokens is 2.5"),
    "a stop of nothing": (lambda: Limits(stop=None), OptionError, "stop is None"),
    "a stop that is no text": (lambda: Limits(stop=[1]), OptionError, "stop is"),
    "a message without text": (
        lambda: generate(Engine(ToyBackend()), [{"role": "user", "content": None}]),
        OptionError,
        "is not a message",
    ),
}


@pytest.mark.parametrize(("act", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_with_a_hint(act, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        act()
    assert isinstance(raised.value, RedlineError)
    assert raised.value.message.endswith(".")
    assert raised.value.hint.endswith(".")


BROKEN = {
    "too deep": (Draft.chain([1] * 4, "says"), {}, "more than its budget"),
    "too many": (WIDE, {}, "more than its budget"),
    "unknown guess": (Draft.chain([16], "says"), {}, "it guessed 16, and token ids run from 0 to 15"),
    "negative guess": (Draft.chain([-1], "says"), {}, "guessed -1"),
    "half a guess": (Draft.chain([1.5], "says", [Dist(np.array([1.5]), np.ones(1))]), {}, "guessed 1.5"),
    "no draft": (None, {}, "it made None where a Draft was due"),
    "tree for a rule of chains": (TREE, {"rule": "rejection"}, "where rule or target take chains only"),
    "tree for a backend of chains": (TREE, {"trees": False}, "where rule or target take chains only"),
}


@pytest.mark.parametrize(("draft", "options", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_draft_that_breaks_a_promise_costs_the_drafter_its_place(draft, options, sentence, caplog):
    step = says(draft, **options)
    assert sentence in step.fault
    assert step.proposed == ()
    assert len(step.emitted) == 1
    assert "The drafter says failed and is asked no more in this text" in caplog.text


def test_what_is_allowed_at_the_edge():
    assert len(generate(Engine(ToyBackend(context=4)), [15] * 3).tokens) == 1
    assert generate(Engine(ToyBackend(context=40), prefill=1, keep=0), [0], Sampling(bias={15: -1.0})).tokens
    for draft, rule in ((Draft.chain([15, 0, 1], "says"), "block"), (TREE, "tree")):
        assert says(draft, rule).proposed == draft.tokens
    Engine(ToyBackend(rollback="none"))


def test_a_refused_text_does_not_disturb_the_others():
    engine = Engine(ToyBackend())
    key = engine.submit([1])
    for bad in ([], [99]):
        with pytest.raises(OptionError):
            engine.submit(bad)
    assert list(engine.live) == [key]
    assert engine.step()[0].emitted
