"""The kernels: a file's numbers to the bit, and sums that nothing about a pass can change."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.backends.gguf_file import Stored
from redline.backends.native import kernels
from redline.backends.native.kernels import Layers, library
from redline.core.errors import OptionError

TYPES = [
    *(Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1),
    *(Type.Q4_K, Type.Q5_K, Type.Q6_K),
]
PLAIN = (Type.F32, Type.F16, Type.BF16)
HALVES = {Type.Q6_K: (208,)} | dict.fromkeys((Type.Q4_1, Type.Q5_1, Type.Q4_K, Type.Q5_K), (0, 2))
SOURCES = Path(kernels.__file__).parent

pytestmark = pytest.mark.skipif(kernels.find() is None, reason="the kernels were not built: no C compiler")


VARIANTS = {name: at for at, name, runs in kernels.variants() if runs} if library.is_built() else {}


def take(name):
    """The kernels in one variant."""
    return kernels.Kernels(VARIANTS[name], name)


def stored(kind, outputs, inputs, seed=0):
    """A matrix of random bytes; halves are ordinary numbers, now and then a tiny one."""
    rng = np.random.default_rng(seed)
    per_block, size = GGML_QUANT_SIZES[kind]
    if kind in PLAIN:
        raw = rng.normal(0, 1, (outputs, inputs)).astype(np.float32)
        if kind == Type.F16:
            raw = (raw * np.where(rng.random(raw.shape) < 0.1, 2.0**-20, 1)).astype(np.float16)
        if kind == Type.BF16:
            raw = (raw.view(np.uint32) >> 16).astype(np.uint16)
    else:
        raw = rng.integers(0, 256, (outputs, inputs // per_block, size), dtype=np.uint8)
        for at in HALVES.get(kind, (0,)):
            half = rng.normal(0, 1, raw.shape[:2]) * np.where(rng.random(raw.shape[:2]) < 0.1, 2.0**-20, 0.1)
            raw[:, :, at : at + 2] = half.astype(np.float16).view(np.uint8).reshape(*raw.shape[:2], 2)
    return Stored((outputs, inputs), int(kind), raw.reshape(-1).view(np.uint8))


def floats(matrix):
    """The same by the gguf package."""
    raw = matrix.data.reshape(matrix.shape[0], -1)
    if matrix.kind == Type.F32:
        return raw.view(np.float32)
    return (
        raw.view(np.float16).astype(np.float32)
        if matrix.kind == Type.F16
        else dequantize(raw, Type(matrix.kind))
    )


def in_units(x):
    """Rows as the kernels multiply them: whole numbers (rows, units, 32) and powers of two (rows, units)."""
    x = x.reshape(len(x), -1, 32)
    most = np.abs(x).max(-1)
    scale = np.exp2(np.floor(np.log2(np.where(most > 0, most, 1))) - 14)
    return np.clip(np.rint(x / scale[..., None]), -32767, 32767), scale


def rounded(x, kind):
    """Rows as products with this kind see them, in double precision."""
    x = x.double().numpy()
    if kind in PLAIN:
        return x
    whole, scale = in_units(x)
    return (whole * scale[..., None]).reshape(x.shape)


class Layer:
    """A matrix in the kernels, called as torch's layers are."""

    def __init__(self, numbers, *matrices, bias=None):
        self.numbers = numbers
        self.layers = Layers([numbers.pack(matrix) for matrix in matrices], bias)

    def __call__(self, x, after="", other=None):
        return self.numbers.linear(self.layers, x.contiguous(), after, other)


