"""The command line. Text goes to stdout, everything else to stderr; errors are a sentence and a hint."""

from __future__ import annotations

import logging
import os
import signal
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from redline.cli import bench, demo, explain, generate, memory, models
from redline.core.errors import RedlineError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.command("demo")(demo.demo)
app.command("generate")(generate.generate)
app.command("explain")(explain.explain)
app.command("memory")(memory.memory)
app.add_typer(bench.app, name="bench")
app.add_typer(models.app, name="models")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redline {version('redline')}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks, and what the engines below say.")
    ] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Speculative decoding that is exact, measured, and explains itself."""
    global _debug
    _debug = debug
    log = logging.getLogger("redline")
    log.handlers = [_Notes(logging.DEBUG if debug else logging.INFO)]
    log.setLevel(log.handlers[0].level)


_debug = False


class _Notes(logging.Handler):
    """What redline notes, such as an engine that was taken instead of another, on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"note: {record.getMessage()}", file=sys.stderr)


def main() -> None:
    """The entry point: runs the command and turns what went wrong into one sentence and an exit status."""
    for stream in ("stdin", "stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by whoever started us
            setattr(sys, stream, open(os.devnull, "r" if stream == "stdin" else "w"))  # noqa: SIM115
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit loses nothing either
    try:
        app()
    except RedlineError as error:
        if _debug:
            raise
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint:  {error.hint}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        if _debug:
            raise
        if not isinstance(error, BrokenPipeError):  # else the reader of our output left
            print(f"error: {error.strerror or error}: {error.filename or 'the output'}.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered would only fail again
        sys.exit(1)
