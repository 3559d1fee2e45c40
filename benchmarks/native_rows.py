"""What a pass of the native engine costs by its number of rows, and against transformers' eager forward.

    python benchmarks/native_rows.py ~/models/smollm2-135m.gguf --json native_rows.json

Every round measures each thing once, in turn, so that whatever else the machine does falls on all of
them alike; the table shows medians over rounds and ratios of medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from redline import backends
from redline.backends.gguf_file import read
from redline.backends.native import NativeBackend
from redline.backends.native.config import from_gguf
from redline.backends.native.weights import HUB_NAMES, GGUFSource
from redline.core.ports import Chunk


def transformers_step(path: Path, prompt: list[int]) -> Callable[[], None]:
    """One token of transformers' eager forward on the file's dequantised weights, after the prompt."""
    import transformers

    file = read(path)
    config, source = from_gguf(file), GGUFSource(file)
    family = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[config.architecture]
    hub = getattr(transformers, f"{family}Config")(
        vocab_size=config.vocab,
        hidden_size=config.hidden,
        intermediate_size=config.inner,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.context,
        rms_norm_eps=config.eps,
        rope_theta=config.theta,
        tie_word_embeddings=config.tied,
        attn_implementation="eager",
    )
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForCausalLM")(hub)
    model = model.to_empty(device="cpu")
    for name in source.names():
        *block, part, kind = name.split(".")
        weight = source.tensor(name)
        if part in ("attn_q", "attn_k") and config.interleaved:
            half = config.head_dim // 2
            weight = weight.view(-1, half, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
        hub_name = f"model.layers.{block[1]}.{HUB_NAMES[part]}" if block else HUB_NAMES[part]
        module = model.get_submodule(hub_name)
        setattr(module, kind, torch.nn.Parameter(weight, requires_grad=False))
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(hub)
    model.eval()
    cache = transformers.DynamicCache()

    def step() -> None:
        with torch.inference_mode():
            model(torch.tensor([prompt[:1]]), past_key_values=cache)
            cache.crop(-1)

    with torch.inference_mode():
        model(torch.tensor([prompt]), past_key_values=cache)
    return step


def native_pass(backend: NativeBackend, prompt: list[int], rows: int) -> Callable[[], None]:
    """One pass over so many rows after the prompt."""
    cache = backend.open()
    backend.extend([Chunk(cache, prompt, "none")])
    tokens = (prompt * rows)[:rows]

    def step() -> None:
        backend.extend([Chunk(cache, tokens)])
        cache.rewind(len(prompt))

    return step


def measure(steps: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median milliseconds of every step."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds + 2):
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(found[2:]) for name, found in times.items()}


def main() -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path, help="a .gguf file")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--prompt", type=int, default=300, help="tokens in the cache")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision", default="float32", help="as in redline --precision")
    parser.add_argument("--no-transformers", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    begin = time.perf_counter()
    backend = backends.open(options.model, threads=options.threads, precision=options.precision)
    load_s = time.perf_counter() - begin
    assert isinstance(backend, NativeBackend)
    prompt = [(i * 7919 + 11) % backend.tokenizer.size for i in range(options.prompt)]
    steps = {f"{rows} rows": native_pass(backend, prompt, rows) for rows in options.rows}
    if not options.no_transformers:
        steps["transformers"] = transformers_step(options.model, prompt)
    found = measure(steps, options.rounds)
    one = found[f"{options.rows[0]} rows"]
    result = {
        "model": backend.name,
        "dtype": backend.traits.dtype,
        "attention": backend.attention,
        "row_invariant": backend.traits.row_invariant,
        "load_s": round(load_s, 2),
        "cached_tokens": options.prompt,
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "ms": {name: round(ms, 2) for name, ms in found.items()},
        "ratio": {name: round(ms / one, 3) for name, ms in found.items()},
    }
    for name, ms in found.items():
        sys.stdout.write(f"{name:>14} {ms:9.2f} ms {ms / one:6.2f} ×\n")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
