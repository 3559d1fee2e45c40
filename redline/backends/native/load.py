"""From a checkpoint to a `Model`: tensor by tensor, so that no weight is ever there twice for long."""

from __future__ import annotations

import torch
from torch import Tensor

from redline.backends.native.config import Config
from redline.backends.native.linear import Linear, pack, rows_dtype
from redline.backends.native.model import Block, Model
from redline.backends.native.rope import Rotary, side_by_side
from redline.backends.native.weights import Source
from redline.core.errors import ModelError, UnsupportedModel


def build(config: Config, source: Source, device: torch.device, dtype: torch.dtype) -> Model:
    """Load the weights.

    Raises:
        ModelError: A tensor is missing, has another shape than the model, or is none that this engine uses.
    """
    loader = _Loader(config, source, device, dtype)
    blocks = [loader.block(f"blk.{i}") for i in range(config.layers)]
    norm = loader.norm("output_norm", config.hidden)
    shape = (config.vocab, config.hidden)
    head = pack(loader.weight("token_embd.weight" if config.tied else "output.weight", shape), None)
    loader.used |= {"token_embd.weight", "rope_freqs.weight"}
    if config.tied:
        loader.used.add("output.weight")
    left = source.names() - loader.used
    if left:
        raise UnsupportedModel(
            f"{source.name} holds {len(left)} tensors that a {config.architecture} model does not use, "
            f"{min(left)} for one.",
            "It is a variant that the native engine does not run; try the transformers or llama.cpp backend.",
        )
    return Model(
        config, source.embedding(loader.rows_dtype, device), blocks, norm, head, Rotary(config, device)
    )


class _Loader:
    """Takes tensors in the shape, order, dtype and place that the model wants them in."""

    def __init__(self, config: Config, source: Source, device: torch.device, dtype: torch.dtype) -> None:
        self.config, self.source, self.device, self.dtype = config, source, device, dtype
        self.rows_dtype = rows_dtype(device, dtype)
        self.names = source.names()
        self.used: set[str] = set()

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name not in self.names:
            raise ModelError(
                f"{self.source.name} has no tensor {name}.",
                "The file is incomplete; download or convert it again.",
            )
        tensor = self.source.tensor(name)
        if tensor.shape != shape:
            raise ModelError(
                f"{self.source.name} has {name} in shape {tuple(tensor.shape)}, not in {shape}.",
                "The file is inconsistent; download or convert it again.",
            )
        self.used.add(name)
        return tensor

    def weight(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A weight or bias of a linear layer."""
        return self.take(name, shape).to(self.device, self.dtype)

    def norm(self, name: str, width: int) -> Tensor:
        """The weight of a norm, which works on rows outside the linear layers."""
        return self.take(f"{name}.weight", (width,)).to(self.device, self.rows_dtype)

    def projection(self, names: tuple[str, ...], outputs: tuple[int, ...], inputs: int) -> Linear:
        """One linear layer of several that read the same rows; absent biases are zero if one is present."""
        weights = [self.rows(name, "weight", (n, inputs)) for name, n in zip(names, outputs, strict=True)]
        biases = None
        if any(f"{name}.bias" in self.names for name in names):
            biases = torch.cat(
                [
                    self.rows(name, "bias", (n,)) if f"{name}.bias" in self.names else weights[0].new_zeros(n)
                    for name, n in zip(names, outputs, strict=True)
                ]
            )
        return pack(weights[0] if len(weights) == 1 else torch.cat(weights), biases)

    def rows(self, name: str, kind: str, shape: tuple[int, ...]) -> Tensor:
        tensor = self.weight(f"{name}.{kind}", shape)
        rotary = name.endswith((".attn_q", ".attn_k")) and not self.config.interleaved
        return side_by_side(tensor, self.config.head_dim) if rotary else tensor

    def head_norm(self, at: str) -> Tensor | None:
        """Qwen3's norms of query and key heads, one row a head."""
        if self.config.architecture != "qwen3":
            return None
        config = self.config
        rows = []
        for name, heads in (("attn_q_norm", config.heads), ("attn_k_norm", config.kv_heads)):
            weight = self.norm(f"{at}.{name}", config.head_dim)
            rows.append(side_by_side(weight, config.head_dim).expand(heads, -1))
        return torch.cat(rows)

    def block(self, at: str) -> Block:
        c = self.config
        queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
        qkv = (f"{at}.attn_q", f"{at}.attn_k", f"{at}.attn_v")
        return Block(
            norm=self.norm(f"{at}.attn_norm", c.hidden),
            qkv=self.projection(qkv, (queries, keys, keys), c.hidden),
            head_norm=self.head_norm(at),
            out=self.projection((f"{at}.attn_output",), (c.hidden,), queries),
            mlp_norm=self.norm(f"{at}.ffn_norm", c.hidden),
            gate=self.projection((f"{at}.ffn_gate",), (c.inner,), c.hidden),
            up=self.projection((f"{at}.ffn_up",), (c.inner,), c.hidden),
            down=self.projection((f"{at}.ffn_down",), (c.hidden,), c.inner),
        )
