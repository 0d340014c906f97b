"""The commands of the program, one file each."""

from typing import Annotated

import typer

import cbid
from cbid.commands.classify import classify
from cbid.commands.data import show_data
from cbid.commands.demo import demo
from cbid.commands.detect import detect
from cbid.commands.encode import encode
from cbid.commands.evaluate import evaluate
from cbid.commands.export import export
from cbid.commands.fit import fit
from cbid.commands.index import index
from cbid.commands.report import report
from cbid.commands.reproduce import reproduce_paper
from cbid.commands.search import search
from cbid.commands.serve import serve

__all__ = ["app"]

app = typer.Typer(
    help="Compact binary codes for images and embeddings.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"cbid {cbid.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Compact binary codes for images and embeddings."""


# In the order in which data flows.
app.command("data")(show_data)
app.command("fit")(fit)
app.command("encode")(encode)
app.command("index")(index)
app.command("search")(search)
app.command("classify")(classify)
app.command("detect")(detect)
app.command("evaluate")(evaluate)
app.command("report")(report)
app.command("reproduce")(reproduce_paper)
app.command("serve")(serve)
app.command("export")(export)
app.command("demo")(demo)
