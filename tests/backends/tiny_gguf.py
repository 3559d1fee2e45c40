"""Tiny random GGUF files of architectures that only llama.cpp runs: recurrent, hybrid, windowed and odd."""

from pathlib import Path

import gguf
import numpy as np

from redline.backends.tokenizer.kinds import _BYTES

VOCAB, WIDTH, INNER, HEADS, KV_HEADS, HEAD, CONTEXT = 288, 32, 48, 4, 2, 8, 1024
LABELS = [*_BYTES, "he", "Ġt", "<|im_start|>", "<|im_end|>", *(f"[PAD{i}]" for i in range(VOCAB - 260))]
TYPES = [1] * 258 + [3, 3] + [5] * (VOCAB - 260)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)


def attention(i, norms=()):
    """Shapes of a layer's attention and feed-forward part, rows first."""
    return {
        f"blk.{i}.attn_norm.weight": (WIDTH,),
        f"blk.{i}.attn_q.weight": (HEADS * HEAD, WIDTH),
        f"blk.{i}.attn_k.weight": (KV_HEADS * HEAD, WIDTH),
        f"blk.{i}.attn_v.weight": (KV_HEADS * HEAD, WIDTH),
        f"blk.{i}.attn_output.weight": (WIDTH, HEADS * HEAD),
        **feed_forward(i),
        **{f"blk.{i}.{name}.weight": (size,) for name, size in norms},
    }


def feed_forward(i):
    return {
        f"blk.{i}.ffn_norm.weight": (WIDTH,),
        f"blk.{i}.ffn_gate.weight": (INNER, WIDTH),
        f"blk.{i}.ffn_up.weight": (INNER, WIDTH),
        f"blk.{i}.ffn_down.weight": (WIDTH, INNER),
    }


def shortconv(i):
    return {
        f"blk.{i}.attn_norm.weight": (WIDTH,),
        f"blk.{i}.shortconv.conv.weight": (WIDTH, 3),
        f"blk.{i}.shortconv.in_proj.weight": (3 * WIDTH, WIDTH),
        f"blk.{i}.shortconv.out_proj.weight": (WIDTH, WIDTH),
        **feed_forward(i),
    }


def mamba(i):
    return {
        f"blk.{i}.attn_norm.weight": (WIDTH,),
        f"blk.{i}.ssm_in.weight": (4 * WIDTH, WIDTH),
        f"blk.{i}.ssm_conv1d.weight": (2 * WIDTH, 4),
        f"blk.{i}.ssm_conv1d.bias": (2 * WIDTH,),
        f"blk.{i}.ssm_x.weight": (2 + 2 * 16, 2 * WIDTH),
        f"blk.{i}.ssm_dt.weight": (2 * WIDTH, 2),
        f"blk.{i}.ssm_dt.bias": (2 * WIDTH,),
        f"blk.{i}.ssm_a": (2 * WIDTH, 16),
        f"blk.{i}.ssm_d": (2 * WIDTH,),
        f"blk.{i}.ssm_out.weight": (WIDTH, 2 * WIDTH),
    }


def encoder(i):
    return {
        f"blk.{i}.attn_q.weight": (WIDTH, WIDTH),
        f"blk.{i}.attn_k.weight": (KV_HEADS * HEAD, WIDTH),
        f"blk.{i}.attn_v.weight": (KV_HEADS * HEAD, WIDTH),
        f"blk.{i}.attn_output.weight": (WIDTH, WIDTH),
        f"blk.{i}.attn_output_norm.weight": (WIDTH,),
        f"blk.{i}.attn_output_norm.bias": (WIDTH,),
        f"blk.{i}.ffn_up.weight": (INNER, WIDTH),
        f"blk.{i}.ffn_down.weight": (WIDTH, INNER),
        f"blk.{i}.layer_output_norm.weight": (WIDTH,),
        f"blk.{i}.layer_output_norm.bias": (WIDTH,),
        "position_embd.weight": (CONTEXT, WIDTH),
        "token_embd_norm.weight": (WIDTH,),
        "token_embd_norm.bias": (WIDTH,),
    }


QK_NORMS = (("attn_q_norm", HEAD), ("attn_k_norm", HEAD))
POST_NORMS = (("post_attention_norm", WIDTH), ("post_ffw_norm", WIDTH))
SSM = {"ssm.conv_kernel": 4, "ssm.inner_size": 2 * WIDTH, "ssm.state_size": 16, "ssm.time_step_rank": 2}
CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
LFM2 = {"shortconv.l_cache": 3, "attention.head_count_kv": [0, KV_HEADS, 0], "attention.key_length": HEAD}
CONV = [shortconv(0), attention(1, QK_NORMS), shortconv(2)]

SHAPES = {
    "llama": ("llama", {}, [attention(0), attention(1)]),
    "encoder": ("bert", {"attention.layer_norm_epsilon": 1e-5}, [encoder(0)]),
    "recurrent": ("mamba", {**SSM, "attention.head_count": 0}, [mamba(0), mamba(1)]),
    "hybrid": ("lfm2", LFM2, CONV),
    "hybrid window": ("lfm2", {**LFM2, "attention.sliding_window": 8}, CONV),
    "mixed window": (
        "gemma2",
        {**CAPS, "attention.sliding_window": 8},
        [attention(i, POST_NORMS) for i in range(4)],
    ),
    "all window": (
        "gemma3",
        {"attention.sliding_window": 8, "attention.sliding_window_pattern": [True] * 2},
        [attention(i, QK_NORMS + POST_NORMS) for i in range(2)],
    ),
}
"""Name → architecture, its own metadata, the layers' tensors."""


def save(shape, path, meta=None, tokenizer=None, drop=()) -> Path:
    """Write a model.

    Args:
        shape: A name in `SHAPES`.
        path: Where to.
        meta: Metadata of the architecture to add or change; None removes a key.
        tokenizer: The same for the tokenizer.
        drop: Tensors to leave out.
    """
    arch, own, layers = SHAPES[shape]
    numbers = {
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": len(layers),
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD,
        "attention.value_length": HEAD,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "vocab_size": VOCAB,
    }
    words = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": LABELS,
        "token_type": TYPES,
        "merges": ["h e", "Ġ t"],
        "eos_token_id": 259,
        "token_type_count": 2 if arch == "bert" else None,
    }
    norm = "token_embd_norm.weight" if arch in ("lfm2", "bert") else "output_norm.weight"
    shapes = {"token_embd.weight": (VOCAB, WIDTH), norm: (WIDTH,)}
    if arch == "llama":
        shapes["output.weight"] = (VOCAB, WIDTH)
    for layer in layers:
        shapes |= layer
    changed = (meta or {}).get("architecture", arch)
    writer = gguf.GGUFWriter(path, changed)
    for key, value in {**numbers, **own, **(meta or {})}.items():
        if value is not None and key != "architecture":
            add(writer, f"{changed}.{key}", value)
    for key, value in {**words, **(tokenizer or {})}.items():
        if value is not None:
            name = f"tokenizer.{key}" if key == "chat_template" else f"tokenizer.ggml.{key}"
            add(writer, name, value)
    rng = np.random.default_rng(7)
    for name, size in shapes.items():
        if name not in drop:
            writer.add_tensor(name, weights(rng, name, size))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    else:
        writer.add_float32(key, value)


def weights(rng, name, size):
    """Large enough for rows to differ, and for what was read long ago to matter."""
    data = rng.standard_normal(size) * 0.3
    if "norm" in name:
        data += 1.0
    if name.endswith("ssm_a"):
        data = -np.exp(data - 2)
    return data.astype(np.float32)
