"""Tokenizers out of GGUF metadata and Hugging Face folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from redline.backends.gguf_file import GGUFFile
from redline.backends.tokenizer import kinds
from redline.backends.tokenizer.chat import Template
from redline.backends.tokenizer.text import ModelTokenizer, Vocabulary
from redline.core.errors import ModelError, UnsupportedModel

_ENDS = frozenset(
    (
        *("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>", "<|EOT|>"),
        *("<EOT>", "<end_of_turn>", "</s>", "<|endofturn|>", "<｜end▁of▁sentence｜>", "[EOS]"),
    )
)
"""Control tokens that end an answer wherever they exist, whether or not the file says so."""

_NORMAL, _CONTROL, _USER, _BYTE = 1, 3, 4, 6  # GGUF's token types; the others mean nothing in a text
_AGAIN = "Download or convert the model again."


def from_gguf(file: GGUFFile) -> ModelTokenizer:
    """The tokenizer that a GGUF file describes.

    Raises:
        ModelError: It describes none, or one of a kind that redline does not know.
    """
    meta, name = file.metadata, file.path.name

    def get(key: str, default: Any = None) -> Any:
        return meta.get(f"tokenizer.ggml.{key}", default)

    labels: list[str] = get("tokens") or []
    if not labels:
        raise ModelError(f"{name} has no vocabulary.", _AGAIN)
    types: list[int] = get("token_type") or [_NORMAL] * len(labels)
    if len(types) != len(labels):
        raise ModelError(f"{name} has {len(labels)} tokens and {len(types)} token types.", _AGAIN)
    while labels and types[len(labels) - 1] not in (_NORMAL, _CONTROL, _USER, _BYTE):
        labels = labels[:-1]  # a vocabulary padded to a round size
    plain = {label: i for i, label in enumerate(labels) if types[i] in (_NORMAL, _USER, _BYTE)}
    users = [label for i, label in enumerate(labels) if types[i] == _USER]
    if get("model") == "gpt2":
        core = kinds.byte_level(plain, get("merges", []), get("pre", "default"), users)
        to_bytes = kinds.byte_level_bytes
    elif get("model") == "llama":
        core = kinds.sentence_piece(plain, get("scores", []), get("add_space_prefix", True), users)
        to_bytes = kinds.sentence_piece_bytes
    else:
        raise UnsupportedModel(
            f"{name} has a {get('model')!r} tokenizer, which redline does not know.",
            "It knows byte-level BPE (gpt2) and SentencePiece BPE (llama).",
        )

    def piece(i: int) -> bytes:
        if types[i] == _USER:
            return labels[i].encode("utf-8", "surrogateescape")
        return to_bytes(labels[i]) if types[i] in (_NORMAL, _BYTE) else b""

    control = {label: i for i, label in enumerate(labels) if types[i] == _CONTROL}
    named = {get(f"{kind}_token_id") for kind in ("eos", "eot", "eom")} | {control.get(end) for end in _ENDS}
    bos = get("bos_token_id")
    opens = get("add_bos_token", get("model") == "llama") and bos is not None
    vocabulary = Vocabulary(
        labels=labels,
        pieces=[piece(i) for i in range(len(labels))],
        control=control,
        ends=frozenset(i for i in named if i is not None and i < len(labels)),
        opening=(bos,) if opens else (),
    )
    return ModelTokenizer(core, vocabulary, gguf_template(file, labels))


def gguf_template(file: GGUFFile, labels: Sequence[str]) -> Template | None:
    """The chat template in a GGUF file, if it has one; `labels` are the names of its ids."""
    source = file.metadata.get("tokenizer.chat_template")
    ids = {kind: file.metadata.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("bos", "eos")}
    texts = {f"{kind}_token": _label(labels, i) for kind, i in ids.items()}
    return Template(source, texts) if source else None


def _label(labels: Sequence[str], token: int | None) -> str:
    return labels[token] if token is not None and 0 <= token < len(labels) else ""


def from_folder(folder: Path) -> ModelTokenizer:
    """The tokenizer of a folder as Hugging Face writes it (`tokenizer.json` and its neighbours).

    Raises:
        ModelError: The folder has none, or it is damaged.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        raise UnsupportedModel(
            f"{folder} has no tokenizer.json.", "Save the model's fast tokenizer there with save_pretrained."
        )
    try:
        raw = path.read_text(encoding="utf-8")
        core, described = tokenizers.Tokenizer.from_str(raw), json.loads(raw)
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{path} is damaged: {error}.", _AGAIN) from None
    settings = _json(folder / "tokenizer_config.json")
    core.encode_special_tokens = True  # control tokens are split off before it sees the text
    added = {token["id"]: token for token in described.get("added_tokens", [])}
    control = {token["content"]: i for i, token in added.items() if token["special"]}
    ids = core.get_vocab(with_added_tokens=True)
    labels = [""] * (max(ids.values(), default=-1) + 1)
    for label, i in ids.items():
        labels[i] = label
    byte_level = '"ByteLevel"' in json.dumps([described.get("pre_tokenizer"), described.get("decoder")])
    to_bytes = kinds.byte_level_bytes if byte_level else kinds.sentence_piece_bytes

    def piece(i: int) -> bytes:
        if i in added:
            return b"" if added[i]["special"] else labels[i].encode()
        return to_bytes(labels[i])

    texts = {key: _text(settings.get(key)) for key in ("bos_token", "eos_token")}
    stated = [_json(folder / file).get("eos_token_id") for file in ("generation_config.json", "config.json")]
    named = {i for ends in stated for i in (ends if isinstance(ends, list) else [ends])}
    named |= {control.get(end) for end in (*_ENDS, texts["eos_token"])}
    vocabulary = Vocabulary(
        labels=labels,
        pieces=[piece(i) for i in range(len(labels))],
        control=control,
        ends=frozenset(i for i in named if isinstance(i, int) and i < len(labels)),
        opening=_opening(core),
    )
    source = _template(folder, settings)
    return ModelTokenizer(core, vocabulary, Template(source, texts) if source else None)


def _opening(core: tokenizers.Tokenizer) -> tuple[int, ...]:
    """The ids that the tokenizer's own post-processing puts before a text."""
    framed, bare = core.encode("a").ids, core.encode("a", add_special_tokens=False).ids
    for first in range(len(framed) - len(bare) + 1):
        if framed[first : first + len(bare)] == bare:
            return tuple(framed[:first])
    return ()


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    beside = folder / "chat_template.jinja"
    if beside.exists():
        return beside.read_text(encoding="utf-8")
    source = settings.get("chat_template")
    if isinstance(source, list):  # several, by name
        return _default(source)
    return source


def _default(templates: Iterable[Mapping[str, str]]) -> str | None:
    return next((entry["template"] for entry in templates if entry.get("name") == "default"), None)


def _text(token: Any) -> str:
    """A token's text, which settings write either plainly or as an object."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _json(path: Path) -> dict[str, Any]:
    """A file's settings; none where it is missing."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError:
        raise ModelError(f"{path} is damaged.", _AGAIN) from None
    return found if isinstance(found, dict) else {}
