"""Conversions of the real model: numbers, llama.cpp's reading of them, and a process that is stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest

from redline.backends import gguf_file, llamacpp
from redline.backends.llamacpp import quantise
from redline.core.ports import Chunk
from redline.models.convert import converted

pytestmark = pytest.mark.model
TENSORS = ("token_embd.weight", "blk.0.attn_q.weight", "blk.29.ffn_down.weight")


def numbers(path: Path, name: str) -> np.ndarray:
    each = gguf_file.read(path).tensors[name]
    return gguf.quants.dequantize(each.data, gguf.GGMLQuantizationType(each.kind)).ravel()


def test_q8_0_is_close_and_llamacpp_reads_it(smollm2_path, cache):
    path = converted(smollm2_path, "q8_0")
    for name in TENSORS:
        old, new = numbers(smollm2_path, name), numbers(path, name)
        assert np.linalg.norm(old - new) < 0.01 * np.linalg.norm(old)
    tops = []
    for file in (smollm2_path, path):
        backend = llamacpp.load(file, context=64, threads=1, exact=False)
        try:
            text = backend.tokenizer.encode("The capital of France is")
            tops.append((text, backend.extend([Chunk(backend.open(), text)])[0][-1].argmax()))
        finally:
            backend.close()
    assert tops[0] == tops[1]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("end", ["KeyboardInterrupt", "SIGKILL"])
def test_the_child_ends_with_us(smollm2_path, cache, end):
    script = f"""
import os, signal, sys
from pathlib import Path
from redline.core.ports import Chunk
from redline.models.convert import converted
def progress(done, total, what):
    if done:
        if {end!r} == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyboardInterrupt
converted(Path(sys.argv[1]), "f32", progress=progress)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(smollm2_path)], stderr=subprocess.PIPE, check=False
    )
    assert run.returncode == (-signal.SIGKILL if end == "SIGKILL" else -signal.SIGINT), run.stderr
    until = time.monotonic() + 10
    while running(str(cache)) and time.monotonic() < until:
        time.sleep(0.02)
    assert running(str(cache)) == []
    assert list(cache.glob("*.gguf")) == []
    unfinished = list(cache.glob("partial/*/made.gguf"))
    assert len(unfinished) == (end == "SIGKILL")
    whole = quantise.estimate(gguf_file.read(smollm2_path), "f32")
    assert all(path.stat().st_size < whole for path in unfinished)


def running(text: str) -> list[int]:
    """Processes, other than this one, whose command names something."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in path.read_bytes().decode(errors="replace") and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:  # it ended while we looked
            continue
    return found
