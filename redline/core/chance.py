"""`Keyed`: counter-based noise. The same key gives the same number, on every machine, in any order.

Two kinds of noise come out of one seed:

* tied to a position (`Tied`): keyed by (seed, position, token id) and nothing else. Target and
  drafter that ask about the same position meet the same noise, so the text does not depend on drafter,
  draft length or batch (Gumbel coupling; Daliri, Musco, Suresh, arXiv 2408.07978).
* fresh (`Fresh`): keyed by (seed, step, stream, call). No number is ever used twice: not by two
  siblings at one position, not by a draft made again after a refusal, not by drafting and verifying.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from redline.core.dist import Dist, IntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def mix(key: int, counter: IntArray) -> NDArray[np.uint64]:
    """64 well-mixed bits for each counter under one key (the SplitMix64 finaliser), shape of `counter`."""
    x = counter.astype(np.uint64) * _GOLDEN
    x += np.uint64(key)
    x ^= x >> np.uint64(30)
    x *= _MIX_1
    x ^= x >> np.uint64(27)
    x *= _MIX_2
    x ^= x >> np.uint64(31)
    return x


def uniforms(key: int, counter: IntArray) -> NDArray[np.float64]:
    """Numbers strictly between 0 and 1, one for each counter, shape of `counter`.

    52 bits and a half step keep both ends out: u < p never passes for p = 0 and always for p = 1.
    """
    bits = mix(key, counter) >> np.uint64(12)
    return (bits.astype(np.float64) + 0.5) * 2.0**-52


def derive(*parts: int) -> int:
    """One 64-bit key from several non-negative integers of any size; the order matters."""
    key = 0
    for part in parts:
        for shift in range(0, max(part.bit_length(), 1), 64):
            word = (part >> shift) & 0xFFFFFFFFFFFFFFFF
            key = int(mix(key ^ word, np.ones(1, np.int64))[0])
    return key


def race(dist: Dist, u: NDArray[np.float64]) -> int:
    """The draw from `dist` that the uniforms `u`, one a token, decide: argmin of −log(u) / p.

    The same draw as argmax of log p + Gumbel noise, with one logarithm instead of three.
    """
    with np.errstate(over="ignore"):  # a time beyond the largest float never wins
        return int(dist.ids[np.argmin(-np.log(u) / dist.probs)])


class Keyed:
    """Production noise: a pure function of seed and key. Implements `ports.Noise`.

    Args:
        seed: Any non-negative integer.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def at(self, position: int) -> Tied:
        """Noise shared by everybody who asks about a position; `position` is where `at=0` points."""
        return Tied(self.seed, position)

    def stream(self, name: str, step: int) -> Fresh:
        """Noise that belongs to one stream of one step."""
        return Fresh(self.seed, name, step)


class Tied:
    """Noise tied to positions: the same question always has the same answer. Implements `ports.Chance`."""

    def __init__(self, seed: int, position: int) -> None:
        self._seed = seed
        self._position = position

    def accept(self, p: float, at: int) -> bool:
        """Not available: two coins for one position would be the same coin."""
        raise TypeError("a rule that flips coins needs fresh noise; set its `shared` to False")

    def pick(self, dist: Dist, at: int) -> int:
        """The draw that belongs to this position: always the same for the same distribution."""
        return race(dist, uniforms(derive(self._seed, self._position + at), dist.ids))


class Fresh:
    """A stream of numbers, each used once. Implements `ports.Chance`."""

    def __init__(self, seed: int, name: str, step: int) -> None:
        # The name's checksum, as a word of its own, keeps these keys apart from those of `Tied`.
        self._key = derive(seed, step, crc32(name.encode()))
        self._calls = 0

    def _next(self) -> float:
        self._calls += 1
        return float(uniforms(self._key, np.array([self._calls], np.int64))[0])

    def accept(self, p: float, at: int) -> bool:
        """u < p with a new u."""
        return self._next() < p

    def pick(self, dist: Dist, at: int) -> int:
        """A draw by inverting the distribution function at a new u."""
        return dist.quantile(self._next())
