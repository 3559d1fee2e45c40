"""Guess on as long as the drafter believes in all that it has said."""

from __future__ import annotations

from redline.core.pace.fixed import Fixed


class Confidence(Fixed):
    """At most `depth` guesses; a drafter that knows its probabilities stops when it doubts.

    A guess is worth its time if it is reached, and it is reached if all before it are kept: by the drafter's
    own account with the product of its top tokens' probabilities. Whether to make another guess is decided
    from the guesses that are there, so the law of each one is untouched, and no pass of the drafter is made
    for a guess that is then thrown away.

    Args:
        depth: Longest chain of guesses.
        threshold: Stop when the product is below this. What is best is near the time of a guess, and of the
            row that checks it, over the time of a token without it; drafters think too well of themselves,
            which moves it up.
        nodes: Guesses in all; as many as `depth` when left out.
    """

    def __init__(self, depth: int, threshold: float = 0.65, nodes: int | None = None) -> None:
        super().__init__(depth, nodes, threshold)
