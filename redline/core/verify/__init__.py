"""The rules that decide which guesses stay. `RULES` has them all by name."""

from redline.core.errors import unknown
from redline.core.ports import Rule
from redline.core.verify.block import Block
from redline.core.verify.greedy import Greedy
from redline.core.verify.matching import Matching
from redline.core.verify.rejection import Rejection
from redline.core.verify.textbook import speculative_verify
from redline.core.verify.tree import Tree
from redline.core.verify.typical import Typical

RULES: dict[str, Rule] = {
    rule.name: rule for rule in (Greedy(), Matching(), Rejection(), Tree(), Block(), Typical())
}


def find_rule(name: str) -> Rule:
    """The rule of that name.

    Raises:
        UnknownName: No rule is called so.
    """
    if name not in RULES:
        raise unknown("rule", name, RULES)
    return RULES[name]


__all__ = [
    "RULES",
    "Block",
    "Greedy",
    "Matching",
    "Rejection",
    "Tree",
    "Typical",
    "find_rule",
    "speculative_verify",
]
