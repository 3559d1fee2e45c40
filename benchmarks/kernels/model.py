"""A model in its file's own numbers beside the same in float32: time, memory, text and perplexity.

Run: python benchmarks/kernels/model.py [--model NAME] [--prompts N] [--tokens N] [--perplexity N]
    [--json FILE]

Passes of 1 ... 16 rows over a text of 300 tokens take turns between the engines, with llama.cpp as a third
where it is installed. Then both native engines write the answers to the same questions greedily, and every
difference is explained; and both predict the same text, which is Python's own documentation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics
from statistics import median
from time import perf_counter

import numpy as np

from redline import backends, models
from redline.backends.llamacpp import is_installed
from redline.bench import read_questions
from redline.bench.machine import commit, machine, versions
from redline.core.ports import Backend, Chunk
from redline.core.stop import Limits
from redline.doctor import explain
from redline.engine import Engine, generate
from redline.engine.generate import to_tokens

ROWS, CACHED, ROUNDS = (1, 2, 3, 4, 6, 8, 12, 16), 300, 9
WINDOW, PASS = 512, 64
PEAK = """
import resource, sys
from time import perf_counter
from pathlib import Path
from redline import backends
from redline.core.ports import Chunk
began = perf_counter()
model = backends.open(Path(sys.argv[1]), precision=sys.argv[2], context=2048)
took = perf_counter() - began
model.extend([Chunk(model.open(), list(range(100, 400)))])
now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(took, now / 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--perplexity", type=int, default=20_000, help="tokens of text")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    path = models.find(args.model)
    document = {"machine": machine(), "versions": versions(), "commit": commit(), "model": args.model}
    document["memory"] = {kind: memory(path, kind) for kind in ("file", "float32")}
    for kind, found in document["memory"].items():
        print("{}: load {load_s:.1f} s, {rss_gb:.2f} GB, at most {peak_gb:.2f} GB".format(kind, **found))
    file, plain = (backends.open(path, precision=kind) for kind in ("file", "float32"))
    engines = {"file": file, "float32": plain}
    if is_installed():
        engines["llama.cpp"] = backends.open(path, backend="llamacpp")
    document["pass_s"] = passes(engines)
    for name, own in document["pass_s"].items():
        print(f"{name:10}" + "".join(f"{rows:>3}: {1e3 * s:6.1f} ms" for rows, s in own.items()))
    if args.prompts:
        document["texts"] = texts(file, plain, args.prompts, args.tokens)
    if args.perplexity:
        document["perplexity"] = {
            name: perplexity(engine, args.perplexity) for name, engine in (("file", file), ("float32", plain))
        }
        print(document["perplexity"])
    if args.json:
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def memory(path: Path, precision: str) -> dict[str, float]:
    """Of a fresh process with the model and a text of 300 tokens."""
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), precision], capture_output=True, text=True, check=True
    )
    return dict(zip(("load_s", "rss_gb", "peak_gb"), map(float, ran.stdout.split()), strict=True))


def passes(engines: dict[str, Backend]) -> dict[str, dict[int, float]]:
    caches = {name: engine.open() for name, engine in engines.items()}
    text = list(range(1000, 1000 + CACHED + max(ROWS)))
    times: dict[str, dict[int, list[float]]] = {name: {rows: [] for rows in ROWS} for name in engines}
    for name, engine in engines.items():
        engine.extend([Chunk(caches[name], text[:CACHED], "none")])
    for _ in range(ROUNDS + 1):
        for rows in ROWS:
            for name, engine in engines.items():
                began = perf_counter()
                engine.extend([Chunk(caches[name], text[CACHED : CACHED + rows])])
                times[name][rows].append(perf_counter() - began)
                caches[name].rewind(CACHED)
    return {name: {rows: median(s[1:]) for rows, s in own.items()} for name, own in times.items()}


def texts(file: Backend, plain: Backend, prompts: int, tokens: int) -> dict[str, object]:
    engines = [Engine(engine, keep=0) for engine in (file, plain)]
    questions = read_questions(limit=-(-prompts // 10))[:prompts]
    limits, forks = Limits(tokens, stop_tokens=frozenset()), []
    for question in questions:
        prompt = to_tokens(engines[0], [{"role": "user", "content": question.turns[0]}])
        ours, theirs = (generate(engine, prompt, limits=limits).tokens for engine in engines)
        # Two engines round differently, so what is noise is what lies between them.
        fork = explain(plain, prompt, theirs, ours, widths=(1, 8))
        if fork:
            noise = distance(file, plain, [*prompt, *theirs[: fork.position]])
            tie = fork.gap <= 2 * noise
            forks.append({"question": question.id, "gap": fork.gap, "noise": noise, "near_tie": tie})
            print(f"{question.id}: position {fork.position}, gap {fork.gap:.4f}, noise {noise:.4f}, {tie=}")
    print(f"{len(questions) - len(forks)} of {len(questions)} texts are equal")
    return {"prompts": len(questions), "tokens": tokens, "forks": forks}


def distance(one: Backend, other: Backend, tokens: list[int]) -> float:
    """The largest difference between two engines' logits behind a text."""
    rows = [engine.extend([Chunk(engine.open(), tokens, "last")])[0][0] for engine in (one, other)]
    return float(np.abs(rows[0] - rows[1]).max())


def perplexity(engine: Backend, count: int) -> float:
    """Of a text in windows of 512 tokens."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    tokens = engine.tokenizer.encode(text[: 6 * count])[:count]
    total, seen = 0.0, 0
    for begin in range(0, len(tokens) - 1, WINDOW):
        window, cache = tokens[begin : begin + WINDOW + 1], engine.open()
        for at in range(0, len(window) - 1, PASS):
            given = window[at : min(at + PASS, len(window) - 1)]
            (rows,) = engine.extend([Chunk(cache, given)])
            wide = rows.astype(np.float64)
            top = wide.max(axis=1, keepdims=True)
            sums = np.log(np.exp(wide - top).sum(axis=1)) + top[:, 0]
            total += float((sums - wide[np.arange(len(given)), window[at + 1 : at + 1 + len(given)]]).sum())
            seen += len(given)
        cache.close()
    return float(np.exp(total / seen))


if __name__ == "__main__":
    main()
