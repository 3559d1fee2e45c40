"""The command line over toy models: a whole command in milliseconds."""

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from redline import cli
from redline.engine import draft, load
from redline.testing import ToyBackend, ToyTokenizer


class ChattyTokenizer(ToyTokenizer):
    def chat(self, messages):
        return [*self.encode("".join(message["content"] for message in messages)), 0]


def toy_for(path):
    """A toy model of its own for every name."""
    if "bytes" in str(path):
        tokenizer = ChattyTokenizer([*(bytes([i]) for i in range(256)), b""], ends=[256])
        return ToyBackend(257, seed=1, order=2, context=4096, tokenizer=tokenizer)
    tokenizer = ChattyTokenizer.letters(26)
    return ToyBackend(26, seed=len(str(path)), order=2, context=600, tokenizer=tokenizer)


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out.splitlines()[-1])


@pytest.fixture
def redline(monkeypatch, capsys):
    """Run `redline ARGS` in this process."""
    monkeypatch.setattr(draft.models, "find", lambda name: Path(name))
    monkeypatch.setattr(
        load.backends, "open", lambda path, role="target", **options: toy_for(path), raising=False
    )

    def run(*args, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["redline", *args])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        output = capsys.readouterr()
        return Ran(int(exit_.value.code or 0), output.out, output.err)

    return run
