"""What a checkpoint says about its model, reduced to the numbers that the forward pass needs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redline.backends.gguf_file import GGUFFile
from redline.core.errors import ContextError, ModelError, UnsupportedModel

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
_ELSEWHERE = (
    "Run it with the transformers or the llama.cpp backend, or choose a Llama, Mistral, Qwen2 or Qwen3 model."
)


@dataclass(frozen=True, slots=True)
class Config:
    """The shape of a Llama-like decoder.

    Attributes:
        architecture: "llama", "qwen2" or "qwen3".
        layers, hidden, inner, vocab: Blocks, width of the residual, of the MLP, and of the logits.
        heads, kv_heads, head_dim: Query heads, key/value heads, and the width of one.
        context: Positions.
        eps: What RMS norm adds to the mean square.
        theta: Base of the rotary frequencies.
        slow_down: What each rotary frequency is divided by, (head_dim / 2,), or None for 1.
        interleaved: The file has rotary pairs side by side, as the forward pass wants them; if not,
            the two halves of a head make the pairs, and its rows are reordered on loading.
        tied: The output layer is the embedding.
    """

    architecture: str
    layers: int
    hidden: int
    inner: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    eps: float
    theta: float
    slow_down: tuple[float, ...] | None = None
    interleaved: bool = False
    tied: bool = False

    @property
    def groups(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.kv_heads


def from_gguf(file: GGUFFile, context: int | None = None) -> Config:
    """Read the model's shape from GGUF metadata.

    Raises:
        ModelError: The architecture, or something in it, is not one that this engine runs.
        ContextError: `context` is longer than the model's.
    """
    meta = file.metadata
    arch = str(meta.get("general.architecture"))
    name = file.path.name
    if meta.get("split.count", 1) > 1:
        raise UnsupportedModel(
            f"{name} is one of several files, which the native engine does not join.", _ELSEWHERE
        )
    if arch not in ARCHITECTURES.values():
        raise UnsupportedModel(
            f"{name} is a {arch!r} model, which the native engine does not run.", _ELSEWHERE
        )

    def get(key: str, default: Any = None) -> Any:
        value = meta.get(f"{arch}.{key}", default)
        if value is None:
            raise ModelError(
                f"{name} does not say its {arch}.{key}.", "Convert the model again with a present llama.cpp."
            )
        return value

    if get("expert_count", 0):
        raise UnsupportedModel(
            f"{name} is a mixture of experts, which the native engine does not run.", _ELSEWHERE
        )
    if isinstance(get("attention.head_count"), list) or isinstance(get("feed_forward_length"), list):
        raise UnsupportedModel(f"{name} has layers of different shapes, which is not supported.", _ELSEWHERE)
    heads, hidden = int(get("attention.head_count")), int(get("embedding_length"))
    head_dim = int(get("attention.key_length", hidden // max(heads, 1)))
    scaling = get("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedModel(
            f"{name} scales its rotary positions by {scaling!r}, which is not supported.", _ELSEWHERE
        )
    factors = _rope_factors(file)
    if factors is None and scaling == "linear":
        factors = (float(get("rope.scaling.factor")),) * (head_dim // 2)
    return _checked(
        name,
        Config(
            architecture=arch,
            layers=int(get("block_count")),
            hidden=hidden,
            inner=int(get("feed_forward_length")),
            vocab=file.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in file.tensors else 0,
            heads=heads,
            kv_heads=int(get("attention.head_count_kv", heads)),
            head_dim=head_dim,
            context=_context(
                name, int(get("context_length")), meta.get(f"{arch}.attention.sliding_window"), context
            ),
            eps=float(get("attention.layer_norm_rms_epsilon")),
            theta=float(get("rope.freq_base", 10000.0)),
            slow_down=factors,
            interleaved=arch == "llama",
            tied="output.weight" not in file.tensors,
        ),
        rotary=int(get("rope.dimension_count", head_dim)),
        value_dim=int(get("attention.value_length", head_dim)),
    )


def _rope_factors(file: GGUFFile) -> tuple[float, ...] | None:
    """Llama 3's frequency divisors, which its GGUF files carry as a tensor."""
    stored = file.tensors.get("rope_freqs.weight")
    return None if stored is None else tuple(stored.data.view("<f4").tolist())


