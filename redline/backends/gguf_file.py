"""The header of a GGUF file: its metadata, and where its tensors lie.

`gguf.GGUFReader` builds a numpy view for every string and takes 2.5 s for a vocabulary of 49,152 tokens
and 7 s for one of 151,936; reading the same header here takes 0.1 and 0.4 s. The numbers of the format
(types, block sizes, how to dequantise) still come from the `gguf` package.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.core.errors import ModelError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_AGAIN = "Download or convert the file again; `redline models verify` checks the ones that redline knows."


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor in the file.

    Attributes:
        shape: Rows first, as numpy and torch have it.
        kind: Its type, a value of `gguf.GGMLQuantizationType`.
        data: Its bytes, mapped from the file, shape (bytes,).
        start: Where they lie there.
    """

    shape: tuple[int, ...]
    kind: int
    data: NDArray[np.uint8]
    start: int = 0


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """A file's metadata and tensors; the tensors' bytes stay on disk until they are read.

    Attributes:
        path: Where it is.
        metadata: Key → number, bool, string or list of them.
        tensors: Name → where it lies.
    """

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Stored]
    _data: mmap.mmap | None = None

    def release(self, stored: Stored) -> None:
        """Let go of the memory that a tensor's pages take; they are read again if they are wanted again."""
        if self._data is not None and hasattr(mmap, "MADV_DONTNEED"):
            start = stored.start // mmap.PAGESIZE * mmap.PAGESIZE
            self._data.madvise(mmap.MADV_DONTNEED, start, stored.start + len(stored.data) - start)


def read(path: Path) -> GGUFFile:
    """Read the header of a GGUF file.

    Raises:
        ModelError: The file is missing, empty, cut short, damaged, or not GGUF.
    """
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise ModelError(f"{path} is empty.", _AGAIN)
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror}.", "`redline models list` shows the models at hand."
        ) from None
    try:
        return _Cursor(path, data).file()
    except (
        struct.error,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        MemoryError,
        RecursionError,
    ) as error:
        raise ModelError(f"{path} is damaged or cut short: its header cannot be read.", _AGAIN) from error


def weights_type(file: GGUFFile) -> str:
    """What a file calls the precision of its weights, as "Q4_K_M", or else what its largest part is in."""
    from gguf.constants import GGMLQuantizationType, LlamaFileType

    try:
        name: str = LlamaFileType(file.metadata.get("general.file_type", -1)).name
        return name.removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        sizes = Counter[int]()
        for stored in file.tensors.values():
            sizes[stored.kind] += len(stored.data)
        return str(GGMLQuantizationType(max(sizes, key=sizes.__getitem__, default=0)).name)


class _Cursor:
    """Reads values one after another; running off the end raises what `read` turns into a ModelError."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at = path, data, 0

    def scalar(self, code: str) -> Any:
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        size = self.scalar("Q")
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError("a string runs past the end")
        # Vocabularies hold byte sequences that are not UTF-8 by themselves; keep them as they are.
        return self.data[start : self.at].decode("utf-8", "surrogateescape")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(_SCALARS[kind])
        of, count = self.scalar("I"), self.scalar("Q")
        if of in _SCALARS:
            dtype = np.dtype("<" + _SCALARS[of])
            items = np.frombuffer(self.data, dtype, count, self.at).tolist()
            self.at += count * dtype.itemsize
            return items
        read_one: Callable[[], Any] = self.string if of == _STRING else lambda: self.value(of)
        return [read_one() for _ in range(count)]

    def file(self) -> GGUFFile:
        magic = self.data[:4]
        if magic != b"GGUF":
            raise ModelError(f"{self.path} is not a GGUF file: it begins with {bytes(magic)!r}.", _AGAIN)
        self.at = 4
        version = self.scalar("I")
        if version not in (2, 3):
            raise ModelError(
                f"{self.path} is GGUF version {version}; redline reads 2 and 3, little-endian.",
                "Convert the model again with a present llama.cpp.",
            )
        tensors, keys = self.scalar("Q"), self.scalar("Q")
        metadata = {}
        for _ in range(keys):
            name = self.string()
            metadata[name] = self.value(self.scalar("I"))
        headers = []
        for _ in range(tensors):
            name, dims = self.string(), self.scalar("I")
            shape = tuple(self.scalar("Q") for _ in range(dims))[::-1]
            headers.append((name, shape, self.scalar("I"), self.scalar("Q")))
        align = int(metadata.get("general.alignment", 32))
        base = -(-self.at // align) * align
        tensors = {n: self.stored(n, s, k, base + at) for n, s, k, at in headers}
        return GGUFFile(self.path, metadata, tensors, self.data)

    def stored(self, name: str, shape: tuple[int, ...], kind: int, start: int) -> Stored:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        try:
            per_block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except (KeyError, ValueError):
            raise ModelError(
                f"{self.path} stores {name} as type {kind}, which the installed gguf package does not know.",
                "Update gguf, or use a file in another quantisation.",
            ) from None
        count = 1
        for side in shape:
            count *= side
        size = count // per_block * block_bytes
        if count == 0 or shape[-1] % per_block or start + size > len(self.data):
            raise ModelError(f"{self.path} is damaged or cut short: {name} runs past its end.", _AGAIN)
        return Stored(shape, kind, np.frombuffer(self.data, np.uint8, size, start), start)
