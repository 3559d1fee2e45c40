"""A result as files of figures, with matplotlib where it is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redline.bench.figures import FAINT, FIGURES, INK
from redline.bench.report import FORMAT
from redline.core.errors import NotInstalled, OptionError, RedlineError

STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlepad": 26,
    "grid.color": "#e4e4e4",
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.15,
    "svg.hashsalt": "redline",  # the same results give the same file
}


def read(path: Path) -> dict[str, Any]:
    """A result of `redline bench --json`.

    Raises:
        OptionError: The file is none.
    """
    hint = "Give a file that `redline bench --json FILE` wrote."
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"Cannot read results from {path}: {error}.", hint) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise OptionError(f"{path} is no result of redline bench in the format {FORMAT}.", hint)
    return document


def draw(document: Mapping[str, Any], folder: Path, stem: str) -> list[Path]:
    """Draw every figure that the results have numbers for, as PNG and as SVG.

    Args:
        document: As `read` gives it.
        folder: Where the files go; made if it is not there.
        stem: What their names begin with.

    Raises:
        NotInstalled: matplotlib is not here.
        RedlineError: A file cannot be written.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "Install it: pip install 'redline[plot]'."
        raise NotInstalled("Figures need matplotlib, which is not installed.", hint) from error
    files: list[Path] = []
    for name, make in FIGURES.items():
        with rc_context(STYLE):  # type: ignore[arg-type]
            figure = Figure(layout="constrained")
            if not make(figure, document):
                continue
            for kind, about in (("png", {}), ("svg", {"Date": None})):
                files.append(folder / f"{stem}-{name}.{kind}")
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    figure.savefig(files[-1], metadata=about)
                except OSError as error:
                    hint = "Name another folder with --out."
                    raise RedlineError(f"Cannot write {files[-1]}: {error.strerror}.", hint) from error
    return files