def weights(numbers, matrix, order=None):
    """All weights as the kernels read them."""
    packed = numbers.pack(matrix, order)
    return numbers.rows(packed, list(range(packed.outputs))).numpy()


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_a_files_numbers_are_kept_to_the_bit(kind, name):
    numbers = take(name)
    for outputs, inputs in ((16, 256), (37, 512), (1, 1024)):
        matrix = stored(kind, outputs, inputs, seed=outputs)
        np.testing.assert_array_equal(weights(numbers, matrix), floats(matrix))


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.name)
def test_plain_numbers_may_have_any_number_of_inputs(kind):
    for inputs in (1, 31, 33, 100):
        matrix, numbers = stored(kind, 19, inputs), kernels.find()
        np.testing.assert_array_equal(weights(numbers, matrix), floats(matrix))
        x = torch.randn(3, inputs, generator=torch.Generator().manual_seed(0))
        want = x.double().numpy() @ floats(matrix).T.astype(np.float64)
        np.testing.assert_allclose(Layer(numbers, matrix)(x).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 70),
    outputs=st.integers(1, 150),
    blocks=st.integers(1, 3),
    threads=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_a_row_has_its_bits_in_every_pass_variant_and_thread(kind, rows, outputs, blocks, threads, seed):
    matrix = stored(kind, outputs, 256 * blocks, seed)
    x = torch.randn(rows, 256 * blocks, generator=torch.Generator().manual_seed(seed))
    alone = Layer(take("portable"), matrix)
    whole = Layer(kernels.find(), matrix)(x)
    want = rounded(x, kind) @ floats(matrix).T.astype(np.float64)
    np.testing.assert_allclose(whole.numpy(), want, rtol=1e-3, atol=2e-5 * np.abs(want).max())
    one = seed % rows
    assert torch.equal(alone(x[one : one + 1])[0], whole[one]), "one row in plain C"
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for name in VARIANTS:
            assert torch.equal(Layer(take(name), matrix)(x[one:]), whole[one:]), name
    finally:
        torch.set_num_threads(before)


def fma(a, b, c):
    """a * b + c rounded once: a long double has more bits than the product of two floats."""
    return (a.astype(np.longdouble) * b + c).astype(np.float32)


def test_a_sum_of_floats_is_made_input_by_input():
    matrix = stored(Type.F16, 16, 256)
    w, x = floats(matrix), np.random.default_rng(1).normal(0, 1, 256).astype(np.float32)
    sums = np.zeros(16, np.float32)
    for i in range(256):
        sums = fma(w[:, i], x[i], sums)
    np.testing.assert_array_equal(Layer(kernels.find(), matrix)(torch.from_numpy(x)[None])[0].numpy(), sums)


def test_a_sum_of_whole_numbers_is_made_unit_by_unit():
    """Codes times whole rows exactly; then a scale and an offset for each unit, each step rounded once."""
    matrix = stored(Type.Q4_1, 16, 256)
    blocks = matrix.data.reshape(16, 8, 20)
    scale, offset = (
        np.ascontiguousarray(blocks[:, :, at : at + 2]).view(np.float16)[..., 0].astype(np.float32)
        for at in (0, 2)
    )
    codes = np.concatenate([blocks[:, :, 4:] & 15, blocks[:, :, 4:] >> 4], -1).astype(np.int64)
    read = (codes * scale[..., None] + offset[..., None]).astype(np.float32)
    np.testing.assert_array_equal(read.reshape(16, 256), floats(matrix))
    x = np.random.default_rng(1).normal(0, 1, (1, 256)).astype(np.float32)
    whole, power = (part[0] for part in in_units(x.astype(np.float64)))
    sums = np.zeros(16, np.float32)
    for unit in range(8):
        exact = (codes[:, unit] * whole[unit].astype(np.int64)).sum(-1).astype(np.float32)
        sums = fma(exact, scale[:, unit] * np.float32(power[unit]), sums)
        sums = fma(offset[:, unit], np.float32(whole[unit].sum() * power[unit]), sums)
    np.testing.assert_array_equal(Layer(kernels.find(), matrix)(torch.from_numpy(x))[0].numpy(), sums)


@pytest.mark.parametrize("name", VARIANTS)
def test_rows_of_every_size(name):
    """Each unit has its own power of two; the largest numbers there are, tiny ones, and none at all."""
    matrix = stored(Type.Q8_0, 20, 256)
    x = torch.randn(6, 256, generator=torch.Generator().manual_seed(0))
    x *= torch.tensor([1.0, 1e30, 1e-30, 3.0, 1.0, 0.0])[:, None]
    x[3, 32:64] *= 1e20
    # What these round to has a bit more than there is.
    x[4, :32] = torch.tensor([1.99999994, -1.99999994] * 16)
    got = Layer(take(name), matrix)(x).numpy()
    want = rounded(x, Type.Q8_0) @ floats(matrix).T.astype(np.float64)
    size = np.abs(rounded(x, Type.Q8_0)) @ np.abs(floats(matrix)).T.astype(np.float64)
    assert (np.abs(got - want) <= 1e-6 * size).all()
    assert torch.equal(Layer(take(name), matrix)(1e-40 * torch.ones(1, 256)), torch.zeros(1, 20))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("kind", [Type.Q4_K, Type.Q6_K, Type.F16], ids=lambda kind: kind.name)
