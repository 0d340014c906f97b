"""``cbid evaluate`` and ``cbid report``: the accuracy of a project, as a table or as a web page."""

from pathlib import Path
from typing import Annotated

import typer

from cbid.commands.options import (
    JobsOption,
    JsonOption,
    ProjectOption,
    Query,
    QuietOption,
    find_project,
    read_queries,
)
from cbid.commands.output import accuracy_table, echo_result


def evaluate(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="SRC", show_default=False, help="Measure on these labelled images instead."),
    ] = None,
    project: ProjectOption = None,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the accuracy that cbid fit measured on held-out images, or measure it on other images.

    Images of SRC that are in the project are skipped, because they would find themselves. Files are compared by
    path, rows of arrays and tables by content.

    Example: cbid evaluate test-photos/ --project photos.cbid
    """
    from cbid.project import Project

    with Project.open(find_project(project)) as opened:
        if source is None:
            measured = {**opened.evaluation, "confusion": opened.confusion}
        else:
            import numpy as np

            queries: list[Query] = []
            for batch in read_queries(opened, [source], n_jobs=n_jobs, only_new=True):
                queries += batch
            if not queries:
                raise ValueError(f"all images of {source} are in the project: there is nothing to measure")
            measured = opened.evaluate(np.stack([q.vector for q in queries]), [q.label for q in queries])
        echo_result(measured, accuracy_table(measured), as_json=as_json)


def report(
    project: ProjectOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", show_default=False, help="The file to write (default: PROJECT.html)."),
    ] = None,
    queries: Annotated[int, typer.Option(min=0, max=200, help="Number of example searches to show.")] = 12,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a report: accuracy by code length, confusion matrix, example searches and settings.

    The report is one HTML file that works offline.

    Example: cbid report --project photos.cbid --out photos.html
    """
    from cbid.project import Project
    from cbid.report import write_report

    with Project.open(find_project(project)) as opened:
        path = out if out is not None else Path(opened.path.resolve().name).with_suffix(".html")
        write_report(opened, path, queries=queries)
    answer = {"report": str(path), "bytes": path.stat().st_size}
    echo_result(answer, f"{path}: open it in a browser", as_json=as_json, quiet=quiet)
