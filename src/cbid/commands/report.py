"""``cbid report``: what a project is and how good it is, as a page."""

from pathlib import Path
from typing import Annotated

import typer

from cbid.commands.options import JsonOption, ProjectOption, QuietOption, echo, echo_json, find_project

__all__ = ["report"]


def report(
    project: ProjectOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", show_default=False, help="The file (default: the project's name with .html)."),
    ] = None,
    queries: Annotated[int, typer.Option(min=0, max=200, help="Searches that are shown.")] = 12,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a report: accuracy over bits beside the raw vectors, confusion matrix, searches, settings.

    One HTML file that needs nothing else, also no network.

    Example: cbid report --project photos.cbid --out photos.html
    """
    from cbid.project import Project
    from cbid.report import write_report

    with Project.open(find_project(project)) as opened:
        path = out if out is not None else Path(opened.path.resolve().name).with_suffix(".html")
        write_report(opened, path, queries=queries)
    if as_json:
        echo_json({"report": str(path), "bytes": path.stat().st_size})
    elif not quiet:
        echo(f"{path}: open it in a browser")
