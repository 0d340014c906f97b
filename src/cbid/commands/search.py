"""``cbid search``: the images most like one."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.commands.options import (
    JobsOption,
    JsonOption,
    ProjectOption,
    echo,
    echo_json,
    find_project,
    one_of,
    table,
)
from cbid.commands.queries import queries
from cbid.data.names import printable

__all__ = ["matches_table", "search"]


def _checked_how(how: str) -> str | None:
    from cbid.project.searching import HOW

    return one_of(how, HOW)


def search(
    query: Annotated[list[Path], typer.Argument(metavar="QUERY...", help="Images; folders and lists of them, too.")],
    project: ProjectOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many are shown.")] = 10,
    n_bits: Annotated[
        int | None, typer.Option("--bits", "-b", min=1, show_default=False, help="Only the first bits of the codes.")
    ] = None,
    how: Annotated[
        str, typer.Option(callback=_checked_how, help="weighted or plain Hamming distance, or raw: the vectors.")
    ] = "weighted",
    label: Annotated[str | None, typer.Option(show_default=False, help="Only images of this class.")] = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the images of a project that are most like a query image.

    Example: cbid search holiday.jpg -k 5 --project photos.cbid
    """
    from cbid.project import Project
    from cbid.project.searching import NO_LABELS

    with Project.open(find_project(project)) as opened:
        if label is not None and not opened.classes:
            raise ValueError(f"{NO_LABELS}; there is nothing to choose by --label")
        if label is not None and label not in opened.classes:
            raise ValueError(f"label={label!r} is not in the project; its classes are {_some(opened.classes)}")
        answers: list[dict[str, Any]] = []
        asked_before = False
        for batch in queries(opened, query, jobs=jobs):
            for asked in batch:
                found = opened.search(asked.vector, k, n_bits=n_bits, how=how, label=label)
                if as_json:
                    answers.append(
                        {
                            "query": asked.name,
                            "how": how,
                            "bytes": found.n_bytes,
                            "milliseconds": 1000 * found.seconds,
                            "matches": [{**vars(r), "distance": d} for r, d in _matches(opened, found)],
                        }
                    )
                else:
                    if asked_before:
                        echo()
                    if asked_before or len(batch) > 1 or len(query) > 1:
                        echo(f"{printable(asked.name)}:")
                    echo(matches_table(opened, found))
                asked_before = True
        if as_json:
            echo_json(answers)


def matches_table(project: Any, found: Any) -> str:
    """What was found for one query, as text."""
    rows = [(f"{d:.3f}", r.label or "", r.id, _shown(r)) for r, d in _matches(project, found)]
    return table(["distance", "label", "id", "image"], rows, right=["distance", "id"])


def _some(classes: list[str]) -> str:
    return ", ".join(map(repr, classes[:20])) + (", ..." if len(classes) > 20 else "")


def _shown(record: Any) -> str:
    """The image's file, from the current folder if it lies in there; its name without a file."""
    here = os.path.join(os.getcwd(), "")
    return record.path.removeprefix(here) or record.name


def _matches(project: Any, found: Any) -> list[tuple[Any, float]]:
    return [(project.record(int(id)), float(d)) for id, d in zip(found.ids[0], found.distances[0]) if id >= 0]
