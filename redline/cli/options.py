"""Options that several commands share, spelled once."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str, typer.Option("--model", help="A known model, a .gguf file or a folder of safetensors.")
]
Draft = Annotated[str, typer.Option("--draft", help="Who guesses: none, ngram, or a model by name or path.")]
Rule = Annotated[str, typer.Option("--rule", help="How guesses are judged; see `redline explain rules`.")]
Pace = Annotated[str, typer.Option("--pace", help="How much to guess; see `redline explain paces`.")]
Depth = Annotated[int, typer.Option("--depth", help="Guesses a step; the pace starts from it.")]
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
Chat = Annotated[
    bool, typer.Option("--chat/--raw", help="Put the prompt into the model's chat template, or not.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu or cuda; cuda where there is one.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="float32, bfloat16 or float16.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads of the target; all cores by default.")
]
