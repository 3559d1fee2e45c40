"""The tokenizer of a transformers model behind `ports.Tokenizer`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import tokenizers
import transformers

from redline.backends.tokenizer import ModelTokenizer, from_folder
from redline.backends.tokenizer.chat import Template
from redline.backends.tokenizer.kinds import byte_level_bytes, sentence_piece_bytes
from redline.backends.tokenizer.text import Vocabulary
from redline.core.errors import ModelError

_library: Any = transformers  # half of its functions have no types

_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    *("generation_config.json", "config.json"),
)
"""What `from_folder` reads."""

_PROBE = "To be, or not to be: 'Ω' 漢字 é 🎉 42"


def find(source: str, config: Any, trust_remote_code: bool) -> ModelTokenizer:
    """The tokenizer of a folder or repository.

    A `tokenizer.json` is read as it is. What has none is opened by transformers, which writes
    one for all but the few kinds of tokenizers that are programs.

    Raises:
        ModelError: There is none, or it cannot say which bytes its tokens are.
    """
    folder = _fetched(source)
    if (folder / "tokenizer.json").exists():
        return from_folder(folder)
    theirs = _library.AutoTokenizer.from_pretrained(source, trust_remote_code=trust_remote_code)
    if theirs.is_fast:
        with tempfile.TemporaryDirectory() as written:
            theirs.save_pretrained(written)
            for names_ends in (config, _generation(source)):
                names_ends.save_pretrained(written)
            return from_folder(Path(written))
    return _wrapped(theirs, [config.eos_token_id, _generation(source).eos_token_id, theirs.eos_token_id])


def _fetched(source: str) -> Path:
    """The folder, or the one in the hub's cache that a repository's files are kept in."""
    if Path(source).is_dir():
        return Path(source)
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    found = [_library.utils.cached_file(source, file, **quiet) for file in _FILES]
    return Path(next((path for path in found if path), "")).parent


def _generation(source: str) -> Any:
    """The model's own settings for writing, which may name more ends of an answer than its configuration."""
    try:
        return _library.GenerationConfig.from_pretrained(source)
    except OSError:  # it has none
        return _library.GenerationConfig()


def _wrapped(theirs: Any, ends: list[Any]) -> ModelTokenizer:
    """A tokenizer that is a program: its words through its own code, everything else as for all others."""
    labels = [theirs.convert_ids_to_tokens(i) or "" for i in range(len(theirs))]
    special = set(theirs.all_special_ids)
    added = {i: str(token) for i, token in theirs.added_tokens_decoder.items() if i not in special}
    to_bytes = _bytes_rule(theirs, labels)

    def piece(i: int) -> bytes:
        if i in special:
            return b""
        return added[i].encode() if i in added else to_bytes(labels[i])

    opening = theirs.build_inputs_with_special_tokens([]) if theirs.bos_token_id is not None else []
    vocabulary = Vocabulary(
        labels=labels,
        pieces=[piece(i) for i in range(len(labels))],
        control={labels[i]: i for i in special if labels[i]},
        ends=frozenset(i for end in ends for i in (end if isinstance(end, list) else [end]) if i is not None),
        opening=tuple(opening[:1]) if opening[:1] == [theirs.bos_token_id] else (),
    )
    names = {key: str(getattr(theirs, key) or "") for key in ("bos_token", "eos_token")}
    source = theirs.chat_template
    template = Template(source, names) if isinstance(source, str) else None
    return ModelTokenizer(cast(tokenizers.Tokenizer, _Words(theirs)), vocabulary, template)


class _Words:
    """The one method that `ModelTokenizer` needs of a `tokenizers.Tokenizer`."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def encode(self, text: str, add_special_tokens: bool = False) -> SimpleNamespace:
        """Ids of plain text; whatever looks like a control token in it stays text."""
        return SimpleNamespace(
            ids=self._theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
        )


def _bytes_rule(theirs: Any, labels: list[str]) -> Callable[[str], bytes]:
    """From a token's name to its bytes: the rule by which a text's tokens give the text."""
    ids = theirs.encode(_PROBE, add_special_tokens=False)
    rules = (byte_level_bytes, sentence_piece_bytes, _letters_are_bytes)
    for rule in rules:
        try:
            if b"".join(rule(labels[i]) for i in ids).strip() == _PROBE.encode():
                return rule
        except UnicodeEncodeError:
            continue
    raise ModelError(
        f"The model's tokenizer, a {type(theirs).__name__}, does not show which bytes its tokens stand for.",
        "Convert it to a tokenizer.json, and put that into the model's folder.",
    )


def _letters_are_bytes(label: str) -> bytes:
    return label.encode("latin-1")
