"""Draws docs/redlined.svg: a real answer of smollm2-135m, redlined.

Run: python benchmarks/picture.py
"""

import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

import redline
from redline.bench import read_questions
from redline.cli.render import legend, redlined
from redline.engine.generate import to_tokens

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "redlined.svg"

QUESTION = "edit-1"
"""Of the built-in set: a class is to be written again with docstrings."""


def main() -> None:
    engine = redline.load("smollm2-135m", draft="ngram")
    console = Console(record=True, width=96, file=io.StringIO(), force_terminal=True, highlight=False)
    question = next(question for question in read_questions() if question.id == QUESTION)
    tokens = to_tokens(engine, [{"role": "user", "content": question.turns[0]}])
    legend(console)
    console.print()
    text = redline.stream(engine, tokens, limits=redline.Limits(170))
    while step := text.step():
        console.print(redlined(step, engine.target.tokenizer, console), end="")
    console.print()
    # The reader's own monospaced font will do; a picture should fetch nothing.
    style = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    title = "redline generate --draft ngram --marks"
    PICTURE.write_text(console.export_svg(title=title, code_format=style), encoding="utf-8")


if __name__ == "__main__":
    main()
