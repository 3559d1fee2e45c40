"""What a draft model has read of one text."""

from __future__ import annotations

from dataclasses import dataclass, field

from redline.core.ports import Cache
from redline.drafters.ngram import Index


@dataclass(slots=True)
class Text:
    """What the draft model has read of one text.

    Attributes:
        cache: Its cache.
        read: The tokens in it, guesses included.
        agreed: How many of them are known to be the text's.
        lost: The text has a token that the draft model does not know.
        index: Where to look up what may follow.
        copied: How many of the last ones looked up were right, twice that if all were.
    """

    cache: Cache
    read: list[int] = field(default_factory=list)
    agreed: int = 0
    lost: bool = False
    index: Index = field(default_factory=lambda: Index(2, 5))
    copied: int = 0
