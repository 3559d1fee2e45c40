"""A GGUF file of a few kilobytes that llama.cpp's quantiser takes: Llama's tensors without a tokenizer."""

from pathlib import Path

import gguf
import numpy as np

SHAPES = {
    "token_embd.weight": (64, 256),
    "output_norm.weight": (256,),
    "output.weight": (64, 256),
    "blk.0.attn_norm.weight": (256,),
    "blk.0.attn_q.weight": (256, 256),
    "blk.0.attn_k.weight": (128, 256),
    "blk.0.attn_v.weight": (128, 256),
    "blk.0.attn_output.weight": (256, 256),
    "blk.0.ffn_norm.weight": (256,),
    "blk.0.ffn_gate.weight": (48, 256),
    "blk.0.ffn_up.weight": (48, 256),
    "blk.0.ffn_down.weight": (256, 48),  # rows of no whole number of blocks
}


def write(path: Path, *, seed: int = 0, arch: str = "llama", licence: str = "") -> Path:
    """Write the file, in float32."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(64)
    writer.add_embedding_length(256)
    writer.add_block_count(1)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    if licence:
        writer.add_license(licence)
    chance = np.random.default_rng(seed)
    for name, shape in SHAPES.items():
        writer.add_tensor(name, chance.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
