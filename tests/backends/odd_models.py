"""Tiny models that only transformers knows, as folders: windows, positions of all kinds, recurrent states."""

import torch
import transformers

COMMON = {
    "vocab_size": 288,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
WINDOW = 8
ODD = {
    "sliding": ("mistral", {"sliding_window": WINDOW}),
    "mixed windows": ("gemma3_text", {"head_dim": 8, "sliding_window": WINDOW, "num_hidden_layers": 7}),
    "soft caps": ("gemma2", {"head_dim": 8, "sliding_window": WINDOW}),
    "chunked": ("llama4_text", {"attention_chunk_size": WINDOW, "head_dim": 8, "intermediate_size_mlp": 48}),
    "absolute": ("gpt2", {"n_positions": 256}),
    "experts": ("mixtral", {"num_local_experts": 4}),
    "alibi": ("bloom", {"n_head": 4}),
    "own attention": ("falcon", {}),
    "recurrent": ("mamba", {"state_size": 4}),
    "convolution": (
        "lfm2",
        {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    ),
}


def make_odd(shape):
    """A tiny random model, with no weight left at its initial one or zero, and no token that ends a text."""
    kind, sizes = ODD[shape]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **{**COMMON, **sizes})
    config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            spread = 0.2 if weight.dim() > 1 else 0.1
            weight.add_(torch.randn(weight.shape) * spread)
    model.generation_config = transformers.GenerationConfig()
    return model
