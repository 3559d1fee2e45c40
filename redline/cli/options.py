"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[str, typer.Option("--model", help="A known model, a .gguf file or a model folder.")]
Draft = Annotated[
    str,
    typer.Option(
        "--draft",
        help="Who guesses: none, auto, a drafter of `redline explain drafters`, a model by name or path, "
        "or several of them, joined by +: the best of them, unless `first:` or `merge:` stands before.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="Keep answers in this folder, and guess from them; see `redline memory`."),
]
Rule = Annotated[str, typer.Option("--rule", help="How guesses are judged; see `redline explain rules`.")]
Pace = Annotated[
    str | None,
    typer.Option("--pace", help="How much to guess; see `redline explain paces`. By drafter when left out."),
]
Depth = Annotated[
    int | None, typer.Option("--depth", help="Guesses a step; the pace starts from it, or from its own.")
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        help="Guesses a step in all; more than --depth lets a draft model guess several candidates.",
    ),
]
Temperature = Annotated[float, typer.Option("--temperature", help="0 is greedy.")]
TopK = Annotated[int, typer.Option("--top-k", help="Keep the k most probable tokens; 0 keeps all.")]
TopP = Annotated[float, typer.Option("--top-p", help="Keep the nucleus of this mass; 1 keeps all.")]
MinP = Annotated[
    float, typer.Option("--min-p", help="Keep tokens at least this fraction as probable as the top.")
]
DraftTemperature = Annotated[
    float | None, typer.Option("--draft-temperature", help="A draft model's own; the target's by default.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Repeats a run; a fresh one by default.")]
Schema = Annotated[
    Path | None, typer.Option("--schema", help="Write JSON that the JSON schema in this file describes.")
]
Regex = Annotated[
    str | None, typer.Option("--regex", help="Write a text that matches this expression as a whole.")
]
Chat = Annotated[
    bool, typer.Option("--chat/--raw", help="Put the prompt into the model's chat template, or not.")
]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend", help="native, llamacpp, transformers, or auto: the one measured to be fastest."
    ),
]
DraftBackend = Annotated[
    str | None, typer.Option("--draft-backend", help="The same for a draft model; llamacpp for a GGUF file.")
]
DraftPrecision = Annotated[
    str | None,
    typer.Option(
        "--draft-precision", help="Convert a draft's GGUF file first, to q4_0 or another; `file` never."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Only passes with plain decoding's bits, however many it takes.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu or cuda; cuda where there is one.")]
Precision = Annotated[
    str | None, typer.Option("--precision", help="float32, bfloat16, float16, or file: a GGUF file's own.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads; one a core by default.")]
Context = Annotated[int | None, typer.Option("--context", min=1, help="Fewer positions than the target has.")]
GpuLayers = Annotated[
    int | None,
    typer.Option("--gpu-layers", min=0, help="llama.cpp: layers on a GPU; all where there is one."),
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="transformers: run code that comes with a model.")
]
