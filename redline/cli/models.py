"""`redline models`: list, pull, convert, find and verify model files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from redline import models
from redline.backends.llamacpp.quantise import PRECISIONS
from redline.core.errors import ModelError
from redline.models import Model
from redline.models import convert as conversion
from redline.models.cache import HUB, is_whole, lookup, path_of

app = typer.Typer(help="List, pull, convert and verify model files.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@app.command("list")
def show(as_json: Json = False) -> None:
    """List the models that have a name, and which of them are on this machine."""
    rows = [_describe(model) for model in models.known().values()]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = _table("name", "size", "kind", "licence", "here", "about")
    for model, row in zip(models.known().values(), rows, strict=True):
        about = model.about + " (default)" * (model.name == models.DEFAULT)
        table.add_row(model.name, model.size, model.kind, model.licence or "?", str(row["here"]), about)
    Console().print(table)


@app.command()
def pull(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Names from the list, or hf:owner/repo/file.gguf.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Get the file again even when it is here.")] = False,
) -> None:
    """Get models into the cache and print their paths.

    A pull that is stopped keeps the parts it has; the same command goes on from there.
    """
    # A wrong name among them must not come to light after the first gigabyte.
    for name in [name if name.startswith(HUB) else lookup(name).name for name in names]:
        try:
            typer.echo(pull_one(name, force))
        except KeyboardInterrupt:
            typer.echo(f"Stopped. Pull {name} again to go on: finished parts are kept.", err=True)
            raise typer.Exit(130) from None


@app.command()
def convert(
    name: Annotated[str, typer.Argument(help="A name from the list, or the path of a GGUF file.")],
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="PRECISION", help=f"{', '.join(PRECISIONS)}; may be repeated."),
    ],
    force: Annotated[bool, typer.Option("--force", help="Make the file again even when it is here.")] = False,
) -> None:
    """Write a model in other precisions into the cache, and print the paths.

    llama.cpp's own quantiser does it. The new files have names: qwen2.5-coder-1.5b-q8_0, say.
    """
    wanted = [conversion.checked(each) for each in to]
    for each in wanted:
        try:
            typer.echo(_convert_one(name, each, force))
        except KeyboardInterrupt:
            typer.echo(f"Stopped. Nothing is left of {name} as {each}.", err=True)
            raise typer.Exit(130) from None


@app.command()
def path(name: Annotated[str, typer.Argument(help="A name from `redline models list`.")]) -> None:
    """Print where a model's file lies."""
    typer.echo(models.find(name))


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="All that are here by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read model files whole and compare their SHA-256 with the known ones."""
    chosen = [lookup(name) for name in names or ()] or [
        model for model in models.known().values() if path_of(model).is_file()
    ]
    rows, errors = [], []
    for model in chosen:
        try:
            models.verify(model.name)
            problem = None
        except ModelError as error:
            problem = error.message
            errors.append(error)
        rows.append({"name": model.name, "path": str(path_of(model)), "ok": not problem, "problem": problem})
    _print_verified(rows, as_json)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        for each in errors:
            typer.echo(each.message, err=True)
        bad = [model for model, row in zip(chosen, rows, strict=True) if not row["ok"]]
        raise ModelError(
            f"{len(errors)} of {len(rows)} models are not as they should be.",
            f"Get them again: {_remedies(bad)}.",
        )


def pull_one(name: str, force: bool = False) -> Path:
    """Get one model with a progress bar on stderr."""
    notes = Console(stderr=True, highlight=False)
    model = models.known().get(name)
    if model and is_whole(model) and not force:
        try:
            file = models.verify(name)
        except ModelError as error:
            notes.print(f"{error.message} Getting it again.", soft_wrap=True)
            return pull_one(name, force=True)
        notes.print(f"{name} is already here ({model.size}), and its SHA-256 is right.")
    elif name.startswith(HUB) or (model and not model.parts):
        file = models.pull(name, force=force)  # the hub's library draws its own bar
    else:
        with _bar(notes, f"Pulling {name} ...", name) as progress:
            file = models.pull(name, force=force, progress=progress)
        notes.print(f"{name} is here and its SHA-256 is right.")
    return file


def _convert_one(name: str, to: str, force: bool) -> Path:
    """Make one precision of a model with a progress bar on stderr."""
    notes = Console(stderr=True, highlight=False)
    source = models.find(name)
    here = conversion.at_hand(source, to)
    if here == source:
        notes.print(f"{name} is in {to} already: nothing to convert.", soft_wrap=True)
        return source
    if here and not force:
        notes.print(f"{name} as {to} is already here, and {name} has not changed since.", soft_wrap=True)
        return here
    if conversion.adds_nothing(source, to):
        notes.print(f"{to} takes more room than {name} does, and makes it no more exact.", soft_wrap=True)
    with _bar(notes, f"Converting {name} to {to} ...", name) as progress:
        file = conversion.convert(name, to, force=force, progress=progress)
    notes.print(f"{file.stem} is here ({lookup(file.stem).size}); its SHA-256 is noted.", soft_wrap=True)
    return file


def _remedies(bad: list[Model]) -> str:
    """The commands that get models again, all pulls in one."""
    pulled = [model.name for model in bad if not model.origin]
    commands = [f"redline models pull --force {' '.join(pulled)}"] * bool(pulled)
    commands += [model.remedy for model in bad if model.origin]
    return " and ".join(f"`{command}`" for command in commands)


@contextmanager
def _bar(console: Console, begins: str, name: str) -> Iterator[models.Progress]:
    """A progress bar on a terminal; elsewhere only a line that says what begins."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    if not console.is_terminal:
        console.print(begins, soft_wrap=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total or None, description=f"{name} {what}".rstrip())

        yield progress


def _describe(model: Model) -> dict[str, object]:
    file = path_of(model)
    state = "yes" if is_whole(model) else "damaged" if file.is_file() else "no"
    return {
        "name": model.name,
        "default": model.name == models.DEFAULT,
        "here": state,
        "path": str(file),
        "size_bytes": model.size_bytes,
        "sha256": model.sha256,
        "kind": model.kind,
        "licence": model.licence,
        "about": model.about,
    }


def _print_verified(rows: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows))
        return
    if not rows:
        typer.echo("No model is here yet; `redline models list` names some.", err=True)
        return
    table = _table("name", "file")
    for row in rows:
        table.add_row(str(row["name"]), "right" if row["ok"] else "wrong")
    Console().print(table)


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title == "name")
    return table
