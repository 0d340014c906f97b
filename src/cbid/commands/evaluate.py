"""``cbid evaluate``: how good the codes are."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cbid.commands.options import JobsOption, JsonOption, ProjectOption, echo, echo_json, find_project
from cbid.commands.queries import Query, queries
from cbid.commands.results import accuracy_table

__all__ = ["evaluate"]


def evaluate(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[SRC]", show_default=False, help="Other images with labels, to measure on instead."),
    ] = None,
    project: ProjectOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what was measured on the images that cbid fit held out, or measure on others.

    Images of SRC that are in the project are left out: they would find themselves. A file is recognised by
    its path, and what comes from an array or a table by its content.

    Example: cbid evaluate test-photos/ --project photos.cbid
    """
    from cbid.project import Project

    with Project.open(find_project(project)) as opened:
        if source is None:
            measured = {**opened.evaluation, "confusion": opened.confusion}
        else:
            asked: list[Query] = []
            for batch in queries(opened, [source], jobs=jobs, only_new=True):
                asked += batch
            if not asked:
                raise ValueError(f"all images of {source} are in the project; there is nothing to measure on")
            measured = opened.evaluate(np.stack([one.vector for one in asked]), [one.label for one in asked])
        if as_json:
            echo_json(measured)
        else:
            echo(accuracy_table(measured))
