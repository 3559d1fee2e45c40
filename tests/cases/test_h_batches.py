"""Texts of one batch do not notice each other."""

import itertools

from setups import Counting, follow, tiny

from redline.core.pace import Fixed
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.drafters import Replay
from redline.engine import Engine, generate_many

PROMPTS = [[1], [2, 3], [4, 5, 6], [7, 8, 9, 10]]
DEPTH = 5


def test_37_rows_accept_different_counts():
    """Batches in which every row keeps another number of guesses, or one ends early.

    transformers #32165, #29769; TGI #1411; vllm-fork PR #1780; arXiv 2510.22876
    """
    plain = [generate_many(Engine(tiny()), [p], limits=Limits(30))[0].tokens for p in PROMPTS]
    texts = [[*prompt, *tokens] for prompt, tokens in zip(PROMPTS, plain, strict=True)]
    plans = {len(text): plan for text, plan in zip(PROMPTS, [(0, 5), (2, 3), (5, 0), (0, 0)], strict=True)}
    for order in itertools.permutations(range(4)):
        oracles = [Replay([texts[i]], 12, script=lambda at, i=i: plans[len(PROMPTS[i])]) for i in range(4)]

        class Each(Replay):
            def propose(self, scenes, oracles=oracles):
                return [oracles[scene.history.prompt - 1].propose([scene])[0] for scene in scenes]

        engine = Engine(tiny(), Each([], 12), pace=lambda: Fixed(DEPTH))
        keys = {i: engine.submit(PROMPTS[i], limits=Limits(7 if i == 1 else 30)) for i in order}
        written = {key: [] for key in keys.values()}
        for step in follow(engine, list(keys.values())):
            written[step.key] += step.emitted
        for i, key in keys.items():
            assert tuple(written[key]) == plain[i][: 7 if i == 1 else 30]


def test_39_several_texts_of_one_prompt_are_independent():
    """Three copies instead of three samples. (No public report found.)"""
    target = Counting(12, seed=5)
    engine = Engine(target, Replay([], 12))
    results = generate_many(engine, [[1, 2]] * 3, Sampling(temperature=1.0), Limits(20))
    assert len({result.tokens for result in results}) == 3
    assert len(target.caches) == 3