def from_folder(folder: Path, context: int | None = None) -> Config:
    """Read the model's shape from a `config.json`.

    Raises:
        ModelError: The file is missing or damaged, or the model is not one that this engine runs.
        ContextError: `context` is longer than the model's.
    """
    name = folder.name
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = (raw.get("architectures") or ["unknown"])[0]
    except (OSError, ValueError, AttributeError, LookupError):
        raise ModelError(
            f"{folder} has no readable config.json.", "Point at a complete model folder."
        ) from None
    if kind not in ARCHITECTURES:
        raise UnsupportedModel(f"{name} is a {kind}, which the native engine does not run.", _ELSEWHERE)
    if raw.get("quantization_config"):
        raise UnsupportedModel(
            f"{name} holds quantised weights.", "Use the original folder, or a GGUF file of the model."
        )
    if raw.get("hidden_act", "silu") not in ("silu", "swish"):
        raise UnsupportedModel(
            f"{name} uses {raw['hidden_act']!r} in its MLP, which is not supported.", _ELSEWHERE
        )
    try:
        heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
        head_dim = int(raw.get("head_dim") or hidden // heads)
        rope = {"rope_theta": raw.get("rope_theta", 10000.0)}
        rope |= raw.get("rope_parameters") or raw.get("rope_scaling") or {}
        window = raw.get("sliding_window") if raw.get("use_sliding_window", True) else None
        config = Config(
            architecture=ARCHITECTURES[kind],
            layers=int(raw["num_hidden_layers"]),
            hidden=hidden,
            inner=int(raw["intermediate_size"]),
            vocab=int(raw["vocab_size"]),
            heads=heads,
            kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=head_dim,
            context=_context(name, int(raw["max_position_embeddings"]), window, context),
            eps=float(raw.get("rms_norm_eps", 1e-6)),
            theta=float(rope["rope_theta"]),
            slow_down=_slow_down(name, rope, head_dim),
            tied=bool(raw.get("tie_word_embeddings", False)),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        if isinstance(error, ContextError):
            raise
        raise ModelError(
            f"{folder / 'config.json'} lacks a usable {error}.", "Point at a complete model folder."
        ) from None
    return _checked(name, config, rotary=round(head_dim * float(rope.get("partial_rotary_factor", 1.0))))


def _slow_down(name: str, rope: Mapping[str, Any], head_dim: int) -> tuple[float, ...] | None:
    """What each rotary frequency is divided by under the checkpoint's scaling rule."""
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind == "linear":
        return (float(rope["factor"]),) * (head_dim // 2)
    if kind != "llama3":
        raise UnsupportedModel(
            f"{name} scales its rotary positions by {kind!r}, which is not supported.", _ELSEWHERE
        )
    factor, low, high = (float(rope[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    old = float(rope["original_max_position_embeddings"])
    divisors = []
    for i in range(head_dim // 2):
        turns = old / (2 * math.pi) * float(rope["rope_theta"]) ** (-2 * i / head_dim)
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        divisors.append(1 / ((1 - smooth) / factor + smooth))
    return tuple(divisors)


def _context(name: str, own: int, window: int | None, asked: int | None) -> int:
    """The positions to offer, within the model's own and within its attention window."""
    if asked is not None and not 0 < asked <= own:
        raise ContextError(
            f"{name} has a context of {own}; {asked} is not within it.", f"Ask for 1 to {own}."
        )
    context = asked or own
    if window and window < context:
        raise UnsupportedModel(
            f"{name} attends to a sliding window of {window} tokens, which the native engine does not run.",
            f"Within the window it is an ordinary model: open it with context={window}.",
        )
    return context


def _checked(name: str, config: Config, rotary: int, value_dim: int | None = None) -> Config:
    """Refuse shapes that the forward pass would silently get wrong."""
    fits = (
        min(config.layers, config.hidden, config.inner, config.vocab, config.heads, config.kv_heads) > 0
        and config.heads % config.kv_heads == 0
        and config.head_dim % 2 == 0
        and value_dim in (None, config.head_dim)
        and (config.slow_down is None or len(config.slow_down) == config.head_dim // 2)
    )
    if not fits:
        raise UnsupportedModel(f"{name} has a shape that is not a Llama model's: {config}.", _ELSEWHERE)
    if rotary != config.head_dim:
        raise UnsupportedModel(
            f"{name} rotates {rotary} of {config.head_dim} head dimensions, which is not supported.",
            _ELSEWHERE,
        )
    return config
