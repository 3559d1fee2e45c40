"""The two kinds of vocabularies that models of the Llama family have, as `tokenizers` pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from redline.core.errors import ModelError, UnsupportedModel

_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
_SPACE = "▁"  # how SentencePiece writes a space


def _cut(pattern: str) -> pre_tokenizers.PreTokenizer:
    cut = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _gpt2(digits: bool) -> pre_tokenizers.PreTokenizer:
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), cut]) if digits else cut


_PRE: dict[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    **dict.fromkeys(("default", "gpt-2", "gpt2", "mpt", "olmo"), lambda: _gpt2(digits=False)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), lambda: _gpt2(digits=True)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), lambda: _cut(_QWEN)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3"), lambda: _cut(_LLAMA3)),
}
_WHOLE_WORDS = frozenset(("llama-bpe", "llama3", "llama-v3", "falcon3"))
"""Kinds that take a word of the vocabulary as it is, even where merging would not arrive at it."""


def _bytes_by_letter() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others for the letters from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _bytes_by_letter()


def byte_level_bytes(label: str) -> bytes:
    """The bytes of a byte-level token; letters outside the alphabet stand for themselves."""
    try:
        return bytes(_BYTES[letter] for letter in label)
    except KeyError:
        return label.encode("utf-8", "surrogateescape")


def sentence_piece_bytes(label: str) -> bytes:
    """The bytes of a SentencePiece token; `<0x0A>` is a single byte."""
    if re.fullmatch(r"<0x[0-9A-Fa-f]{2}>", label):
        return bytes([int(label[3:5], 16)])
    return label.replace(_SPACE, " ").encode("utf-8", "surrogateescape")


def byte_level(plain: Mapping[str, int], merges: Sequence[str], pre: str, users: Iterable[str]) -> Tokenizer:
    """Byte-level BPE.

    Args:
        plain: Label → id, without control tokens.
        merges: "left right", the earlier the more urgent.
        pre: How the text is cut into words, by llama.cpp's name for it.
        users: Labels that stand for themselves wherever their text occurs.

    Raises:
        ModelError: `pre` is not known, or a merge names no token.
    """
    if pre not in _PRE:
        raise UnsupportedModel(
            f"The model's tokenizer cuts words by the rule {pre!r}, which redline does not know.",
            "Open the model's Hugging Face folder, which describes the rule, instead of the GGUF file.",
        )
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    try:
        core = Tokenizer(models.BPE(vocab=dict(plain), merges=pairs, ignore_merges=pre in _WHOLE_WORDS))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(
            f"The model's vocabulary is broken: {error}.", "Download or convert it again."
        ) from None
    core.pre_tokenizer = _PRE[pre]()
    core.add_tokens([AddedToken(text, normalized=False) for text in users])
    return core


def sentence_piece(
    plain: Mapping[str, int], scores: Sequence[float], space_first: bool, users: Iterable[str]
) -> Tokenizer:
    """SentencePiece BPE: the pair that makes the token with the best score is merged first.

    Args:
        plain: Label → id, without control tokens.
        scores: Of every id.
        space_first: Put a space before the text.
        users: Labels that stand for themselves wherever their text occurs.
    """
    found = []
    for label, i in plain.items():
        for cut in range(1, len(label)):
            left, right = label[:cut], label[cut:]
            if left in plain and right in plain:
                found.append((-scores[i], -len(left), -len(right), plain[left], plain[right], left, right))
    merges = [(entry[-2], entry[-1]) for entry in sorted(found)]
    core = Tokenizer(models.BPE(vocab=dict(plain), merges=merges, byte_fallback=True, fuse_unk=True))
    steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", _SPACE)]
    if space_first:
        steps.insert(0, normalizers.Prepend(_SPACE))
    core.normalizer = normalizers.Sequence(steps)
    core.add_tokens([AddedToken(text, normalized=False) for text in users])
    return core
