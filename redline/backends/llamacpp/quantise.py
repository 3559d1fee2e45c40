"""llama.cpp's own quantiser: a GGUF file written again in another precision.

It runs in a process of its own. llama.cpp has no way to stop it, and ends its whole process where it
finds a tensor it did not expect; so a Ctrl-C ends only the child, and so does a failed assertion.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from redline.backends.child import attend
from redline.backends.cores import cores
from redline.backends.gguf_file import GGUFFile, Stored
from redline.backends.llamacpp.library import forget_errors, library, log, said
from redline.core.errors import ModelError, unknown

_CHILD = """
import sys
sys.path.append(sys.argv[1])
from redline.backends.llamacpp import quantise
quantise.child()
"""


@dataclass(frozen=True, slots=True)
class Precision:
    """How weights are stored; vectors stay float32 in all of them.

    Attributes:
        number: llama.cpp's LLAMA_FTYPE, which a file's `general.file_type` repeats.
        kind: The `gguf.GGMLQuantizationType` of most matrices.
        bits: Bits of a weight in them, scales included.
        block: Weights that share a scale; rows must be a multiple of it.
        spare_bits: Bits of a weight where rows are not, and llama.cpp takes another kind.
        wide_bits: Bits of a weight where llama.cpp is more careful: embeddings, values, half of the downs.
        pure: All matrices in one kind. For q4_0 that is the point: on a CPU it is the fastest to read,
            and llama.cpp's own mix keeps the embeddings, which a small model spends most time on, wider.
    """

    number: int
    kind: int
    bits: float
    block: int = 1
    spare_bits: float = 0
    wide_bits: float = 0
    pure: bool = False


PRECISIONS = {
    "f32": Precision(0, 0, 32),
    "f16": Precision(1, 1, 16),
    "bf16": Precision(32, 30, 16),
    "q8_0": Precision(7, 8, 8.5, 32, 16),
    "q6_k": Precision(18, 14, 6.5625, 256, 8.5),
    "q5_k_m": Precision(17, 13, 5.5, 256, 6, 6.5625),
    "q4_k_m": Precision(15, 12, 4.5, 256, 5.5, 6.5625),
    "q4_1": Precision(3, 3, 5, 32, 16, 6.5625),
    "q4_0": Precision(2, 2, 4.5, 32, 16, pure=True),
}

_FIVE_BITS = (6, 7)  # GGMLQuantizationType's Q5_0 and Q5_1


def precision(name: str) -> Precision:
    """The precision of a name.

    Raises:
        UnknownName: llama.cpp's quantiser, or redline, has none of that name.
    """
    if name not in PRECISIONS:
        raise unknown("precision", name, PRECISIONS)
    return PRECISIONS[name]


def is_already(file: GGUFFile, to: str) -> bool:
    """Whether a file's weights are in a precision, so that writing them again would change nothing."""
    wanted = PRECISIONS[to]
    if not wanted.pure and file.metadata.get("general.file_type") == wanted.number:
        return True
    # Files of other makers often leave the type out, and those called Q4_0 are seldom pure.
    matrices = [each for each in file.tensors.values() if len(each.shape) > 1]
    kinds = {each.kind for each in matrices if each.shape[-1] % wanted.block == 0}
    return not wanted.wide_bits and kinds == {wanted.kind}


def reads_slowly(file: GGUFFile) -> bool:
    """Whether most of a model's layers are in 5 bits a weight, which no fast kernel reads.

    Nobody asks for that: llama.cpp takes it for models of 4 bits whose rows do not fit the blocks of those.
    """
    layers = [each for name, each in file.tensors.items() if name.startswith("blk.") and len(each.shape) > 1]
    slow = sum(each.data.size for each in layers if each.kind in _FIVE_BITS)
    return 2 * slow > sum(each.data.size for each in layers)


def estimate(file: GGUFFile, to: str) -> int:
    """Bytes that a file will have in a precision, or a few per cent less."""
    wanted = PRECISIONS[to]
    header = file.path.stat().st_size - sum(each.data.size for each in file.tensors.values())
    bits = sum(_bits(name, each, wanted) for name, each in file.tensors.items())
    # A model in several files is written as one, and this one is the first of them.
    return max(header, 0) + int(bits / 8) * int(file.metadata.get("split.count") or 1)


def quantise(source: Path, target: Path, to: str, tick: Callable[[int], None]) -> None:
    """Write a GGUF file again in another precision.

    Weights that are quantised already are made numbers first, so going up is possible and adds nothing.
    Matrices whose rows are no multiple of the precision's blocks get the next wider kind that fits.

    Args:
        source: The file; of a model in several files, the first.
        target: Where to; must not be the source.
        to: A name from `PRECISIONS`.
        tick: Called now and then with the bytes written.

    Raises:
        OptionError: llama.cpp is not installed.
        ModelError: llama.cpp could not do it.
        OSError: The disk refused it.
    """
    library()
    root = str(Path(__file__).resolve().parents[3])
    # -P keeps modules in the current directory from being taken for the standard library's.
    command = [sys.executable, "-P", "-c", _CHILD, root, str(source), str(target), to]
    with TemporaryFile() as answer, TemporaryFile() as messages:
        code = _run(command, answer.fileno(), messages.fileno(), lambda: tick(_size(target)))
        answer.seek(0)
        reason = answer.read().decode(errors="replace").strip()
        messages.seek(0)
        lines = messages.read().decode(errors="replace").splitlines()
    for line in lines:
        log.debug(line)
    if code == 0:
        return
    if "iostream error" in reason:  # C++ does not say why it could not write; a write of our own does
        with target.open("ab") as file:
            file.write(bytes(1 << 20))
    asserted = next((line for line in lines if "GGML_ASSERT" in line), "")
    raise ModelError(
        f"llama.cpp cannot convert {source.name} to {to}: {reason or asserted or f'it ended with {code}'}.",
        "Update llama-cpp-python if the architecture is new, or convert from another file of the model.",
    )


def child() -> None:
    """What the child process does: quantise, and answer with llama.cpp's own words when that fails."""
    source, target, to = sys.argv[2:5]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.DEBUG)
    lib, wanted = library(), PRECISIONS[to]
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.pure = wanted.number, wanted.pure
    params.allow_requantize, params.nthread = True, cores()
    forget_errors()
    code = lib.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(params))
    if code:
        print(said(), flush=True)  # noqa: T201 - the parent reads it
        raise SystemExit(1)


def _end_with_parent() -> None:
    """Go when the pipe from the parent closes: a parent that was killed cannot tell us to."""
    os.read(0, 1)
    os._exit(1)


def _run(command: list[str], answer: int, messages: int, tick: Callable[[], None]) -> int:
    return attend(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answer, stderr=messages), tick)


def _bits(name: str, tensor: Stored, wanted: Precision) -> float:
    """Bits of a tensor in a precision: an estimate, rather too high than too low."""
    count = 1
    for side in tensor.shape:
        count *= side
    if len(tensor.shape) == 1:
        return count * 32
    careful = name.startswith(("token_embd", "output.")) or "attn_v" in name or "ffn_down" in name
    if tensor.shape[-1] % wanted.block == 0:
        return count * (wanted.wide_bits if careful and wanted.wide_bits else wanted.bits)
    return count * (8.5 if careful and wanted.wide_bits else wanted.spare_bits)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
