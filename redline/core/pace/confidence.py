"""Guess on as long as the drafter believes in what it says."""

from __future__ import annotations

from redline.core.pace.fixed import Fixed


class Confidence(Fixed):
    """At most `depth` guesses; a drafter that knows its probabilities stops below `threshold`.

    The guess that falls below the threshold is dropped before it is drawn into the draft, from the
    probability of the drafter's top token alone, so the law of the kept guesses is untouched.

    Args:
        depth: Longest chain of guesses.
        threshold: Stop where the drafter's top token is less probable than this.
    """

    def __init__(self, depth: int, threshold: float = 0.4) -> None:
        super().__init__(depth, confidence=threshold)
