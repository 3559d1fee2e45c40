"""Constraints from what people write: a schema, a regular expression, a marker."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redline.core.errors import OptionError
from redline.core.ports import Backend, Constraint
from redline.grammar.marker import Before, Marker, Within
from redline.grammar.matcher import Matched, Shared, said
from redline.grammar.vocabulary import vocabulary, written

if TYPE_CHECKING:
    from llguidance import LLMatcher

AS_PYTHON_WRITES = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""One way to lay JSON out, the one that `json.dumps` has, leaves the fewest choices."""

HINT = "llguidance reads it; its documentation lists what it knows."

_log = logging.getLogger("redline")


def schema(document: Mapping[str, Any] | str, model: Backend) -> Constraint:
    """JSON that a schema describes, laid out as `json.dumps` does it.

    Keys come in the order of the schema. llguidance's own options can be set in the document, under
    `x-guidance`: `{"whitespace_flexible": true}` allows any white space.

    Args:
        document: A JSON schema, or its text.
        model: Whose tokens the text is made of: the target.

    Raises:
        NotInstalled: There is no llguidance.
        OptionError: The document is no JSON or no schema, nothing can satisfy it, or it needs something
            that llguidance does not know.
    """
    text = check_document(document)
    return _make(
        "The schema", model, lambda maker: maker.grammar_from_json_schema(text, defaults=AS_PYTHON_WRITES)
    )


def check_document(document: Mapping[str, Any] | str) -> str:
    """The text of a schema, if it is JSON.

    Raises:
        OptionError: It is not.
    """
    try:
        return json.dumps(json.loads(document) if isinstance(document, str) else document)
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"The schema is not JSON: {error}.", "Give a JSON schema, or its text.") from error


def regex(pattern: str, model: Backend) -> Constraint:
    """A text that matches a regular expression from its beginning to its end.

    Args:
        pattern: In the syntax of Rust's `regex`: no look-around, no back-references.
        model: Whose tokens the text is made of: the target.

    Raises:
        NotInstalled: There is no llguidance.
        OptionError: The pattern is none, or no text matches it.
    """
    if not isinstance(pattern, str):
        raise OptionError(f"The regular expression is {pattern!r}.", "Give a text.")
    return _make("The regular expression", model, lambda maker: maker.grammar_from_regex(pattern))


def after_marker(
    marker: str | Sequence[int], inner: Constraint, model: Backend, free_after: bool = False
) -> Constraint:
    """Free text until a marker has come, and a constraint from there on.

    The text may also end without the marker.

    Args:
        marker: A text, however it is cut into tokens, or ids that must come in this order.
        inner: The constraint behind the marker.
        model: Whose tokens the text is made of: the target.
        free_after: Any text may come again as soon as the inner constraint may end.

    Raises:
        OptionError: The marker is empty.
    """
    if not marker:
        raise OptionError("The marker is empty.", "Give a text or ids, or use the constraint alone.")
    tokenizer, width = model.tokenizer, model.traits.vocab_size
    if free_after:
        inner = Within(inner, tokenizer.ends)
    if isinstance(marker, str):
        return Before(Marker(marker.encode(), written(tokenizer), width), inner)
    return Before(Marker(marker, None, width), inner)


def _make(what: str, model: Backend, write: Callable[[type[LLMatcher]], str]) -> Constraint:
    tokenizer = model.tokenizer
    words = vocabulary(tokenizer)  # type: ignore[arg-type]  # a protocol says nothing of hashes
    from llguidance import LLMatcher

    try:
        matcher = LLMatcher(words, write(LLMatcher), log_level=0)
    except ValueError as error:
        raise OptionError(f"{what} cannot be used: {said(str(error))}.", HINT) from error
    if matcher.is_error():
        raise OptionError(f"{what} cannot be used: {said(matcher.get_error())}.", HINT)
    for warning in matcher.get_grammar_warnings():
        _log.warning("%s: %s", what, warning)
    state = Matched(Shared(tokenizer.size, model.traits.vocab_size, tokenizer.ends), matcher)
    state.allowed()  # what nothing can satisfy is said now, and not in the middle of a text
    return state
