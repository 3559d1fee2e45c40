"""Chat templates: how a model wants a conversation written. Jinja, in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from redline.core.errors import RedlineError


class _Generation(Extension):
    """`{% generation %} … {% endgeneration %}` marks what to train on; for writing, it is its content."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


class Template:
    """One template and the texts of the tokens that it may mention.

    Args:
        source: Jinja text, as model files carry it.
        tokens: Names such as `bos_token` → text.
    """

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        self._source, self._tokens = source, dict(tokens)
        self._compiled: jinja2.Template | None = None

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The conversation as text, up to where the model answers.

        Raises:
            RedlineError: The template is broken, or refuses these messages.
        """
        try:
            if self._compiled is None:
                self._compiled = self._compile()
            return self._compiled.render(
                messages=messages, add_generation_prompt=True, tools=None, documents=None, **self._tokens
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise RedlineError(
                f"The model's chat template does not take these messages: {error}.",
                "Give every message a role it knows (system, user, assistant) and a content.",
            ) from error

    def _compile(self) -> jinja2.Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        return environment.from_string(self._source)
