"""Fetch one GGUF file from a Hugging Face repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from redline.core.errors import ModelError, OptionError
from redline.models.catalogue import CATALOGUE

_FORM = re.compile(r"hf:(?P<repo>[^/]+/[^/]+)/(?P<file>(?:[^/]+/)*(?P<stem>\w[\w.+-]*)\.(?i:gguf))")


@dataclass(frozen=True, slots=True)
class Source:
    """A file in a repository, and the name that it gets here: the file's stem in lower case."""

    text: str
    repo: str
    file: str
    name: str


def parse(text: str) -> Source:
    """Take `hf:owner/repo/file.gguf` apart; the file may lie in folders of the repository.

    Raises:
        OptionError: It has another form, or its name belongs to the catalogue.
    """
    match = _FORM.fullmatch(text)
    if not match or ".." in text.split("/"):
        raise OptionError(f"{text!r} names no GGUF file.", "Write it as hf:owner/repo/file.gguf.")
    name = match["stem"].lower()
    if name in CATALOGUE:
        raise OptionError(
            f"{text} would be called {name}, a name that redline's own list has.",
            f"Pull {name}, or download the file yourself and give its path.",
        )
    return Source(text, match["repo"], match["file"], name)


def download(source: Source, work: Path) -> Path:
    """Fetch the file into a folder; huggingface_hub shows its own progress and resumes what it began.

    Raises:
        ModelError: The hub cannot be reached, or has no such file.
    """
    # Imported on use: it takes a while, and most pulls need none.
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(source.repo, source.file, local_dir=work))
    except Exception as error:  # its HTTP library, and with it the error types, changes with its version
        first = re.split(r"\.\s|\n", str(error).strip())[0].rstrip(".")
        reason = first or type(error).__name__
        raise ModelError(
            f"Could not fetch {source.text}: {reason}.",
            "Check the name and the network; `redline models list` has models that need no hub.",
        ) from error
