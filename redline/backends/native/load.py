"""From a checkpoint to a `Model`: tensor by tensor, so that no weight is ever there twice for long."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from torch import Tensor

from redline.backends.gguf_file import Stored
from redline.backends.native.coded import CodedModel
from redline.backends.native.config import Config
from redline.backends.native.kernels import Kernels, Layers, Matrix
from redline.backends.native.linear import Linear, pack, rows_dtype
from redline.backends.native.model import Block, Model
from redline.backends.native.rope import Rotary, side_by_side
from redline.backends.native.weights import GGUFSource, Source
from redline.core.errors import ModelError, UnsupportedModel

L = TypeVar("L")


def build(config: Config, source: Source, device: torch.device, dtype: torch.dtype) -> Model:
    """Load the weights into torch's layers.

    Raises:
        ModelError: A tensor is missing, has another shape than the model, or is none that this engine uses.
    """
    loader = _TorchLoader(config, source, device, dtype)
    blocks, norm, head = loader.all()
    embedding = source.embedding(loader.rows_dtype, device)
    return Model(config, embedding, blocks, norm, head, Rotary(config, device))


def build_coded(config: Config, source: GGUFSource, kernels: Kernels) -> CodedModel:
    """Load the weights as they are in the file.

    Raises:
        ModelError: As `build`.
    """
    loader = _CodedLoader(config, source, kernels)
    blocks, norm, head = loader.all()
    shape = (config.vocab, config.hidden)
    embedding = head.parts[0] if config.tied else loader.matrix("token_embd", shape)
    rotary = Rotary(config, torch.device("cpu"))
    return CodedModel(kernels, config, embedding, blocks, norm, head, rotary)


class _Loader(Generic[L]):
    """Takes tensors in the shape, order, dtype and place that the model wants them in."""

    def __init__(self, config: Config, source: Source, device: torch.device, dtype: torch.dtype) -> None:
        self.config, self.source, self.device, self.dtype = config, source, device, dtype
        self.rows_dtype = rows_dtype(device, dtype)
        self.names = source.names()
        self.used: set[str] = set()

    def all(self) -> tuple[list[Block[L]], Tensor, L]:
        """The blocks, the last norm, and the head; nothing that the model would have must be left over."""
        config = self.config
        blocks = [self.block(f"blk.{i}") for i in range(config.layers)]
        norm = self.norm("output_norm", config.hidden)
        head = self.projection(("token_embd" if config.tied else "output",), (config.vocab,), config.hidden)
        self.used |= {"token_embd.weight", "rope_freqs.weight"}
        if config.tied:
            self.used.add("output.weight")
        left = self.names - self.used
        if left:
            raise UnsupportedModel(
                f"{self.source.name} holds {len(left)} tensors that a {config.architecture} model does not "
                f"use, {min(left)} for one.",
                "It is a variant that the native engine does not run; try the transformers or llama.cpp "
                "backend.",
            )
        return blocks, norm, head

    def projection(self, names: tuple[str, ...], outputs: tuple[int, ...], inputs: int) -> L:
        """One linear layer of several that read the same rows."""
        biases = None
        sizes = list(zip(names, outputs, strict=True))
        if any(f"{name}.bias" in self.names for name in names):  # then an absent one is zero
            biases = torch.cat([self.bias(name, size) for name, size in sizes])
        return self.linear([(name, (size, inputs)) for name, size in sizes], biases)

    def linear(self, weights: list[tuple[str, tuple[int, int]]], bias: Tensor | None) -> L:
        """A layer of the weights of these names and shapes, one below the other."""
        raise NotImplementedError

    def bias(self, name: str, outputs: int) -> Tensor:
        if f"{name}.bias" not in self.names:
            return torch.zeros(outputs, device=self.device, dtype=self.dtype)
        bias = self.take(f"{name}.bias", (outputs,)).to(self.device, self.dtype)
        return self.ordered(name, bias)

    def ordered(self, name: str, rows: Tensor) -> Tensor:
        """Rows of a projection in the order in which `rope` wants them."""
        return side_by_side(rows, self.config.head_dim) if self.moves(name) else rows

    def moves(self, name: str) -> bool:
        """Whether a projection's rows are to be in another order than they are."""
        return name.endswith((".attn_q", ".attn_k")) and not self.config.interleaved

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        self.use(name, shape)
        return self.source.tensor(name)

    def use(self, name: str, shape: tuple[int, ...]) -> None:
        """Make sure that there is such a tensor, and remember that it has its place."""
        if name not in self.names:
            raise ModelError(
                f"{self.source.name} has no tensor {name}.",
                "The file is incomplete; download or convert it again.",
            )
        if self.source.shape(name) != shape:
            raise ModelError(
                f"{self.source.name} has {name} in shape {self.source.shape(name)}, not in {shape}.",
                "The file is inconsistent; download or convert it again.",
            )
        self.used.add(name)

    def norm(self, name: str, width: int) -> Tensor:
        """The weight of a norm, which works on rows outside the linear layers."""
        return self.take(f"{name}.weight", (width,)).to(self.device, self.rows_dtype)

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

    def block(self, at: str) -> Block[L]:
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


class _TorchLoader(_Loader[Linear]):
    def linear(self, weights: list[tuple[str, tuple[int, int]]], bias: Tensor | None) -> Linear:
        rows = [self.ordered(name, self.weight(name, shape)) for name, shape in weights]
        return pack(rows[0] if len(rows) == 1 else torch.cat(rows), bias)

    def weight(self, name: str, shape: tuple[int, int]) -> Tensor:
        return self.take(f"{name}.weight", shape).to(self.device, self.dtype)


class _CodedLoader(_Loader[Layers]):
    source: GGUFSource

    def __init__(self, config: Config, source: GGUFSource, kernels: Kernels) -> None:
        super().__init__(config, source, torch.device("cpu"), torch.float32)
        self.kernels = kernels

    def linear(self, weights: list[tuple[str, tuple[int, int]]], bias: Tensor | None) -> Layers:
        return Layers([self.matrix(name, shape) for name, shape in weights], bias)

    def matrix(self, name: str, shape: tuple[int, int]) -> Matrix:
        """A weight as the file has it; one of a type that the kernels do not keep, in float32."""
        self.use(f"{name}.weight", shape)
        stored = self.source.stored(f"{name}.weight")
        if not self.kernels.keeps(stored.kind):
            plain = self.source.tensor(f"{name}.weight")
            stored = Stored(shape, GGMLQuantizationType.F32, plain.numpy().reshape(-1).view(np.uint8))
        order = self.ordered(name, torch.arange(shape[0])).numpy() if self.moves(name) else None
        packed = self.kernels.pack(stored, order)
        self.source.release(f"{name}.weight")
        return packed
