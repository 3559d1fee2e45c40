"""Where a grammar has nothing to say: any token may come."""

from __future__ import annotations

from collections.abc import Sequence


class Free:
    """Any text at all. Implements `ports.Constraint`."""

    def allowed(self) -> None:
        return None

    def takes(self, tokens: Sequence[int]) -> int:
        return len(tokens)

    def forced(self) -> list[int]:
        return []

    def after(self, token: int) -> Free:
        return self


FREE = Free()
"""What follows the end of an answer, and what nobody gets to: a token that was not allowed."""
