"""llama.cpp's memory stays flat over many requests, and closing gives it back."""

import gc
import os
import random
from pathlib import Path

import pytest
from tiny_gguf import save

from redline.backends import llamacpp
from redline.backends.llamacpp.memory import Memory
from redline.core.pace import Fixed
from redline.core.ports import Chunk
from redline.core.stop import Limits
from redline.drafters import Ngram
from redline.engine import Engine

MB = 1_000_000
MARGIN = 12 * MB
"""Over 500 requests: 24 kB each, less than one of their texts takes."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")


def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def living():
    gc.collect()
    return sum(type(thing) is Memory and thing.handle is not None for thing in gc.get_objects())


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resources")
    return lambda shape: save(shape, folder / f"{shape}.gguf")


def requests(backend, count, seed):
    """Texts of mixed lengths, some at once, each with rewinds and some that fail or are dropped."""
    rng = random.Random(seed)
    held = []
    for i in range(count):
        cache = backend.open()
        held.append(cache)
        backend.extend([Chunk(cache, [rng.randrange(250) for _ in range(rng.choice((3, 40, 300)))], "none")])
        at = cache.length
        backend.extend([Chunk(cache, [rng.randrange(250) for _ in range(6)])])
        cache.rewind(at + rng.randrange(6))
        if backend.traits.trees:
            start = cache.length
            backend.extend([Chunk(cache, [1, 2, 3, 4], "all", [-1, 0, 0, 1])])
            cache.rewind(start, [start, start + 2])
        if i % 50 == 0:
            with pytest.raises(ValueError, match="outside the vocabulary"):
                backend.extend([Chunk(cache, [10**6])])
        while len(held) > 3:
            gone = held.pop(0)
            if rng.random() < 0.9:
                gone.close()
            del gone
    for cache in held:
        cache.close()


@pytest.mark.parametrize(
    ("shape", "shared"), [("llama", False), ("llama", True), ("hybrid", False), ("mixed window", False)]
)
def test_500_requests_leave_nothing(path, shape, shared):
    others = living()
    backend = llamacpp.load(path(shape), threads=1, shared=shared, exact=False)
    requests(backend, 60, seed=1)
    warm = resident()
    requests(backend, 500, seed=2)
    assert resident() - warm < MARGIN
    assert living() - others <= 4
    backend.close()
    assert living() == others


def test_500_texts_through_the_engine(path):
    backend = llamacpp.load(path("llama"), threads=1, exact=False)
    engine = Engine(backend, Ngram(), pace=lambda: Fixed(4), keep=2)

    def run(count):
        for i in range(count):
            prompt = [i % 5, 7, 8, 9, 7, 8, 9] * (1 + i % 7)
            engine.submit(prompt, limits=Limits(4 + i % 9), seed=i)
            while len(engine.live) > 3:
                engine.step()
        while engine.live:
            engine.step()

    run(60)
    warm = resident()
    run(500)
    assert resident() - warm < MARGIN
    engine.close()
    backend.close()


@pytest.mark.parametrize("shared", [False, True])
def test_closing_gives_memory_back(path, shared):
    def use_and_close():
        backend = llamacpp.load(path("llama"), threads=1, shared=shared)
        caches = [backend.open() for _ in range(8)]
        for cache in caches:
            backend.extend([Chunk(cache, [1] * 600, "none")])
        backend.close()

    use_and_close()
    before, others = resident(), living()
    for _ in range(20):
        use_and_close()
    assert resident() - before < MARGIN
    assert living() == others
