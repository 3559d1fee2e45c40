"""What every drafter promises, as tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from redline.core.chance import Keyed
from redline.core.dist import Dist
from redline.core.ports import Drafter, Noise, Scene
from redline.core.sampling import Sampling
from redline.core.topology import ROOT, depths, path
from redline.core.types import Budget, Draft, History, Verdict
from redline.testing.chance import outcomes


class DrafterContract:
    """What every drafter promises. Inherit, and give a fixture `drafter`.

    Attributes:
        vocab_size: Ids below this are real.
        learns: What became of its drafts changes what it does next.
    """

    vocab_size = 16
    learns = False

    def scene(
        self,
        key: int,
        tokens: Sequence[int],
        depth: int = 4,
        temperature: float = 0.0,
        nodes: int | None = None,
        trees: bool = False,
    ) -> Scene:
        budget, chance = Budget(depth, depth if nodes is None else nodes), Keyed(7).at(len(tokens))
        return Scene(
            key,
            History(tokens, len(tokens)),
            budget,
            Sampling(temperature=temperature),
            chance,
            trees,
            needs_q=False,
        )

    def text(self, n: int, seed: int = 0) -> list[int]:
        """A text with repetitions, so that every kind of drafter has something to say."""
        words = np.random.default_rng(seed).integers(0, self.vocab_size, (3, 5)).tolist()
        picks = np.random.default_rng(seed + 1).integers(0, 3, n)
        return [token for pick in picks for token in words[pick]][:n]

    def same(self, a: Draft, b: Draft) -> None:
        assert (a.tokens, a.parents) == (b.tokens, b.parents)

    def fits(self, draft: Draft, scene: Scene) -> None:
        assert len(draft) <= scene.budget.nodes
        assert max(depths(draft.parents), default=0) <= scene.budget.depth
        assert all(0 <= token < self.vocab_size for token in draft.tokens)
        assert scene.trees or draft.is_chain
        for q in draft.dists:
            assert abs(q.probs.sum() - 1) < 1e-9
            assert q.probs.min() > 0
            assert q.ids[-1] < self.vocab_size
            assert (np.diff(q.ids) > 0).all()

    def test_drafts_keep_to_their_budget(self, drafter: Drafter) -> None:
        text = self.text(40)
        drafter.start(0, text)
        for depth, more, trees in product((1, 2, 5, 9), (0, 1, 7), (False, True)):
            draft = drafter.propose([self.scene(0, text, depth, nodes=depth + more, trees=trees)])[0]
            assert len(draft) <= depth + more
            assert max(depths(draft.parents), default=0) <= depth
            assert all(0 <= token < self.vocab_size for token in draft.tokens)
            assert trees or draft.is_chain

    def test_no_guess_stands_twice(self, drafter: Drafter) -> None:
        """Where nobody reads q, a sibling that is there already could only cost time."""
        text = self.text(40)
        drafter.start(0, text)
        for temperature in (0.0, 0.7, 1.5):
            draft = drafter.propose([self.scene(0, text, 4, temperature, 12, trees=True)])[0]
            assert len(set(zip(draft.parents, draft.tokens, strict=True))) == len(draft)

    def test_asking_again_changes_nothing(self, drafter: Drafter) -> None:
        text = self.text(40)
        drafter.start(0, text)
        for temperature, trees in product((0.0, 1.0), (False, True)):
            scene = self.scene(0, text, temperature=temperature, nodes=8, trees=trees)
            self.same(drafter.propose([scene])[0], drafter.propose([scene])[0])

    def test_reading_along_changes_nothing(self, drafter: Drafter) -> None:
        text = self.text(40)
        for key in (0, 1):
            drafter.start(key, text)
        for end in (7, 20, len(text) - 1):
            drafter.read(0, text[:end])
        read, unread = drafter.propose([self.scene(0, text), self.scene(1, text)])
        self.same(read, unread)
        for key in (0, 1):
            drafter.stop(key)

    def test_guesses_were_drawn_from_what_is_said(self, drafter: Drafter) -> None:
        """The law of every guess, given those before it, is the `Dist` that it comes with."""
        text = self.text(20)
        drafter.start(0, text)

        def run(noise: Noise, nodes: int) -> tuple[tuple[int, int, bytes, bytes], ...]:
            sampling, chance = Sampling(temperature=1.0, top_k=3), noise.stream("draft", 0)
            scene = Scene(0, History(text, len(text)), Budget(2, nodes), sampling, chance, trees=nodes > 2)
            draft = drafter.propose([scene])[0]
            return tuple(
                (token, parent, q.ids.tobytes(), q.probs.tobytes())
                for token, parent, q in zip(draft.tokens, draft.parents, draft.dists, strict=True)
            )

        for nodes in (2, 5):
            law = outcomes(partial(run, nodes=nodes))
            for guesses in law:
                for i, (token, _, ids, probs) in enumerate(guesses):
                    q = Dist(np.frombuffer(ids, np.int64), np.frombuffer(probs))
                    before = sum(p for other, p in law.items() if other[:i] == guesses[:i] and len(other) > i)
                    both = sum(p for other, p in law.items() if other[: i + 1] == guesses[: i + 1])
                    assert abs(both / before - q.prob(token)) < 1e-9
        drafter.stop(0)

    def test_the_past_of_a_text_is_all_that_counts(self, drafter: Drafter) -> None:
        """A draft after any history of drafts and refusals is that of a drafter that only saw the text."""
        rng, text = np.random.default_rng(3), self.text(30)
        drafter.start(0, text)
        for round_ in range(24):
            more: dict[str, Any] = {"nodes": 12, "trees": True} if round_ % 4 else {}
            draft = drafter.propose([self.scene(0, text, 4, **more)])[0]
            drafter.start(1, text)
            other = drafter.propose([self.scene(1, text, 4, **more)])[0]
            drafter.stop(1)
            if self.learns:
                self.fits(draft, self.scene(0, text, 4, **more))
            else:
                self.same(other, draft)
            # Any guess is the last one kept, or none, or every third round the one at the end of the draft.
            last = len(draft) - 1 if round_ % 3 == 0 else int(rng.integers(ROOT, len(draft)))
            own = int(rng.integers(0, self.vocab_size))
            emitted = [*draft.path(last), own]
            text = [*text, *emitted]
            drafter.observe(0, emitted, Verdict(tuple(path(draft.parents, last)), own))
        drafter.stop(0)

    def test_batch_mates_do_not_matter(self, drafter: Drafter) -> None:
        texts = {key: self.text(20 + key, seed=key) for key in range(4)}
        scenes = {
            key: self.scene(key, text, 3 + key % 2, nodes=4 + 3 * key, trees=key > 1)
            for key, text in texts.items()
        }
        alone = {}
        for key, text in texts.items():
            drafter.start(key, text)
            alone[key] = drafter.propose([scenes[key]])[0]
            drafter.stop(key)
        for key, text in texts.items():
            drafter.start(key, text)
        together = drafter.propose(list(scenes.values()))
        for key, draft in zip(texts, together, strict=True):
            self.same(draft, alone[key])
            drafter.stop(key)

    def test_empty_and_tiny_texts_are_texts(self, drafter: Drafter) -> None:
        for tokens in ([0], [3, 3], [self.vocab_size - 1] * 7):
            drafter.start(0, tokens)
            drafter.read(0, tokens[:-1])
            for trees in (False, True):
                scene = self.scene(0, tokens, 3, nodes=6, trees=trees)
                self.fits(drafter.propose([scene])[0], scene)
            drafter.observe(0, [1], Verdict((), 1))
            drafter.stop(0)

    def test_only_who_says_so_draws(self, drafter: Drafter) -> None:
        text = self.text(40)
        drafter.start(0, text)
        draft = drafter.propose([self.scene(0, text, temperature=1.0)])[0]
        assert drafter.draws or all(len(q.ids) == 1 for q in draft.dists)
        drafter.stop(0)

    def test_any_order_of_calls_is_survived(self, drafter: Drafter) -> None:
        """Texts begin, grow, are guessed for and end in each other's midst; some are never asked for."""
        rng = np.random.default_rng(5)
        texts: dict[int, list[int]] = {}
        for turn in range(60):
            key = int(rng.integers(0, 4))
            if key not in texts:
                texts[key] = self.text(int(rng.integers(1, 20)), seed=turn)
                drafter.start(key, texts[key])
            elif rng.random() < 0.15:
                drafter.stop(key)
                del texts[key]
            elif rng.random() < 0.3:
                emitted = rng.integers(0, self.vocab_size, 2).tolist()
                texts[key] = [*texts[key], *emitted]
                drafter.observe(key, emitted, Verdict((), emitted[-1]))
            else:
                scenes = [self.scene(k, text, 3, nodes=5, trees=bool(turn % 2)) for k, text in texts.items()]
                for draft, scene in zip(drafter.propose(scenes), scenes, strict=True):
                    self.fits(draft, scene)
        for key in texts:
            drafter.stop(key)

    def test_stopping_twice_or_unknown_is_fine(self, drafter: Drafter) -> None:
        drafter.start(0, self.text(5))
        for key in (0, 0, 12345):
            drafter.stop(key)
