"""What speculation can gain, in closed form, when every guess is kept independently with probability a.

Costs are in units of one plain target pass: `draft_cost` for one guess, `verify_cost(n)` for a pass over
n rows, with verify_cost(1) = 1. Leviathan et al., arXiv 2211.17192, have verify_cost ≡ 1; real machines do
not.
"""

from __future__ import annotations

from collections.abc import Callable

VerifyCost = Callable[[int], float]


def free(_rows: int) -> float:
    """The verify cost of the papers: a pass over any number of rows costs the same."""
    return 1.0


def expected_tokens(acceptance: float, depth: int) -> float:
    """Tokens a step emits: (1 − a^(g+1)) / (1 − a), the kept guesses and the target's own.

    Args:
        acceptance: a, from 0 to 1.
        depth: g, the number of guesses.

    Raises:
        ValueError: An argument is out of range.
    """
    if not 0 <= acceptance <= 1 or depth < 0:
        raise ValueError(
            f"acceptance must lie in [0, 1] and depth be 0 or more, not {acceptance} and {depth}"
        )
    if acceptance == 1:
        return depth + 1.0
    return (1 - acceptance ** (depth + 1)) / (1 - acceptance)


def speedup(acceptance: float, depth: int, draft_cost: float = 0.0, verify_cost: VerifyCost = free) -> float:
    """Seconds per token of plain decoding over those of speculative decoding; above 1 is faster.

    Raises:
        ValueError: An argument is out of range, or a step would cost nothing.
    """
    cost = draft_cost * depth + verify_cost(depth + 1)
    if draft_cost < 0 or cost <= 0:
        raise ValueError(f"a step of {depth} guesses cannot cost {cost} target passes")
    return expected_tokens(acceptance, depth) / cost


def break_even(depth: int, draft_cost: float = 0.0, verify_cost: VerifyCost = free) -> float | None:
    """The acceptance above which `depth` guesses a step beat plain decoding; None where none does.

    Found by bisection to 1e-12: the speed-up grows with the acceptance.
    """
    if speedup(1.0, depth, draft_cost, verify_cost) < 1:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if speedup(middle, depth, draft_cost, verify_cost) < 1:
            low = middle
        else:
            high = middle
    return high


def best_depth(
    acceptance: float, draft_cost: float = 0.0, verify_cost: VerifyCost = free, longest: int = 64
) -> int:
    """The number of guesses with the largest speed-up, 0 (plain decoding) included; the shortest on a tie.

    Every depth up to `longest` is tried, because real verify costs are staircases.
    """
    return max(range(longest + 1), key=lambda g: (speedup(acceptance, g, draft_cost, verify_cost), -g))
