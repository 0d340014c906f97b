"""The commands of the program ``cbid``.

The modules import only typer when they load. Each command imports the library when it runs, which keeps
``cbid --help`` and shell completion fast.
"""

from collections.abc import Callable
from inspect import cleandoc
from typing import Annotated

import typer

import cbid
from cbid.commands.demo import demo
from cbid.commands.detect import DetectGroup, detect, fit_detector
from cbid.commands.duplicates import duplicates
from cbid.commands.encode import encode
from cbid.commands.evaluate import evaluate, report
from cbid.commands.export import export
from cbid.commands.fit import fit
from cbid.commands.index import check, index
from cbid.commands.options import Command, Interrupted
from cbid.commands.paper import reproduce, show_data
from cbid.commands.search import classify, search
from cbid.commands.serve import serve

__all__ = ["Interrupted", "app"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cbid {cbid.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Learn compact binary codes for images and embeddings, and search them."""


# The order of the help: first the flow of data, then the rest.
_COMMANDS: dict[str, Callable[..., None]] = {
    "fit": fit,
    "encode": encode,
    "index": index,
    "search": search,
    "classify": classify,
    "evaluate": evaluate,
    "report": report,
    "reproduce": reproduce,
    "serve": serve,
    "export": export,
    "check": check,
    "demo": demo,
    "data": show_data,
    "duplicates": duplicates,
}


def _add(group: typer.Typer, name: str, command: Callable[..., None]) -> None:
    # One line per paragraph: typer keeps the line breaks of the source otherwise.
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    group.command(name, cls=Command, help="\n\n".join(" ".join(p.split()) for p in paragraphs))(command)


for _name, _command in _COMMANDS.items():
    _add(app, _name, _command)
_DETECT = """Find objects in photographs, or train a detector.

Example: cbid detect faces.detector holiday/

Example: cbid detect fit faces/ landscapes/ -o faces.detector"""
_detect = typer.Typer(cls=DetectGroup, no_args_is_help=True)
_add(_detect, "run", detect)
_add(_detect, "fit", fit_detector)
app.add_typer(_detect, name="detect", help=_DETECT)
