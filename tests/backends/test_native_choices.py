"""What the engine measures and chooses when it loads a model, and what it does where packing is missing."""

import numpy as np
import pytest
import torch
from tiny_models import make_reference, reference_logits
from torch.nn import functional as F  # noqa: N812

from redline import backends
from redline.backends.native import check, linear
from redline.backends.native.attention import SPAN, Blocked, Single, spanned
from redline.backends.native.config import Config
from redline.backends.native.rope import rotate
from redline.core.ports import Chunk
from redline.testing import BackendContract

CPU = torch.device("cpu")
FLOAT = torch.float32
HALF = torch.bfloat16
packs_half = pytest.mark.skipif(
    linear.rows_dtype(CPU, HALF) is HALF, reason="torch packs no bfloat16 on this processor"
)


@pytest.fixture
def forgetful(monkeypatch):
    """No measurement is remembered from other tests."""
    monkeypatch.setattr(check, "_KNOWN", {})


@pytest.fixture
def unpacked(monkeypatch, forgetful):
    """A torch without oneDNN."""

    def missing(*_):
        raise RuntimeError("mkldnn is not available")

    monkeypatch.setattr(linear.Packed, "__init__", missing)


class TestUnpacked(BackendContract):
    @pytest.fixture
    def backend(self, tiny, unpacked):
        return backends.open(tiny("llama"), context=64)

    def test_it_computes_the_same(self, tiny, unpacked):
        backend = backends.open(tiny("llama"))
        rows = backend.extend([Chunk(backend.open(), list(range(50)))])[0]
        np.testing.assert_allclose(rows, reference_logits(make_reference("llama"), range(50)), atol=2e-4)


def test_where_rows_depend_on_each_other_the_traits_say_so(tiny, monkeypatch, forgetful):
    monkeypatch.setattr(check, "linear_floor", lambda *_: None)
    backend = backends.open(tiny("llama"))
    assert not backend.traits.row_invariant
    assert backend.attention == "blocked"
    assert backend.traits.context == 256


def test_where_the_whole_model_does_not_hold_the_traits_say_so(tiny, monkeypatch):
    monkeypatch.setattr("redline.backends.native.backend.NativeBackend._holds", lambda *_: False)
    assert not backends.open(tiny("llama")).traits.row_invariant


class TestOneByOne(BackendContract):
    """With attention computed one row at a time, as where the blocked kernel does not hold."""

    @pytest.fixture
    def backend(self, tiny, monkeypatch, forgetful):
        monkeypatch.setattr(check, "attention_holds", lambda *_: False)
        backend = backends.open(tiny("qwen3"), context=64)
        assert backend.attention == "single"
        assert backend.traits.row_invariant
        return backend


@packs_half
class TestHalf(BackendContract):
    """Weights packed in bfloat16: rows keep their bits, and everything else is float32."""

    chunk_sizes = (1, 2, 3, 5, 8, 16, 24)

    @pytest.fixture(params=["llama", "qwen2", "qwen3"])
    def backend(self, request, tiny):
        backend = backends.open(tiny(request.param), precision="bfloat16", context=192)
        assert backend.traits.dtype == "bfloat16"
        assert backend.traits.row_invariant
        assert backend.open().store.dtype is FLOAT
        return backend


@pytest.fixture
def torch_without_half(monkeypatch, forgetful):
    """A torch, or a processor, for which oneDNN takes no bfloat16."""
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)


@pytest.mark.parametrize("without", ["torch_without_half", "unpacked"])
def test_where_bfloat16_cannot_be_packed_all_of_the_pass_is_in_it(tiny, request, without):
    request.getfixturevalue(without)
    assert isinstance(linear.pack(torch.zeros(4, 4, dtype=HALF), None), linear.Plain)
    backend = backends.open(tiny("llama"), precision="bfloat16")
    assert backend.traits.dtype == "bfloat16"
    cache = backend.open()
    assert cache.store.dtype is HALF
    row = backend.extend([Chunk(cache, [1, 2, 3])])[0][-1]
    expected = reference_logits(make_reference("llama"), [1, 2, 3])[-1]
    np.testing.assert_allclose(row, expected, atol=0.1 * np.abs(expected).max())


class Layer:
    """A linear layer whose bits differ below some numbers of rows."""

    inputs, outputs, biased, dtype = 4, 3, False, FLOAT

    def __init__(self, *odd):
        self.odd = odd

    def __call__(self, x):
        return x[:, :3] + (len(x) if len(x) in self.odd else 0)

    def plus(self, x, other):
        return self(x) + other


@pytest.mark.parametrize(
    ("odd", "floor"), [((), 1), ((1,), 2), ((2,), 4), ((1, 3), 4), ((7,), 8), ((15,), 16), ((33,), None)]
)
def test_the_floor_lies_above_every_odd_size(odd, floor):
    for use in ("", "plus"):
        assert check.linear_floor(Layer(*odd), use, CPU, FLOAT) == floor


def test_the_highest_floor_counts_and_is_measured_once(forgetful):
    assert check.linear([(Layer(1), ""), (Layer(1), "plus")], CPU, FLOAT) == 2
    assert check.linear([(Layer(3), "")], CPU, FLOAT) == 2  # of the same kind and shape: not measured again


