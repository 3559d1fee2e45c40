"""Is --strict plain decoding, token for token? And what are the differences without it?

Run: python benchmarks/strict.py [--model NAME] [--draft NAME] [--per-category N] [--tokens N] [--json FILE]

The target runs on llama.cpp in its file's own precision. Every prompt is written three times, greedily and
again with a seed: by plain decoding with one-row passes, with `strict`, and without. Every difference is
explained by `redline.doctor.explain`; one under `strict`, or one that is no near-tie, is a failure.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from redline import backends, models
from redline.bench import read_questions
from redline.bench.machine import commit, machine, versions
from redline.core.metrics import checked_widths
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.doctor import explain
from redline.engine import Engine, generate
from redline.engine.generate import to_tokens
from redline.engine.load import load

WAYS = {"greedy": Sampling(), "seeded": Sampling(temperature=0.8, top_p=0.95)}
SEED = 7


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b")
    parser.add_argument("--per-category", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    target = backends.open(models.find(args.model), backend="llamacpp")
    plain = Engine(target, keep=0)
    loose = load(target, args.draft, keep=0)
    arms = {"strict": load(target, loose.drafter, strict=True), "loose": loose}
    limits = Limits(args.tokens, stop_tokens=frozenset())
    found: list[dict] = []
    same: dict[str, int] = {}
    questions = read_questions(limit=args.per_category)
    for way, sampling in WAYS.items():
        for question in questions:
            prompt = to_tokens(plain, [{"role": "user", "content": question.turns[0]}])
            expected = generate(plain, prompt, sampling, limits, SEED).tokens
            for arm, engine in arms.items():
                result = generate(engine, prompt, sampling, limits, SEED)
                written = result.tokens
                same[f"{way}, {arm}"] = same.get(f"{way}, {arm}", 0) + (written == expected)
                # Only the widths that were used: others may be noisier, and would excuse too much.
                widths = checked_widths(result.steps)
                fork = explain(target, prompt, expected, written, sampling=sampling, seed=SEED, widths=widths)
                if fork:
                    found.append(
                        {
                            "way": way,
                            "arm": arm,
                            "question": question.id,
                            "position": fork.position,
                            "gap": fork.gap if math.isfinite(fork.gap) else None,
                            "noise": fork.noise,
                            "verdict": fork.verdict,
                        }
                    )
                    print(f"{way}, {arm}, {question.id}: {fork.sentence}", flush=True)
    for name, count in same.items():
        print(f"{name}: {count} of {len(questions)} equal to plain decoding")
    if args.json:
        document = {
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
            "model": target.name,
            "dtype": target.traits.dtype,
            "exact_widths": target.traits.exact_widths,
            "prompts": len(questions),
            "tokens": args.tokens,
            "same": same,
            "forks": found,
        }
        args.json.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return any(fork["arm"] == "strict" or fork["verdict"] == "bug" for fork in found)


if __name__ == "__main__":
    sys.exit(main())
