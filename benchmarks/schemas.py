"""What drafting saves where the text is JSON of a schema: tokens per target pass, over thirty schemas.

Run: python benchmarks/schemas.py [--model NAME] [--tokens N] [--depth N] [--json FILE]

Every text is written greedily under its schema: plainly, with the tokens that the schema forces, and with all
that costs nothing (`--draft auto`). All must be the same text.
"""

import argparse
import json
import sys
from pathlib import Path

from redline import backends, models
from redline.bench import describe
from redline.bench.machine import commit, machine, versions
from redline.core.metrics import fold
from redline.core.pace import Fixed
from redline.core.stop import Limits
from redline.drafters import Compose, Forced, Suffix
from redline.engine import Engine, generate
from redline.grammar import schema

FILE = Path(__file__).parents[1] / "tests" / "grammar" / "schemas.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    target = backends.open(models.find(args.model))
    drafters = {"plain": None, "forced": Forced(), "auto": Compose([Forced(), Suffix()])}
    engines = {arm: Engine(target, each, pace=lambda: Fixed(args.depth)) for arm, each in drafters.items()}
    steps = {arm: [] for arm in engines}
    trials, same = [], True
    cases = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    for number, case in enumerate(cases):
        constraint = schema(case["schema"], target)
        results = {
            arm: generate(engine, case["prompt"], limits=Limits(args.tokens), constraint=constraint)
            for arm, engine in engines.items()
        }
        same = same and len({result.tokens for result in results.values()}) == 1
        for arm, result in results.items():
            steps[arm] += result.steps
            trials.append({"schema": number, "arm": arm, "metrics": result.metrics.to_json()})
        ratios = "  ".join(f"{results[arm].metrics.tokens_per_step:5.2f}" for arm in engines)
        print(f"{number:3}  {ratios}  {results['plain'].text}", flush=True)
    totals = {arm: fold(each) for arm, each in steps.items()}
    for arm, total in totals.items():
        print(
            f"{arm:14} {total.tokens} tokens, {total.tokens_per_step:.2f} a pass, "
            f"{1000 / total.tokens_per_s:.1f} ms a token"
        )
    print(f"the same texts: {'yes' if same else 'no'}")
    if args.json:
        document = {
            "format": "redline-schemas-1",
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
            "settings": {"model": args.model, "tokens": args.tokens, "depth": args.depth},
            "backends": {"target": describe(target)},
            "totals": {arm: total.to_json() for arm, total in totals.items()},
            "trials": trials,
        }
        args.json.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
