"""Several drafters as one: the first with something to say, the most promising, or all of them in a tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import unknown
from redline.core.ports import Drafter, Scene
from redline.core.types import Draft, Verdict
from redline.drafters.guard import Guard
from redline.drafters.merge import likeliest, merge
from redline.drafters.trust import Calibration

SURE = 0.6
"""A model is asked where free guesses are, on the average, less probable than this to be kept: one that is
refused costs a row, and the model, where it disagrees with a look-up, is nearly always right."""

BROUGHT = 2.0
"""Kept tokens that a model is believed to bring before it has been asked, and how much a new draft counts."""
NEWS = 0.2


@dataclass(slots=True)
class Text:
    """What has been learned of the members in one text.

    Attributes:
        draft: The last one.
        asked: Whose model made it, if any did.
        brought: Kept tokens a draft, by the models that were asked.
        calibration: What a drafter's trust has been worth.
    """

    draft: Draft = field(default_factory=Draft.empty)
    asked: int | None = None
    brought: dict[int, float] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)


class Compose:
    """Asks several drafters.

    * `first`: the first one, in the order given, that has a guess.
    * `best`: the draft with the most tokens to be expected to stay. Drafters that draw nothing are always
      asked; one that draws, which takes a model, where they promise less than its guesses have brought, or
      too little for their number. What is expected is each drafter's trust in its guesses, corrected by how
      often such ones were kept.
    * `merge`: all of them, in one tree of the most probable nodes; `best` where trees cannot be checked.

    Whether a model is asked, and how many guesses it may make, is decided before it draws, and what it drew
    is never thrown away: to choose among drafts by what was drawn would change the law of the guesses, and
    with it that of the text under rules that read q. A member that fails is asked no more in that text; the
    others go on.

    Args:
        drafters: Two or more; they close with this one.
        how: One of `WAYS`.

    Raises:
        UnknownName: There is no such way.
    """

    def __init__(self, drafters: Sequence[Drafter], how: str = "best") -> None:
        if how not in WAYS:
            raise unknown("way to compose", how, WAYS)
        self.name = "+".join(drafter.name for drafter in drafters)
        self.confident = any(drafter.confident for drafter in drafters)
        self.draws = any(drafter.draws for drafter in drafters)
        self.drafters = tuple(drafters)
        self.spent: dict[str, float] = {}
        self._how = WAYS[how]
        self._members = [Guard(drafter) for drafter in drafters]
        self._free = [i for i, drafter in enumerate(drafters) if not drafter.draws]
        self._paid = [i for i, drafter in enumerate(drafters) if drafter.draws]
        self._texts: dict[int, Text] = {}

    def start(self, key: int, tokens: Sequence[int]) -> None:
        self._texts[key] = Text()
        for member in self._members:
            member.start(key, tokens)

    def read(self, key: int, tokens: Sequence[int]) -> None:
        for member in self._members:
            member.read(key, tokens)

    def propose(self, scenes: Sequence[Scene]) -> list[Draft]:
        self.spent = {}
        drafts = self._how(self, scenes)
        for scene in scenes:
            self._texts[scene.key].draft = drafts[scene.key]
        return [drafts[scene.key] for scene in scenes]

    def observe(self, key: int, emitted: Sequence[int], verdict: Verdict) -> None:
        text = self._texts[key]
        text.calibration.learn(text.draft, verdict, len(emitted))
        if text.asked is not None and len(text.draft):
            before = text.brought.get(text.asked, BROUGHT)
            text.brought[text.asked] = before + NEWS * (len(verdict.accepted) - before)
        text.draft, text.asked = Draft.empty(), None
        for member in self._members:
            member.observe(key, emitted, verdict)

    def watch(self, key: int, tokens: Sequence[int], rows: Sequence[NDArray[np.float32]]) -> None:
        for member in self._members:
            member.watch(key, tokens, rows)

    def fault(self, key: int) -> str:
        """Which member failed in a text, and how."""
        faults = zip(self.drafters, self._members, strict=True)
        return "; ".join(
            f"{drafter.name}: {fault}" for drafter, member in faults if (fault := member.fault(key))
        )

    def stop(self, key: int) -> None:
        self._texts.pop(key, None)
        for member in self._members:
            member.stop(key)

    def close(self) -> None:
        with ExitStack() as all_of_them:  # one that fails keeps no other open
            for drafter in self.drafters:
                all_of_them.callback(drafter.close)

    def _first(self, scenes: Sequence[Scene]) -> dict[int, Draft]:
        drafts = {scene.key: Draft.empty() for scene in scenes}
        for i in range(len(self._members)):
            drafts |= self._ask(i, [scene for scene in scenes if not len(drafts[scene.key])])
        return drafts

    def _best(self, scenes: Sequence[Scene]) -> dict[int, Draft]:
        drafts = {scene.key: Draft.empty() for scene in scenes}
        worth = dict.fromkeys(drafts, 0.0)
        for i in self._free:
            for key, draft in self._ask(i, scenes).items():
                if (promised := sum(self._texts[key].calibration.survival(draft))) > worth[key]:
                    drafts[key], worth[key] = draft, promised
        for i in self._paid:
            bars = {key: self._texts[key].brought.get(i, BROUGHT) for key in drafts}
            wanting = [s for s in scenes if worth[s.key] < max(bars[s.key], SURE * len(drafts[s.key]))]
            for key, draft in self._ask(i, wanting).items():
                if len(draft):
                    drafts[key], worth[key] = draft, math.inf
        return drafts

    def _merge(self, scenes: Sequence[Scene]) -> dict[int, Draft]:
        chains = [scene for scene in scenes if not scene.trees]
        scenes = [scene for scene in scenes if scene.trees]
        drawn = {scene.key for scene in scenes if scene.needs_q and scene.sampling.temperature > 0}
        parts = bool(self._free) + len(self._paid)
        shared = [_share(scene, parts) if scene.key in drawn else scene for scene in scenes]
        free = [self._ask(i, scenes) for i in self._free]
        paid = [self._ask(i, shared) for i in self._paid]
        drafts = self._best(chains) if chains else {}
        for scene, share in zip(scenes, shared, strict=True):
            calibration, nodes = self._texts[scene.key].calibration, scene.budget.nodes
            certain, model = (
                [each[scene.key] for each in many if scene.key in each] for many in (free, paid)
            )
            if scene.key in drawn:  # what may be left out does not hang on what was drawn
                room = nodes - len(self._paid) * share.budget.nodes
                drafts[scene.key] = merge([likeliest(merge(certain), room, calibration)], model)
            else:
                drafts[scene.key] = likeliest(merge([*certain, *model]), nodes, calibration)
        return drafts

    def _ask(self, i: int, scenes: Sequence[Scene]) -> dict[int, Draft]:
        """A member's drafts for those texts in which it has not failed."""
        member = self._members[i]
        scenes = [scene for scene in scenes if scene.budget.depth and member.is_asked(scene.key)]
        if not scenes:
            return {}
        drafts = member.propose(scenes)
        for name, seconds in member.spent.items():
            self.spent[name] = self.spent.get(name, 0.0) + seconds * len(scenes)
        if i in self._paid:
            for scene in scenes:
                self._texts[scene.key].asked = i
        return drafts


def _share(scene: Scene, parts: int) -> Scene:
    """The same with an even part of the nodes, for guesses that all stay, whatever they are."""
    nodes = scene.budget.nodes // parts
    return replace(scene, budget=replace(scene.budget, nodes=nodes, depth=min(scene.budget.depth, nodes)))


WAYS: Mapping[str, Callable[[Compose, Sequence[Scene]], dict[int, Draft]]] = {
    "best": Compose._best,
    "first": Compose._first,
    "merge": Compose._merge,
}
"""How several drafters can be one."""
