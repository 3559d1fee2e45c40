"""What one row of logits costs to sample, on a vocabulary of 151,936 tokens.

Run: python benchmarks/sampling.py
"""

from time import perf_counter

import numpy as np

from redline import Sampling, distribution
from redline.core.chance import Keyed
from redline.core.types import History

VOCABULARY = 151_936
ROUNDS = 30
SETTINGS = {
    "greedy": Sampling(),
    "temperature 0.8": Sampling(temperature=0.8),
    "temperature 0.8, top-k 40": Sampling(temperature=0.8, top_k=40),
    "temperature 0.8, top-p 0.9": Sampling(temperature=0.8, top_p=0.9),
    "temperature 0.8, top-p 0.9, min-p 0.05, penalties": Sampling(
        temperature=0.8, top_p=0.9, min_p=0.05, repetition_penalty=1.1, frequency_penalty=0.1
    ),
}


def main() -> None:
    rng = np.random.default_rng(0)
    # Shaped like a real model's row: a few likely tokens above a broad floor.
    rows = rng.normal(0, 2, (ROUNDS, VOCABULARY)).astype(np.float32)
    rows[:, :200] += rng.gamma(2, 3, (ROUNDS, 200)).astype(np.float32)
    history = History(list(range(1000)), 500)
    chance = Keyed(1).at(0)
    print(f"{'settings':52} {'row ms':>8} {'draw ms':>8} {'tokens left':>12}")
    for name, settings in SETTINGS.items():
        rows_s, draws_s, sizes = [], [], []
        for i, row in enumerate(rows):
            start = perf_counter()
            dist = distribution(row, settings, history)
            made = perf_counter()
            chance.pick(dist, at=i)
            rows_s.append(made - start)
            draws_s.append(perf_counter() - made)
            sizes.append(len(dist.ids))
        numbers = 1e3 * np.median(rows_s), 1e3 * np.median(draws_s), np.median(sizes)
        print(f"{name:52} {numbers[0]:8.3f} {numbers[1]:8.3f} {numbers[2]:12.0f}")


if __name__ == "__main__":
    main()
