"""A tokenizer as llguidance wants it, made from redline's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from redline.core.errors import NotInstalled, OptionError, RedlineError
from redline.core.ports import Tokenizer

if TYPE_CHECKING:
    import llguidance


class Words:
    """What `llguidance.LLTokenizer` reads; it calls this for the tokens of a text that must come.

    Control tokens are no text, so a grammar never meets them; those that end an answer end the grammar too.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        ends = tokenizer.ends
        self.tokens = [b"" if i in ends else tokenizer.piece(i) for i in range(tokenizer.size)]
        self._ids = {piece: i for i, piece in reversed([*enumerate(self.tokens)]) if piece}
        self._longest = max(map(len, self._ids), default=0)
        for end in ends:
            self.tokens[end] = b"<end %d>" % end
        self.eos_token_id = min(ends)
        self.special_token_ids = sorted(ends)

    def __call__(self, text: bytes | str) -> list[int]:
        """The tokens that a text would usually have: the model's own where they spell it byte by byte."""
        data = text if isinstance(text, bytes) else text.encode()
        try:
            tokens = self._tokenizer.encode(data.decode())
        except (RedlineError, UnicodeDecodeError):
            return self._longest_first(data)
        while tokens and not self._tokenizer.piece(tokens[0]):  # what every prompt opens with
            del tokens[0]
        pieces = b"".join(self._tokenizer.piece(token) for token in tokens)
        return tokens if pieces == data else self._longest_first(data)

    def _longest_first(self, data: bytes) -> list[int]:
        tokens: list[int] = []
        while data:
            sizes = range(min(self._longest, len(data)), 0, -1)
            fit = next((self._ids[data[:size]] for size in sizes if data[:size] in self._ids), None)
            if fit is None:
                raise ValueError(f"no token of this model has the byte {data[0]:#04x} of its text")
            tokens.append(fit)
            data = data[len(self.tokens[fit]) :]
        return tokens


@lru_cache(maxsize=2)
def vocabulary(tokenizer: Tokenizer) -> llguidance.LLTokenizer:
    """The tokenizer for llguidance, remembered: 0.1 s for 49,152 tokens and 0.3 s for 151,936.

    Raises:
        NotInstalled: There is no llguidance.
        OptionError: The tokenizer has no end token.
    """
    try:
        import llguidance
    except ImportError as error:
        raise NotInstalled(
            "Schemas and regular expressions need llguidance, which is not installed.",
            "pip install 'redline[grammar]'",
        ) from error
    if not tokenizer.ends:
        raise OptionError(
            "The model has no token that ends an answer, so a text that is complete could not end.",
            "Use a model that has one.",
        )
    words = Words(tokenizer)
    return llguidance.LLTokenizer(words, eos_token=words.special_token_ids)


def written(tokenizer: Tokenizer) -> Sequence[bytes]:
    """The bytes of every token."""
    return [tokenizer.piece(token) for token in range(tokenizer.size)]
