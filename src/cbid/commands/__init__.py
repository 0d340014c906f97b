"""The commands of the program, one file each."""

from typing import Annotated

import typer

import cbid
from cbid.commands.data import show_data
from cbid.commands.serve import serve

__all__ = ["app"]

app = typer.Typer(
    help="Compact binary codes for images and embeddings.",
    no_args_is_help=True,
    add_completion=False,
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


app.command("data")(show_data)
app.command("serve")(serve)
