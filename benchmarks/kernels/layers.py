"""What products with a file's own numbers cost by rows, beside packed float32 and llama.cpp.

Run: python benchmarks/kernels/layers.py [--json FILE]

Twelve matrices of 8,960 outputs and 1,536 inputs, more than a cache holds, are multiplied with 1 ... 16 rows
one after another. Every round measures each thing once, in turn; the table shows medians in milliseconds, as
ratios to one row of packed float32, and in GFLOP/s. llama.cpp has the same matrices, as the feed-forward
layers of a model that has little else.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import gguf
import numpy as np
import torch
from gguf.constants import GGMLQuantizationType as Type

from redline import backends
from redline.backends.gguf_file import Stored
from redline.backends.llamacpp import is_installed
from redline.backends.native import kernels
from redline.backends.native.kernels import Layers
from redline.backends.native.linear import pack
from redline.bench.machine import commit, machine, versions
from redline.core.ports import Chunk

LAYERS, OUTPUTS, INPUTS = 12, 8960, 1536
FLOP = 2 * LAYERS * OUTPUTS * INPUTS
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 64)
TYPES = (Type.Q4_K, Type.Q6_K, Type.Q8_0, Type.F16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    numbers = kernels.find()
    assert numbers is not None, "the kernels were not built"
    ways: dict[str, Callable[[torch.Tensor], object]] = {"float32, packed": packed(rng)}
    for kind in TYPES:
        layers = [Layers([numbers.pack(random_matrix(kind, rng))]) for _ in range(LAYERS)]
        ways[f"{kind.name}, {numbers.name}"] = lambda x, layers=layers: [numbers.linear(w, x) for w in layers]
    with TemporaryDirectory() as folder:
        if is_installed():
            for kind in (Type.Q4_K, Type.Q8_0):
                ways[f"{kind.name}, llama.cpp"] = llama(kind, Path(folder), rng)
        found = measure(ways, args.rounds)
    show(found)
    if args.json:
        about = {"machine": machine(), "versions": versions(), "commit": commit(), "flop_per_row": FLOP}
        document = {**about, "seconds": found}
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def random_matrix(
    kind: Type, rng: np.random.Generator, outputs: int = OUTPUTS, inputs: int = INPUTS
) -> Stored:
    """Random codes; every scale is small, so that nothing overflows."""
    per_block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (outputs, inputs // per_block, size), dtype=np.uint8)
    small = np.float16(0.001).tobytes()
    places = {Type.Q6_K: (208,), Type.Q4_K: (0, 2), Type.Q8_0: (0,), Type.F16: ()}[kind]
    for at in places:
        raw[:, :, at : at + 2] = np.frombuffer(small, np.uint8)
    if kind == Type.F16:
        raw = rng.normal(0, 0.02, (outputs, inputs)).astype(np.float16)
    return Stored((outputs, inputs), int(kind), raw.reshape(-1).view(np.uint8))


def packed(rng: np.random.Generator) -> Callable[[torch.Tensor], object]:
    layers = [
        pack(torch.from_numpy(rng.normal(0, 0.02, (OUTPUTS, INPUTS)).astype(np.float32)), None)
        for _ in range(LAYERS)
    ]
    return lambda x: [layer(x) for layer in layers]


def llama(kind: Type, folder: Path, rng: np.random.Generator) -> Callable[[torch.Tensor], object]:
    """A model of four layers, whose three feed-forward matrices each are of this size."""
    path = folder / f"{kind.name}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(INPUTS)
    writer.add_block_count(LAYERS // 3)
    writer.add_feed_forward_length(OUTPUTS)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(64)
    writer.add_value_length(64)
    writer.add_rope_dimension_count(64)
    writer.add_layer_norm_rms_eps(1e-6)
    vocab = [f"<0x{i:02X}>" for i in range(256)] + ["<s>", "</s>", "<unk>"] + [f"w{i}" for i in range(61)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocab)
    writer.add_token_scores([0.0] * len(vocab))
    writer.add_token_types([6] * 256 + [3, 3, 2] + [1] * 61)

    def plain(name: str, *shape: int) -> None:
        writer.add_tensor(name, rng.normal(0, 0.02, shape).astype(np.float32))

    plain("token_embd.weight", len(vocab), INPUTS)
    plain("output_norm.weight", INPUTS)
    plain("output.weight", len(vocab), INPUTS)
    for i in range(LAYERS // 3):
        plain(f"blk.{i}.attn_norm.weight", INPUTS)
        plain(f"blk.{i}.ffn_norm.weight", INPUTS)
        for name, shape in (("q", (64, INPUTS)), ("k", (64, INPUTS)), ("v", (64, INPUTS))):
            plain(f"blk.{i}.attn_{name}.weight", *shape)
        plain(f"blk.{i}.attn_output.weight", INPUTS, 64)
        for name, outputs, inputs in (
            ("gate", OUTPUTS, INPUTS),
            ("up", OUTPUTS, INPUTS),
            ("down", INPUTS, OUTPUTS),
        ):
            matrix = random_matrix(kind, rng, outputs, inputs)
            raw = matrix.data.reshape(outputs, -1)
            writer.add_tensor(f"blk.{i}.ffn_{name}.weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    backend = backends.open(path, backend="llamacpp")
    cache = backend.open()

    def read(x: torch.Tensor) -> None:
        backend.extend([Chunk(cache, [i % 200 for i in range(len(x))], "last")])
        cache.rewind(0)

    return read


def measure(ways: dict[str, Callable[[torch.Tensor], object]], rounds: int) -> dict[str, dict[int, float]]:
    times: dict[str, dict[int, list[float]]] = {name: {rows: [] for rows in ROWS} for name in ways}
    inputs = {rows: torch.randn(rows, INPUTS) for rows in ROWS}
    with torch.inference_mode():
        for _ in range(rounds + 1):
            for rows, x in inputs.items():
                for name, way in ways.items():
                    began = perf_counter()
                    way(x)
                    times[name][rows].append(perf_counter() - began)
    return {name: {rows: median(s[1:]) for rows, s in own.items()} for name, own in times.items()}


def show(found: dict[str, dict[int, float]]) -> None:
    one = found["float32, packed"][1]
    print(f"{'ms · ratio · GFLOP/s':24}" + "".join(f"{rows:>22}" for rows in ROWS))
    for name, own in found.items():
        cells = [
            f"{1e3 * s:7.1f} · {s / one:5.2f} · {1e-9 * rows * FLOP / s:4.0f}" for rows, s in own.items()
        ]
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