class Backwards(linear.Plain):
    """Adds up in float32, backwards for one row alone, and rounds to the dtype of the weights."""

    def __call__(self, x):
        products = (x.float().unsqueeze(1) * self._weight.float()).unbind(-1)
        return sum(products[:: -1 if len(x) == 1 else 1]).to(self.dtype)


@pytest.mark.parametrize("inputs", [64, 65])
def test_another_order_of_sums_is_seen_through_the_rounding(monkeypatch, inputs):
    monkeypatch.setattr(check, "pack", Backwards)
    generator = torch.Generator().manual_seed(0)
    layer = Backwards(torch.randn(16, inputs, generator=generator).to(HALF), None)
    x = torch.randn(8, inputs, generator=generator).to(HALF)
    assert all(torch.equal(layer(x[r : r + 1])[0], row) for r, row in enumerate(layer(x)))
    for use in ("", "swish", "times", "plus"):
        assert check.linear_floor(layer, use, CPU, HALF) == 2


def config(heads, kv_heads, head_dim, context=300):
    return Config("llama", 1, 8, 8, 8, heads, kv_heads, head_dim, context, 1e-5, 1e4)


def test_attention_that_depends_on_its_mates_is_noticed():
    class Leaky(Blocked):
        def __call__(self, q, k, v, prepared):
            return super().__call__(q, k, v, prepared) + (len(q) == 9) * 1e-6

    assert check.attention_holds(Blocked(2, CPU, FLOAT), config(4, 2, 64), CPU, FLOAT)
    assert not check.attention_holds(Leaky(2, CPU, FLOAT), config(4, 2, 64), CPU, FLOAT)


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(9, 3, 64), (4, 4, 16), (3, 1, 10), (14, 2, 64)])
@pytest.mark.parametrize("start", [0, 5, 100, 300])
def test_both_ways_are_attention(heads, kv_heads, head_dim, start):
    rows = 7
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(10, heads, head_dim, generator=generator)
    k, v = (torch.randn(kv_heads, 512, head_dim, generator=generator) for _ in range(2))
    groups = heads // kv_heads
    for way in (Blocked(groups, CPU, FLOAT), Single()):
        given = way.given(rows)
        found = way(q[:given], k, v, way.prepare(start, given))[:rows]
        for r in range(rows):
            keys, values = (x[:, : start + r + 1].repeat_interleave(groups, 0) for x in (k, v))
            weights = F.softmax((keys @ q[r].unsqueeze(-1)).squeeze(-1) / head_dim**0.5, -1)
            expected = (weights.unsqueeze(1) @ values).flatten()
            torch.testing.assert_close(found[r], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 5, 6, 7, 8, 12, 32])
def test_no_block_has_fewer_than_four_query_rows(groups):
    way = Blocked(groups, CPU, FLOAT)
    for rows in range(1, 65):
        given = way.given(rows)
        assert rows <= given < rows + 4
        assert given * groups % 32 not in (1, 2, 3)


def test_spans():
    assert [spanned(n) for n in (1, SPAN, SPAN + 1)] == [SPAN, SPAN, 2 * SPAN]


@pytest.mark.parametrize("dtype", [FLOAT, pytest.param(HALF, marks=packs_half)])
def test_packed_and_plain_layers_do_the_same(dtype):
    generator = torch.Generator().manual_seed(0)
    weight, bias = (torch.randn(shape, generator=generator).to(dtype) for shape in ((20, 12), (20,)))
    x, other = torch.randn(5, 12, generator=generator), torch.randn(5, 20, generator=generator)
    packed, plain = linear.pack(weight, bias), linear.Plain(weight.float(), bias.float())
    assert isinstance(packed, linear.Packed)
    assert (packed.inputs, packed.outputs) == (plain.inputs, plain.outputs) == (12, 20)
    for one, two in (
        (packed(x), plain(x)),
        (packed.swish(x), plain.swish(x)),
        (packed.times(x, other), plain.times(x, other)),
        (packed.plus(x, other), plain.plus(x, other)),
    ):
        error = 1e-5 if dtype is FLOAT else 0.02 * float(two.abs().max())
        torch.testing.assert_close(one.float(), two, atol=error, rtol=0)
    assert (packed(x).dtype, packed.plus(x, other).dtype, packed.dtype) == (FLOAT, FLOAT, dtype)
    assert isinstance(linear.pack(weight.half(), None), linear.Plain)


def test_results_do_not_depend_on_the_number_of_threads(tiny):
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            backend = backends.open(tiny("llama"))
            cache = backend.open()
            backend.extend([Chunk(cache, [i % 250 for i in range(140)], "none")])
            found.append(backend.extend([Chunk(cache, [1, 2, 3])])[0])
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("heads", [3, 12, 40, 48])
def test_turning_a_row_does_not_depend_on_the_rows_beside_it(heads, threads):
    """torch's complex product, one call, rounds the end of a thread's share differently."""
    torch.set_num_threads(threads)
    width = 128
    x = torch.randn((64, heads, width), generator=torch.Generator().manual_seed(0))
    angles = torch.randn((64, 1, 1, width), generator=torch.Generator().manual_seed(1))
    rotations = torch.cat([angles.cos(), angles.sin()], 1)
    whole = rotate(x, rotations)
    for n in (1, 2, 3, 5, 8, 13, 24, 33):
        assert torch.equal(rotate(x[:n], rotations[:n]), whole[:n])
        assert torch.equal(rotate(x[-n:], rotations[-n:]), whole[-n:])
