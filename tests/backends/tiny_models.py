"""Tiny models of every architecture, as Hugging Face folders and as GGUF files."""

import warnings
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from redline.backends.tokenizer.kinds import _BYTES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
COMMON = {"vocab_size": 288, "num_hidden_layers": 3, "max_position_embeddings": 256, "rms_norm_eps": 1e-5}
SHAPES = {
    "llama": (
        "Llama",
        {"hidden_size": 36, "intermediate_size": 52, "num_attention_heads": 9, "num_key_value_heads": 3},
    ),
    "llama biased": (
        "Llama",
        {
            "hidden_size": 48,
            "intermediate_size": 80,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    "llama 3 rope": (
        "Llama",
        {
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": LLAMA3,
        },
    ),
    "linear rope": (
        "Llama",
        {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5},
        },
    ),
    "mistral": (
        "Mistral",
        {
            "hidden_size": 40,
            "intermediate_size": 72,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "head_dim": 10,
            "sliding_window": None,
        },
    ),
    "qwen2": (
        "Qwen2",
        {
            "hidden_size": 56,
            "intermediate_size": 88,
            "num_attention_heads": 7,
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
            "rope_theta": 1e6,
        },
    ),
    "qwen3": (
        "Qwen3",
        {
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 22,
        },
    ),
}


def make_reference(shape):
    """A tiny random transformers model, with nothing left at its initial one or zero."""
    family, sizes = SHAPES[shape]
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**COMMON, **sizes})
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = 0.3 if "norm" in name or "bias" in name else 0.08
            weight.copy_(torch.randn(weight.shape) * spread + (1.0 if "norm" in name else 0.0))
    return model


def make_tokenizer():
    """A byte-level tokenizer of 256 bytes, two merges and two control tokens; the models' heads are wider."""
    vocab = _BYTES | {"he": 256, "Ġt": 257}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[("h", "e"), ("Ġ", "t")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken("<|im_start|>"), AddedToken("<|im_end|>")])
    return core


def save_folder(model, folder, **options) -> Path:
    model.save_pretrained(folder, **options)
    make_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


HUB = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def save_gguf(model, path, quantised=()) -> Path:
    """Write a model as llama.cpp's converter does: Llama's query and key rows are permuted.

    Args:
        model: From transformers.
        path: Where to.
        quantised: Names of tensors to store as Q8_0.
    """
    config = model.config
    arch = {"mistral": "llama"}.get(config.model_type, config.model_type)
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    unused = config.vocab_size - 260
    padding = [f"[PAD{i}]" for i in range(unused)]
    writer.add_token_list([*_BYTES, "he", "Ġt", "<|im_start|>", "<|im_end|>", *padding])
    writer.add_token_types([1] * 258 + [3, 3] + [5] * unused)
    writer.add_eos_token_id(259)
    writer.add_token_merges(["h e", "Ġ t"])
    for hub_name, weight in model.state_dict().items():
        stem, _, kind = hub_name.rpartition(".")
        head, _, rest = stem.partition("layers.")
        number, _, part = rest.partition(".")
        name = f"blk.{number}.{HUB[part]}.{kind}" if rest else f"{HUB[head]}.{kind}"
        if name == "output.weight" and config.tie_word_embeddings:
            continue
        data = weight.detach().float().numpy()
        if arch == "llama" and (".attn_q." in name or ".attn_k." in name):
            n = heads if ".attn_q." in name else kv_heads
            data = data.reshape(n, 2, -1, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)
        if name in quantised:
            kind = gguf.GGMLQuantizationType.Q8_0
            data = gguf.quants.quantize(data, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
        else:
            writer.add_tensor(name, np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def reference_logits(model, tokens):
    """What transformers' own eager forward makes of a text, (tokens, vocab)."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        return model(torch.tensor([list(tokens)])).logits[0].float().numpy()
