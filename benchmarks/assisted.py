"""Redline beside the assisted generation of transformers: same weights, precision and prompts, in turns.

Run: pip install accelerate, then
    python benchmarks/assisted.py [--model NAME] [--draft NAME] [--per-category N] [--tokens N] [--json FILE]

transformers reads the same GGUF files, dequantised to float32, as the native engine does. Four arms take
turns on every prompt: its plain `generate`, the same with `assistant_model`, and redline plain and with the
draft. Every time includes reading the prompt. The targets compute the same numbers in the same precision; the
drafts are what each uses by default: transformers' is the file in float32, and redline's is the file in q4_0
under llama.cpp, since a draft's numbers change no text.
"""

import argparse
import json
import warnings
from pathlib import Path
from time import perf_counter

import torch
import transformers
from tables import BESIDE as ARMS
from tables import beside

from redline import models
from redline.bench import read_questions
from redline.bench.machine import commit, describe, machine, versions
from redline.core.stop import Limits
from redline.engine import Engine, generate
from redline.engine.generate import to_tokens
from redline.engine.load import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b")
    parser.add_argument("--per-category", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    drafted = load(args.model, args.draft, precision="float32", keep=0)  # as transformers reads the file
    plain = Engine(drafted.target, keep=0)
    model, assistant = theirs(models.find(args.model)), theirs(models.find(args.draft))
    limits = Limits(args.tokens, stop_tokens=frozenset())

    def ours(engine, prompt):
        return list(generate(engine, prompt, limits=limits).tokens)

    def library(prompt, **options):
        written = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            min_new_tokens=args.tokens,
            max_new_tokens=args.tokens,
            eos_token_id=None,
            pad_token_id=0,
            **options,
        )
        return written[0, len(prompt) :].tolist()

    arms = dict(
        zip(
            ARMS,
            (
                library,
                lambda prompt: library(prompt, assistant_model=assistant),
                lambda prompt: ours(plain, prompt),
                lambda prompt: ours(drafted, prompt),
            ),
            strict=True,
        )
    )
    questions = read_questions(limit=args.per_category)
    warm = to_tokens(plain, [{"role": "user", "content": max((q.turns[0] for q in questions), key=len)}])
    for write in arms.values():
        write(warm)
    trials = []
    for number, question in enumerate(questions):
        prompt = to_tokens(plain, [{"role": "user", "content": question.turns[0]}])
        order = ARMS[number % len(ARMS) :] + ARMS[: number % len(ARMS)]
        for arm in order:
            began = perf_counter()
            tokens = arms[arm](prompt)
            seconds = perf_counter() - began
            trials.append(
                {
                    "question": question.id,
                    "category": question.category,
                    "arm": arm,
                    "seconds": seconds,
                    "tokens": tokens,
                }
            )
            print(f"{question.id:16} {arm:22} {1000 * seconds / len(tokens):7.1f} ms/token", flush=True)
    document = {
        "format": "redline-assisted-1",
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "settings": {"model": args.model, "draft": args.draft, "tokens": args.tokens},
        "backends": {"target": describe(drafted.target), "draft": describe(drafted.drafter.backend)},
        "trials": trials,
    }
    if args.json:
        args.json.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    print(beside(document))


def theirs(path: Path) -> transformers.PreTrainedModel:
    """A GGUF file as transformers reads it, in float32, with the prompts' own settings out of the way."""
    found = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    ).eval()
    found.generation_config = transformers.GenerationConfig()
    return found


if __name__ == "__main__":
    main()
