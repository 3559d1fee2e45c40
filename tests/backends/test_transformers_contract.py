"""Models of the transformers library keep the contract of backends, whatever their attention is like."""

import hypothesis
import numpy as np
import pytest
import torch
from odd_models import ODD, make_odd
from tiny_models import make_reference, save_folder

from redline.backends import transformers as backend_of
from redline.backends.chunks import Slots
from redline.core.errors import ContextError, RewindError
from redline.core.ports import Chunk
from redline.testing import BackendContract, backend_machine

TOGETHER = ("llama", "qwen2", "sliding", "mixed windows", "soft caps", "chunked", "absolute", "experts")
ALONE = ("alibi", "own attention")
RECURRENT = ("recurrent", "convolution")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Shape's name → the model and its folder."""
    made = {}

    def get(shape):
        if shape not in made:
            model = make_odd(shape) if shape in ODD else make_reference(shape)
            made[shape] = model, save_folder(model, tmp_path_factory.mktemp("tiny") / "model")
        return made[shape]

    return get


@pytest.fixture(scope="module")
def opened(models):
    made = {}

    def get(shape):
        if shape not in made:
            made[shape] = backend_of.load(models(shape)[1], context=96)
        return made[shape]

    return get


@pytest.fixture(params=[*TOGETHER, *ALONE, *RECURRENT])
def shape(request):
    return request.param


class TestTiny(BackendContract):
    @pytest.fixture
    def backend(self, shape, opened):
        return opened(shape)

    def test_it_reads_in_the_best_way_that_its_attention_allows(self, backend, shape):
        found = backend.reading, backend.traits.rollback, backend.traits.trees
        expected = {
            **dict.fromkeys(TOGETHER, ("all texts in one pass", "truncate", True)),
            **dict.fromkeys(ALONE, ("one text at a time", "truncate", False)),
            "recurrent": ("one token at a time", "none", False),
            "convolution": ("one text at a time", "none", False),
        }
        assert found == expected[shape]

    def test_its_rows_are_the_models_own(self, backend, shape, models):
        tokens = self.tokens(backend, 40)
        with torch.inference_mode():
            expected = models(shape)[0](torch.tensor([tokens]), use_cache=False).logits[0].numpy()
        rows = backend.extend([Chunk(backend.open(), tokens)])[0]
        np.testing.assert_allclose(rows, expected, atol=1e-4)


@pytest.mark.parametrize("shape", ["mixed windows", "chunked", "own attention", "convolution"])
def test_any_history_equals_reading_from_scratch(opened, shape):
    case = backend_machine(lambda: opened(shape), most_tokens=40)
    case.settings = hypothesis.settings(max_examples=10, stateful_step_count=15, deadline=None)
    case("runTest").runTest()


def test_a_wide_tree_that_crosses_the_window_is_its_lines(opened):
    backend = opened("mixed windows")
    rng = np.random.default_rng(0)
    prompt, nodes = rng.integers(0, 258, 13).tolist(), rng.integers(0, 258, 40).tolist()
    parents = [i - 1 if i % 11 else int(rng.integers(-1, i)) if i else -1 for i in range(40)]
    cache = backend.open()
    backend.extend([Chunk(cache, prompt, "none")])
    rows = backend.extend([Chunk(cache, nodes, "all", parents)])[0]
    for leaf in (10, 21, 39):
        line, node = [], leaf
        while node >= 0:
            line.insert(0, node)
            node = parents[node]
        text = [*prompt, *(nodes[i] for i in line)]
        alone = backend.extend([Chunk(backend.open(), text)])[0][len(prompt) :]
        np.testing.assert_allclose(rows[line], alone, atol=1e-4)


def test_a_tree_may_be_left_standing_and_grown(opened):
    backend = opened("llama")
    cache, chain = backend.open(), backend.open()
    backend.extend([Chunk(cache, list(range(6)), "none"), Chunk(chain, [*range(6), 10, 30, 40], "none")])
    backend.extend([Chunk(cache, [10, 20, 30, 40], "none", [-1, 0, 0, 2])])
    rows = backend.extend([Chunk(cache, [50, 60])])[0]
    np.testing.assert_allclose(rows, backend.extend([Chunk(chain, [50, 60])])[0], atol=1e-4)
    cache.rewind(6, [6, 8, 9, 10, 11])
    assert cache.settled == cache.length == 11
    rows, expected = backend.extend([Chunk(cache, [70]), Chunk(chain, [70])])
    np.testing.assert_allclose(rows, expected, atol=1e-4)


@pytest.mark.parametrize("shape", ["qwen2", "mixed windows", "alibi"])
def test_a_cache_that_grows_keeps_what_it_has(models, shape):
    backend = backend_of.load(models(shape)[1])
    tokens = np.random.default_rng(1).integers(0, 258, 250).tolist()
    cache = backend.open()
    rows = [backend.extend([Chunk(cache, tokens[i : i + 25])])[0] for i in range(0, 250, 25)]
    whole = backend.extend([Chunk(backend.open(), tokens)])[0]
    np.testing.assert_allclose(np.concatenate(rows), whole, atol=1e-4)


@pytest.mark.parametrize("shape", ["llama", "alibi"])
def test_what_does_not_fit_is_refused_before_anything_changes(opened, shape):
    backend = opened(shape)
    cache = backend.open()
    backend.extend([Chunk(cache, [1] * 90, "none")])
    with pytest.raises(ContextError, match=r"90 \+ 7 tokens do not fit model's context of 96"):
        backend.extend([Chunk(cache, [1] * 7)])
    assert cache.length == 90
    assert backend.extend([Chunk(cache, [1] * 6, "last")])[0].shape == (1, 288)
    assert backend.extend([]) == []


def test_what_is_closed_says_so(models):
    backend = backend_of.load(models("llama")[1])
    cache = backend.open()
    cache.close()
    assert isinstance(cache, Slots)
    with pytest.raises(RewindError, match="closed"):
        cache.rewind(0)
    with pytest.raises(ValueError, match="closed"):
        backend.extend([Chunk(cache, [1])])
    backend.close()
    with pytest.raises(ValueError, match="model is closed"):
        backend.open()


def test_a_tree_is_refused_where_attention_knows_none(opened):
    backend = opened("alibi")
    with pytest.raises(ValueError, match="takes no trees"):
        backend.extend([Chunk(backend.open(), [1, 2, 3], "all", [-1, 0, 0])])


@pytest.mark.parametrize("shape", ["llama", "sliding", "absolute", "alibi"])
def test_half_precision_is_close(models, shape):
    backend = backend_of.load(models(shape)[1], precision="bfloat16")
    assert backend.traits.dtype == "bfloat16"
    tokens = list(range(30))
    rows = backend.extend([Chunk(backend.open(), tokens)])[0]
    other = backend_of.load(models(shape)[1])
    expected = other.extend([Chunk(other.open(), tokens)])[0]
    assert rows.dtype == np.float32
    assert np.abs(rows - expected).max() < 0.1 * np.abs(expected).max()


def test_the_model_outside_of_a_pass_is_the_librarys_own(models):
    """Our names in transformers' registers change nothing for those who use the model directly."""
    model = models("sliding")[0]
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        expected = model(tokens).logits
        before = model.config._attn_implementation
        for plain in ("sdpa", "eager"):
            model.set_attn_implementation(f"redline_{plain}")
            torch.testing.assert_close(model(tokens).logits, expected, atol=1e-5, rtol=0)
        model.set_attn_implementation(before)
