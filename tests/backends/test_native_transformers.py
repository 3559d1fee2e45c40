"""The native engine computes what transformers computes, for every architecture and both file formats."""

import numpy as np
import pytest
import torch
from tiny_models import SHAPES, make_reference, reference_logits, save_folder, save_gguf

from redline import backends
from redline.backends.gguf_file import read
from redline.backends.native.config import from_gguf
from redline.backends.native.weights import GGUFSource
from redline.core.ports import Chunk

TOKENS = [(i * 37 + 11) % 258 for i in range(150)]


def logits(backend, tokens):
    return backend.extend([Chunk(backend.open(), tokens)])[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_folder_computes_the_same(shape, tiny):
    backend = backends.open(tiny(shape))
    assert backend.name == "model"
    np.testing.assert_allclose(
        logits(backend, TOKENS), reference_logits(make_reference(shape), TOKENS), atol=2e-4
    )


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "llama 3 rope"])
def test_a_gguf_file_computes_the_same(shape, tmp_path):
    model = make_reference(shape)
    backend = backends.open(save_gguf(model, tmp_path / "tiny.gguf"))
    assert backend.name == "tiny"
    np.testing.assert_allclose(logits(backend, TOKENS), reference_logits(model, TOKENS), atol=2e-4)


def test_quantised_tensors_are_what_gguf_makes_of_them(tmp_path):
    """The embedding, whose rows are dequantised one by one, and a linear layer."""
    model = make_reference("llama 3 rope")
    model.config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    model = type(model)(model.config).eval()
    names = {
        "token_embd.weight": model.model.embed_tokens,
        "blk.1.ffn_up.weight": model.model.layers[1].mlp.up_proj,
    }
    path = save_gguf(model, tmp_path / "tiny.gguf", quantised=names)
    source = GGUFSource(read(path))
    for name, module in names.items():
        module.weight = torch.nn.Parameter(source.tensor(name))
    np.testing.assert_allclose(
        logits(backends.open(path), TOKENS), reference_logits(model, TOKENS), atol=2e-4
    )


def test_sharded_folders_in_half_precision(tmp_path):
    model = make_reference("qwen2")
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.bfloat16())
    expected = reference_logits(model, TOKENS)
    folder = save_folder(model.to(torch.bfloat16), tmp_path / "sharded", max_shard_size="30KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    np.testing.assert_allclose(logits(backends.open(folder), TOKENS), expected, atol=2e-4)
    half = logits(backends.open(folder, precision="bfloat16"), TOKENS)
    assert half.dtype == np.float32
    assert np.abs(half - expected).max() < 0.2 * np.abs(expected).max()


def hub_weights(config, source):
    """The weights of a GGUF llama under Hugging Face's names and in its order of rows."""
    from tiny_models import HUB

    parts = {short: hub for hub, short in HUB.items()}
    for name in source.names():
        *block, short, kind = name.split(".")
        weight = source.tensor(name)
        if short in ("attn_q", "attn_k"):
            weight = (
                weight.view(-1, config.head_dim // 2, 2, config.hidden).transpose(1, 2).reshape(weight.shape)
            )
        yield (
            (f"model.layers.{block[1]}.{parts[short]}.{kind}" if block else f"{parts[short]}.{kind}"),
            weight,
        )


@pytest.fixture(scope="module")
def smollm2_reference(smollm2_path):
    """transformers' own SmolLM2 with the very weights of the file."""
    import transformers

    file = read(smollm2_path)
    config = from_gguf(file)
    hub = transformers.LlamaConfig(
        vocab_size=config.vocab,
        hidden_size=config.hidden,
        intermediate_size=config.inner,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        max_position_embeddings=config.context,
        rms_norm_eps=config.eps,
        rope_theta=config.theta,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(hub)
    model = model.to_empty(device="cpu")
    model.load_state_dict(dict(hub_weights(config, GGUFSource(file))), strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(hub)
    return model.eval()


@pytest.mark.model
@pytest.mark.parametrize(
    ("engine", "bound"),
    # The kernels round rows to 16 bits, 211 times one after another.
    [("smollm2_in_floats", 1e-3), ("smollm2", 2e-2)],
)
def test_smollm2_computes_the_same_and_chooses_the_same_tokens(engine, bound, request, smollm2_reference):
    backend = request.getfixturevalue(engine)
    prompts = [
        "The capital of France is",
        "def fibonacci(n):\n    if n < 2:\n        return n\n",
        "春天来了，花儿开了。",
        '{"name": "Ada", "age": 36}\n{"name":',
    ]
    for prompt in prompts:
        tokens = backend.tokenizer.encode(prompt)
        cache = backend.open()
        rows = backend.extend([Chunk(cache, tokens)])[0]
        assert np.abs(rows - reference_logits(smollm2_reference, tokens)).max() < bound
        for _ in range(16):
            tokens.append(int(rows[-1].argmax()))
            rows = backend.extend([Chunk(cache, tokens[-1:])])[0]
        expected = reference_logits(smollm2_reference, tokens)
        written = len(tokens) - 16
        assert tokens[written:] == expected[written - 1 : -1].argmax(-1).tolist()
