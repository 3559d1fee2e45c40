"""The file's tokenizer; llama.cpp's own where redline does not know its kind."""

from __future__ import annotations

import ctypes
import logging
from dataclasses import dataclass

from redline.backends.gguf_file import GGUFFile
from redline.backends.llamacpp.library import library
from redline.backends.llamacpp.model import Model
from redline.backends.tokenizer import ModelTokenizer, Vocabulary, from_gguf, gguf_template
from redline.core.errors import ModelError, RedlineError, UnsupportedModel
from redline.core.ports import Tokenizer

_log = logging.getLogger("redline")


def tokenizer_of(file: GGUFFile, model: Model) -> Tokenizer:
    """The same tokenizer that the native engine takes where there is one, so that ids mean the same."""
    try:
        return from_gguf(file)
    except UnsupportedModel as error:
        _log.debug("%s llama.cpp reads it instead.", error.message)
        return _from_llama(file, model)


@dataclass(frozen=True, slots=True)
class _Encoding:
    ids: list[int]


class _Core:
    """Plain text to ids by llama.cpp, in the form in which `ModelTokenizer` asks."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def encode(self, text: str, add_special_tokens: bool) -> _Encoding:
        if not self._model.handle:
            raise ValueError("The model of this tokenizer is closed.")
        lib, data = library(), text.encode()
        room = len(data) + 8
        for _ in range(2):
            ids = (ctypes.c_int32 * room)()
            count = lib.llama_tokenize(
                self._model.vocab, data, len(data), ids, room, add_special_tokens, False
            )
            if count >= 0:
                return _Encoding(list(ids[:count]))
            room = -count
        raise RedlineError("llama.cpp cannot split this text into tokens.", "Report this with --debug.")


def _from_llama(file: GGUFFile, model: Model) -> ModelTokenizer:
    lib, vocab = library(), model.vocab
    ids = range(model.vocab_size)
    labels = [(lib.llama_vocab_get_text(vocab, i) or b"").decode("utf-8", "surrogateescape") for i in ids]
    if not any(labels):
        raise ModelError(f"{file.path.name} has no vocabulary.", "Download or convert the model again.")
    control = {labels[i]: i for i in ids if lib.llama_vocab_is_control(vocab, i)}
    bos = lib.llama_vocab_bos(vocab)
    vocabulary = Vocabulary(
        labels=labels,
        pieces=[b"" if lib.llama_vocab_is_control(vocab, i) else _piece(vocab, i) for i in ids],
        control=control,
        ends=frozenset(i for i in ids if lib.llama_vocab_is_eog(vocab, i)),
        opening=(bos,) if lib.llama_vocab_get_add_bos(vocab) and bos in ids else (),
    )
    return ModelTokenizer(_Core(model), vocabulary, gguf_template(file, labels))  # type: ignore[arg-type]


def _piece(vocab: object, token: int) -> bytes:
    """The bytes of a token."""
    room = 64
    for _ in range(2):
        buffer = ctypes.create_string_buffer(room)
        count = library().llama_token_to_piece(vocab, token, buffer, room, 0, False)
        if count >= 0:
            return buffer.raw[:count]
        room = -count
    return b""
