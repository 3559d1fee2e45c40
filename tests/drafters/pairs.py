"""Vocabularies that differ, in all the ways in which they do."""

from redline.testing import ToyBackend, ToyTokenizer


class Named(ToyTokenizer):
    """Any pieces, and control tokens with names; like models of its kind it has an opening, and may put a
    space before a text."""

    def __init__(self, pieces, control=(), ends=(), opening=(), space_first=False):
        super().__init__([*pieces, *[b""] * len(control)], [len(pieces) + control.index(end) for end in ends])
        self._names = {len(pieces) + i: label for i, label in enumerate(control)}
        self._opening = [len(pieces) + control.index(label) for label in opening]
        self._space_first = space_first

    def encode(self, text):
        if text and self._space_first:
            text = f" {text}"
        for token, label in self._names.items():  # as raw prompts are read
            if label in text:
                before, after = text.split(label, 1)
                return [*self._opening, *super().encode(before), token, *super().encode(after)]
        return [*self._opening, *super().encode(text)]

    def label(self, token):
        return self._names.get(token) or super().label(token)


def single(letters):
    return [letter.encode() for letter in letters]


LETTERS = single("abcdefgh")
PAIRS = {
    "the same": (Named(LETTERS), Named(LETTERS)),
    "permuted": (Named(LETTERS), Named(LETTERS[::-1])),
    "longer words": (Named(LETTERS), Named([*LETTERS, b"ab", b"abc", b"fg", b"dd"])),
    "shorter words": (Named([b"ab", b"abc", *LETTERS, b"ee", b"hg"]), Named(LETTERS[::-1])),
    "other words": (Named([b"ab", *LETTERS, b"cd"]), Named([b"da", *LETTERS, b"bc", b"abcd"])),
    "some letters": (Named(LETTERS), Named([b"ab", b"c", b"b", b"de"])),
    "words twice": (Named(LETTERS), Named([b"a", b"b", b"a", b"cc", b"c", b"b", b"a"])),
    "controls": (
        Named(LETTERS, ["<s>", "</s>", "<x>", "<t>"], ["</s>", "<x>"], ["<s>"]),
        Named([b"ab", *LETTERS], ["<x>", "<end>", "<s>", "<y>"], ["<x>", "<end>"], ["<y>"], True),
    ),
}


def toy(tokenizer, seed=3, width=None, **options):
    """A model of these tokens; its rows hang on the last two."""
    options = {"order": 2, "spread": 5.0, "context": 400, **options}
    return ToyBackend(width or tokenizer.size, seed=seed, tokenizer=tokenizer, **options)


class Remembering(ToyBackend):
    """A model that keeps every text that it was asked about."""

    def __init__(self, tokenizer, seed=4, **options):
        self.asked = []
        inner = ToyBackend(tokenizer.size, seed=seed, spread=5.0)

        def row(state):
            self.asked.append(list(state))
            return inner._hashed(state[-2:])

        super().__init__(
            tokenizer.size, order=10**6, logits=row, tokenizer=tokenizer, **{"context": 400, **options}
        )


def write_all(tokenizer, tokens):
    return b"".join(map(tokenizer.piece, tokens))
