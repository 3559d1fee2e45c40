"""Does a draft model that guesses trees keep more a pass than one that guesses chains, and is it faster?

Run: python benchmarks/trees.py [--model NAME] [--draft NAME] [--tokens N] [--limit N] [--category NAME …]
    [--shapes DEPTH:NODES …] [--pace NAME] [--temperature T] [--json FILE]

For every depth there is an arm that guesses chains of it, and one for each number of nodes that guesses trees
of that depth. All arms and plain decoding take turns on every question. Tokens per pass are counts, the same
on every machine; milliseconds are not.
"""

import argparse
import json
import sys
from pathlib import Path

from tables import breadth

from redline.bench import describe, read_questions, run
from redline.bench.machine import commit, machine, versions
from redline.core.metrics import fold
from redline.core.pace import choose_pace
from redline.core.sampling import Sampling
from redline.core.stop import Limits
from redline.engine import Engine
from redline.engine.load import load

PLAIN = "plain"
SEED = 0


def shape(text: str) -> tuple[int, int]:
    depth, _, nodes = text.partition(":")
    return int(depth), int(nodes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--category", nargs="*", default=())
    parser.add_argument("--shapes", type=shape, nargs="*", default=[(3, 6), (3, 12), (5, 8), (5, 16)])
    parser.add_argument("--pace", default="fixed")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    first = load(args.model, args.draft, backend="native", draft_backend="native", keep=0)
    arms, shapes = {PLAIN: Engine(first.target, keep=0)}, {}
    for depth in dict.fromkeys(depth for depth, _ in args.shapes):
        for nodes in (depth, *(nodes for own, nodes in args.shapes if own == depth)):
            name = f"{depth}:{nodes}"
            shapes[name] = (depth, nodes)
            arms[name] = load(first.target, first.drafter, pace=args.pace, depth=depth, nodes=nodes, keep=0)
    sampling, limits = Sampling(temperature=args.temperature), Limits(args.tokens, stop_tokens=frozenset())
    questions = read_questions(None, args.category, args.limit)
    trials = []
    for trial in run(arms, questions, sampling, limits, seed=SEED):
        trials.append(trial)
        m = trial.result.metrics
        print(f"{trial.question!s:16} {trial.arm:6} {m.tokens_per_step:5.2f} tokens a pass", flush=True)
    plain = {trial.answer: trial.result.tokens for trial in trials if trial.arm == PLAIN}
    document = {
        "format": "redline-trees-1",
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "settings": {
            "tokens": args.tokens,
            "pace": choose_pace(args.pace, None, first.drafter)[0],
            "temperature": args.temperature,
            "seed": SEED,
        },
        "backends": {"target": describe(first.target), "draft": describe(first.drafter.backend)},
        "shapes": shapes,
        "identical": all(trial.result.tokens == plain[trial.answer] for trial in trials),
        "rows": {
            arm: {
                category: _row(
                    [trial for trial in trials if trial.arm == arm and category in (trial.category, "all")]
                )
                for category in (*dict.fromkeys(trial.category for trial in trials), "all")
            }
            for arm in arms
        },
    }
    if args.json:
        args.json.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    print(breadth(document))
    return 0 if document["identical"] and not _worse(document) else 1


def _row(trials: list) -> dict:
    """Counts and seconds of an arm's answers to one kind of question."""
    m = fold(step for trial in trials for step in trial.result.steps)
    return {
        "answers": len(trials),
        "tokens": m.tokens,
        "passes": m.steps,
        "proposed": m.proposed,
        "accepted": m.accepted,
        "seconds": m.seconds,
    }


def _worse(document: dict) -> list[tuple[str, str]]:
    """Where a tree keeps less a pass than the chain of its depth, in every kind of question."""
    rows, found = document["rows"], []
    for arm, (depth, _) in document["shapes"].items():
        for category, row in rows[arm].items():
            chain = rows[f"{depth}:{depth}"][category]
            if row["tokens"] * chain["passes"] < chain["tokens"] * row["passes"]:
                found.append((arm, category))
                print(f"{arm} keeps less than {depth}:{depth} in {category}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
