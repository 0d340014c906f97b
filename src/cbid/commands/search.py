"""``cbid search`` and ``cbid classify``: the images most similar to a query, and the class they vote for."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbid.commands.options import (
    JobsOption,
    JsonOption,
    PrefixOption,
    ProjectOption,
    QueryArgument,
    choice,
    echo,
    echo_json,
    find_project,
    read_queries,
    table,
)
from cbid.text import printable

MATCH = ("any", "all", "branch")

if TYPE_CHECKING:
    from cbid.project import ImageRecord, Project, ProjectMatches


def _classes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the classes of the project; without one, there is nothing to propose."""
    from cbid.project import Project

    try:
        with Project.open(find_project(ctx.params.get("project"))) as project:
            return [name for name in project.classes if name.startswith(incomplete)]
    except (OSError, ValueError):
        return []


def search(
    query: QueryArgument,
    project: ProjectOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of images to return.")] = 10,
    n_bits: PrefixOption = None,
    how: Annotated[
        str,
        choice(
            "cbid.project.searching:HOW",
            help="Distance: weighted or plain (Hamming), or raw (between the vectors before encoding).",
        ),
    ] = "weighted",
    likeness: Annotated[
        float | None,
        typer.Option(min=0, max=1, help='From 0, "same class", to 1, "looks alike" (default: as learned).'),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(autocompletion=_classes, help="Return only images of this class; repeat it for several."),
    ] = None,
    match: Annotated[
        str,
        choice(
            "cbid.commands.search:MATCH",
            help="With --label: images with any of the labels (any), with all of them (all), or with a label below "
            "one of them (branch: animal also finds animal/dog).",
        ),
    ] = "any",
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the images of a project that are most similar to a query image.

    Example: cbid search holiday.jpg -k 5 --project photos.cbid
    """
    from cbid.project import Project

    with Project.open(find_project(project)) as opened:
        _check_labels(opened, label or [], match)
        answers: list[dict[str, Any]] = []
        first = True
        for queries in read_queries(opened, query, n_jobs=n_jobs):
            for asked in queries:
                found = opened.search(
                    asked.vector, k, n_bits=n_bits, how=how, label=label or None, match=match, likeness=likeness
                )
                if as_json:
                    answers.append(
                        {
                            "query": asked.name,
                            "how": how,
                            "likeness": likeness,
                            "n_bits": found.n_bits,
                            "bytes": found.n_bytes,
                            "milliseconds": 1000 * found.seconds,
                            "matches": [{**vars(record), **values} for record, values in _matches(opened, found)],
                        }
                    )
                else:
                    if not first:
                        echo()
                    if not first or len(queries) > 1 or len(query) > 1:
                        echo(f"{printable(asked.name)}:")
                    echo(matches_table(opened, found))
                first = False
        if as_json:
            echo_json(answers)


def _check_labels(project: "Project", wanted: list[str], match: str) -> None:
    """Raise for a label that no image has; with "branch" it may be the beginning of a path."""
    if match != "any" and not wanted:
        raise ValueError(f"--match={match}: needs --label")
    for label in wanted:
        below = match == "branch" and any(name.startswith(f"{label}/") for name in project.classes)
        if label not in project.classes and not below:
            some = ", ".join(map(repr, project.classes[:20])) + (", ..." if len(project.classes) > 20 else "")
            accepted = f"expected one of {some}" if some else "the images of the project have no labels"
            raise ValueError(f"--label={label!r}: {accepted}")


def matches_table(project: "Project", found: "ProjectMatches") -> str:
    """Format the matches of one query."""
    header, rows = ["distance", "label", "id", "image"], []
    for record, values in _matches(project, found):
        row = [f"{values['distance']:.3f}", record.label or "", record.id, _shown_path(record)]
        rows.append(row if found.n_bits is None else [f"{values['agree']} of {found.n_bits}", *row])
    if found.n_bits is not None:
        header = ["bits that agree", *header]
    lines = table(header, rows, right=["bits that agree", "distance", "id"])
    if found.n_bits is not None and len(rows) > 1 and len({row[1] for row in rows}) == 1:
        lines += "\nAll are at the same distance: the raw vectors decide the order."
    return lines


def _shown_path(record: "ImageRecord") -> str:
    """Return the path of an image, relative if it is in the current folder; its name if it has no file."""
    here = os.path.join(os.getcwd(), "")
    return str(record.path.removeprefix(here) or record.name)


def _matches(project: "Project", found: "ProjectMatches") -> list[tuple["ImageRecord", dict[str, Any]]]:
    """Return the records of the matches of one query, and for each its distance, similarity and agreeing bits."""
    columns = (
        found.ids[0].tolist(),
        found.distances[0].tolist(),
        found.similarity[0].tolist(),
        found.agree[0].tolist(),
    )
    return [
        (
            project.record(id),
            {"distance": distance, "similarity": similarity, "agree": None if found.n_bits is None else agree},
        )
        for id, distance, similarity, agree in zip(*columns)
        if id >= 0
    ]


def classify(
    query: QueryArgument,
    project: ProjectOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of neighbours that vote.")] = 5,
    n_bits: PrefixOption = None,
    unknown: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help='Answer "unknown" for images far from those of the project; the limit on the distance would reject '
            "this share of the held-out images, such as 0.05.",
        ),
    ] = None,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the class of images by a vote of their nearest neighbours in a project.

    Example: cbid classify inbox/ --project photos.cbid
    """
    from cbid.project import Project

    answers: list[dict[str, Any]] = []
    with Project.open(find_project(project)) as opened:
        for queries in read_queries(opened, query, n_jobs=n_jobs):
            for asked in queries:
                voted = opened.classify(asked.vector, k, n_bits, unknown=unknown)
                by_class = {name: _as_votes(v) for name, v in zip(opened.classes, voted.votes[0]) if v > 0}
                label, labels = str(voted.labels[0]), voted.label_sets[0]
                answers.append({"query": asked.name, "label": label, "labels": labels, "votes": by_class})
    if as_json:
        echo_json(answers)
        return
    rows = []
    for answer in answers:
        most_first = sorted(answer["votes"].items(), key=lambda item: -item[1])
        rows.append((answer["label"], ", ".join(f"{name} {n:g}" for name, n in most_first), answer["query"]))
    echo(table(["label", "votes", "image"], rows))


def _as_votes(votes: float) -> float:
    """Return votes with three decimals, as an integer if they are whole: images that tie share votes."""
    rounded = round(float(votes), 3)
    return int(rounded) if rounded.is_integer() else rounded
