"""Tensors out of a GGUF file or a folder of safetensors, one at a time, under the same names.

The names are GGUF's (`blk.0.attn_q.weight`); `FolderSource` knows what Hugging Face calls them.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redline.backends.gguf_file import GGUFFile, Stored
from redline.core.errors import ModelError, UnsupportedModel

_BLOCK = 1 << 18
"""Numbers to dequantise at a time: few enough for a core's cache, which makes it several times faster."""

_KEPT_ROWS = 16384
"""Dequantised rows of an embedding to keep: 32 MiB for 512 numbers a row, 100 MiB for 1,536."""

HUB_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GGUF_NAMES = {hub: name for name, hub in HUB_NAMES.items()}


class Embedding(Protocol):
    """Token ids → rows of the embedding, (n, hidden), in the dtype of the arithmetic."""

    def __call__(self, tokens: list[int]) -> Tensor: ...


class Source(Protocol):
    """Where tensors come from."""

    name: str

    def names(self) -> set[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def tensor(self, name: str) -> Tensor:
        """One tensor in float32 (or in the file's own float type), on the CPU, not shared with anyone."""
        ...

    def embedding(self, dtype: torch.dtype, device: torch.device) -> Embedding:
        """The token embedding, held as the file has it where that is smaller."""
        ...


class Table:
    """An embedding held as a matrix in its file's float type."""

    def __init__(self, table: Tensor, dtype: torch.dtype) -> None:
        self._table, self._dtype = table, dtype

    def __call__(self, tokens: list[int]) -> Tensor:
        return self._table[tokens].to(self._dtype)


class QuantisedTable:
    """An embedding that stays quantised, a quarter of its size or less; rows are dequantised as they come up.

    The rows that came up last are kept, since texts repeat themselves and one row takes 40 to 190 µs.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = Stored(stored.shape, stored.kind, stored.data.copy())
        self._row = lru_cache(_KEPT_ROWS)(self._dequantise)

    def __call__(self, tokens: list[int]) -> Tensor:
        return torch.stack([self._row(token) for token in tokens])

    def _dequantise(self, token: int) -> Tensor:
        return torch.from_numpy(_dequantised(self._stored, token, token + 1)[0])


class GGUFSource:
    """A GGUF file, any quantisation that the `gguf` package can undo."""

    def __init__(self, file: GGUFFile) -> None:
        self.name = file.path.name
        self._file, self._tensors = file, file.tensors

    def names(self) -> set[str]:
        return set(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def stored(self, name: str) -> Stored:
        """One tensor as it lies in the file."""
        return self._tensors[name]

    def release(self, name: str) -> None:
        """Let go of the file's pages that a tensor takes, when it has been read."""
        self._file.release(self._tensors[name])

    def tensor(self, name: str) -> Tensor:
        stored = self._tensors[name]
        out = np.empty(stored.shape, np.float32)
        flat = out.reshape(-1, stored.shape[-1])
        step = max(1, _BLOCK // flat.shape[1])

        def fill(row: int) -> None:
            flat[row : row + step] = _dequantised(stored, row, min(row + step, len(flat)))

        with ThreadPoolExecutor(torch.get_num_threads()) as workers:
            try:
                list(workers.map(fill, range(0, len(flat), step)))
            except NotImplementedError:
                raise UnsupportedModel(
                    f"{self.name} stores {name} in a quantisation that gguf cannot undo.",
                    "Use a Q4_K_M, Q8_0 or F16 file of the same model.",
                ) from None
        self.release(name)
        return torch.from_numpy(out)

    def embedding(self, dtype: torch.dtype, device: torch.device) -> Embedding:
        stored = self._tensors["token_embd.weight"]
        if device.type == "cpu" and dtype == torch.float32:
            return QuantisedTable(stored)
        return Table(self.tensor("token_embd.weight").to(device, dtype), dtype)


def _dequantised(stored: Stored, first: int, end: int) -> NDArray[np.float32]:
    """Some rows of a stored matrix in float32, (rows, columns)."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    row_bytes = len(stored.data) * stored.shape[-1] // int(np.prod(stored.shape))
    rows = stored.data[first * row_bytes : end * row_bytes].reshape(end - first, row_bytes)
    kind = GGMLQuantizationType(stored.kind)
    if kind in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
        return rows.view("<f4" if kind == GGMLQuantizationType.F32 else "<f2").astype(np.float32)
    plain: NDArray[np.float32] = dequantize(rows, kind)
    return plain


class FolderSource:
    """A folder as Hugging Face writes it: one `.safetensors` file, or several with an index."""

    def __init__(self, folder: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self.name = folder.name
        self._where: dict[str, tuple[Any, str]] = {}
        for path in self._files(folder):
            try:
                file: Any = safe_open(path, framework="pt")
            except (SafetensorError, OSError) as error:
                raise ModelError(
                    f"{path} cannot be read: {error}.",
                    "Download the folder again; this file is damaged or missing.",
                ) from None
            for hub_name in file.keys():  # noqa: SIM118 - not a dict
                self._where[_gguf_name(hub_name)] = (file, hub_name)
        self._where.pop("rotary_emb.inv_freq", None)

    @staticmethod
    def _files(folder: Path) -> list[Path]:
        index = folder / "model.safetensors.index.json"
        if index.exists():
            try:
                return [
                    folder / name
                    for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))
                ]
            except (ValueError, LookupError, AttributeError, TypeError):
                raise ModelError(f"{index} is damaged.", "Download the folder again.") from None
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise UnsupportedModel(
                f"{folder} holds no .safetensors file.",
                "Save the model with save_pretrained, or convert it to GGUF.",
            )
        return files

    def names(self) -> set[str]:
        return set(self._where)

    def shape(self, name: str) -> tuple[int, ...]:
        file, hub_name = self._where[name]
        return tuple(file.get_slice(hub_name).get_shape())

    def tensor(self, name: str) -> Tensor:
        file, hub_name = self._where[name]
        tensor: Tensor = file.get_tensor(hub_name)
        return tensor.clone()  # from the mapped file, which may change once we are done with it

    def embedding(self, dtype: torch.dtype, device: torch.device) -> Embedding:
        table = self.tensor("token_embd.weight").to(device)
        return Table(table if table.element_size() < dtype.itemsize else table.to(dtype), dtype)


def _gguf_name(hub_name: str) -> str:
    """`model.layers.3.mlp.up_proj.weight` → `blk.3.ffn_up.weight`; unknown names stay as they are."""
    if hub_name.endswith("rotary_emb.inv_freq"):  # old checkpoints stored what is computed
        return "rotary_emb.inv_freq"
    match = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)", hub_name)
    if match and match[2] in _GGUF_NAMES:
        return f"blk.{match[1]}.{_GGUF_NAMES[match[2]]}.{match[3]}"
    stem, _, kind = hub_name.rpartition(".")
    return f"{_GGUF_NAMES[stem]}.{kind}" if stem in _GGUF_NAMES else hub_name
