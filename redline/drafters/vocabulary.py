"""Which tokens a draft model may guess: those that mean the same to the target, and of these the usual."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

from redline.core.errors import VocabularyError
from redline.core.ports import Tokenizer
from redline.core.sampling import Sampling

COMMON = 1 << 16
"""Tokens to guess from as a rule. Tokenizers number tokens by how common they are, and where a small model
has a large vocabulary, its head is a quarter of what a guess costs (cf. FR-Spec, arXiv 2502.14856)."""

RECENT, RARE = 64, 6
"""Guesses are from all tokens where more than so many of a text's last ones are none of the common ones."""

_log = logging.getLogger("redline")


def check_vocabulary(target: Tokenizer, draft: Tokenizer) -> None:
    """Refuse a drafter whose token ids mean other texts.

    Heads padded to different widths are fine. Control tokens that differ are named in a note: a guess of
    one is wrong more often, and no text suffers from that.

    Raises:
        VocabularyError: Names the first token that differs.
    """
    special: list[str] = []
    for token in range(min(target.size, draft.size)):
        theirs, ours = target.label(token), draft.label(token)
        if theirs == ours:
            continue
        if target.piece(token) or draft.piece(token):
            raise VocabularyError(
                f"Target and drafter have different vocabularies: token {token} is {theirs!r} and {ours!r}.",
                "Draft with a model of the target's family, or with ngram.",
            )
        special.append(f"{token} is {theirs!r} and {ours!r}")
    if special:
        more = f", and {len(special) - 3} more" if len(special) > 3 else ""
        _log.warning("Target and drafter have different control tokens: %s%s.", "; ".join(special[:3]), more)


def guessable(tokens: Sequence[int], width: int) -> int:
    """How many of the first `width` tokens are guessed from in a text that has come so far."""
    rare = sum(token >= COMMON for token in tokens[-RECENT:])
    return width if rare > RARE else min(width, COMMON)


def below(vocabulary: int, sampling: Sampling) -> tuple[Sampling, bool]:
    """How to draw from so many tokens only, and whether a bias leaves any of them."""
    if not sampling.bias:
        return sampling, True
    bias = {token: b for token, b in sampling.bias.items() if token < vocabulary}
    return replace(sampling, bias=bias), list(bias.values()).count(-math.inf) < vocabulary
