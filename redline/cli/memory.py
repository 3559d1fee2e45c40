"""`redline memory`: what a folder of past answers holds, and its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redline.core.errors import OptionError
from redline.drafters.memory import files


def memory(
    folder: Annotated[Path, typer.Argument(help="The folder that was given to --memory.")],
    clear: Annotated[bool, typer.Option("--clear", help="Delete all that redline keeps there.")] = False,
) -> None:
    """List the files with past answers in a folder, or delete them; nothing else in it is touched."""
    if not folder.is_dir():
        raise OptionError(f"There is no folder {folder}.", "Name one that was given to --memory.")
    kept = files(folder)
    for file in kept:
        typer.echo(f"{file}  {file.stat().st_size} bytes")
        if clear:
            file.unlink()
    typer.echo(f"{len(kept)} files {'deleted' if clear else 'kept'}", err=True)