def test_what_is_no_number_is_not_hidden(kind, bad):
    """A row with one bad number has no finite result; the other rows do not notice."""
    matrix, x = stored(kind, 33, 256), torch.randn(3, 256)
    x[1, 77] = bad
    for name in VARIANTS:
        y = Layer(take(name), matrix)(x)
        assert not torch.isfinite(y[1]).any(), name
        assert torch.equal(y[[0, 2]], Layer(take(name), matrix)(x[[0, 2]])), name


@pytest.mark.parametrize("name", VARIANTS)
def test_what_follows_a_product(name):
    matrix = stored(Type.Q8_0, 45, 256)
    x, other = torch.randn(5, 256), torch.randn(5, 45)
    bias = torch.randn(45)
    coded = Layer(take(name), matrix, bias=bias)
    y = torch.from_numpy(rounded(x, Type.Q8_0) @ floats(matrix).T.astype(np.float64)) + bias.double()
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(coded(x).double(), y, **close)
    torch.testing.assert_close(coded(x, "swish").double(), torch.nn.functional.silu(y), **close)
    torch.testing.assert_close(coded(x, "times", other).double(), y * other, **close)
    torch.testing.assert_close(coded(x, "plus", other).double(), y + other, **close)


def test_silu_of_anything():
    """Of every size and sign, and the same wherever it stands."""
    size = 4096
    values = torch.cat(
        [torch.linspace(-100, 100, size - 6), torch.tensor([0.0, -0.0, 1e30, -1e30, 1e-30, 3e38])]
    )
    identity = Stored((size, 1), int(Type.F32), values.numpy().view(np.uint8))
    one = torch.ones(1, 1)
    results = [Layer(take(name), identity)(one, "swish")[0] for name in VARIANTS]
    want = torch.nn.functional.silu(values.double())
    # exp ends at 87, so what should vanish is 1e-38 of what it came from.
    torch.testing.assert_close(results[0].double(), want, rtol=3e-7, atol=1e-7)
    assert all(torch.equal(results[0], other) for other in results)


def test_parts_are_one_below_the_other():
    numbers = kernels.find()
    matrices = [stored(kind, n, 512, n) for kind, n in ((Type.Q4_K, 50), (Type.Q6_K, 16), (Type.F32, 7))]
    x = torch.randn(9, 512)
    bias = torch.randn(73)
    together = Layer(numbers, *matrices, bias=bias)(x)
    each = torch.cat([Layer(numbers, matrix)(x) for matrix in matrices], 1)
    assert torch.equal(together, each + bias)


def test_rows_in_another_order():
    matrix, numbers = stored(Type.Q5_K, 20, 256), kernels.find()
    order = np.random.default_rng(0).permutation(20)[:13]
    np.testing.assert_array_equal(weights(numbers, matrix, order), floats(matrix)[order])


def test_a_variant_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(kernels.VARIANT, "avx9000")
    with pytest.raises(OptionError, match="avx9000"):
        kernels.find()


def test_no_kernels_when_none_are_wanted(monkeypatch):
    monkeypatch.setenv(kernels.VARIANT, "none")
    assert kernels.find() is None


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_nothing_is_read_or_written_beyond_its_end(tmp_path):
    """A driver in C, with the compiler's checks of addresses and undefined behaviour, over odd shapes."""
    driver = Path(__file__).with_name("kernels_fuzz.c")
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    program = str(tmp_path / "fuzz")
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    # Loops as loops: the same addresses, and minutes less to compile.
    flags = ["-std=c11", "-O1", "-ffp-contract=off", "-fopenmp", "-DUNROLL=", f"-I{SOURCES}", *checks]
    built = subprocess.run(
        ["cc", *flags, str(driver), *sources, "-lm", "-o", program], capture_output=True, text=True
    )
    if "asan" in built.stderr or "ubsan" in built.stderr:
        pytest.skip("this compiler has no sanitisers")
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "shapes" in ran.stdout
