"""``cbid classify``: the class that the nearest images vote for."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.commands.options import JobsOption, JsonOption, ProjectOption, echo, echo_json, find_project, table
from cbid.commands.queries import queries

__all__ = ["classify"]


def classify(
    query: Annotated[list[Path], typer.Argument(metavar="QUERY...", help="Images; folders and lists of them, too.")],
    project: ProjectOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours that vote.")] = 5,
    n_bits: Annotated[
        int | None, typer.Option("--bits", "-b", min=1, show_default=False, help="Only the first bits of the codes.")
    ] = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell the class of images by the vote of the nearest ones in a project.

    Example: cbid classify inbox/ --project photos.cbid
    """
    from cbid.project import Project

    with Project.open(find_project(project)) as opened:
        answers: list[dict[str, Any]] = []
        for batch in queries(opened, query, jobs=jobs):
            for asked in batch:
                label, votes = opened.classify(asked.vector, k, n_bits)
                by_class = {name: int(v) for name, v in zip(opened.classes, votes[0]) if v >= 1}
                answers.append({"query": asked.name, "label": str(label[0]), "votes": by_class})
        if as_json:
            echo_json(answers)
        else:
            rows = [
                (
                    a["label"],
                    ", ".join(f"{n} {v}" for n, v in sorted(a["votes"].items(), key=lambda e: -e[1])),
                    a["query"],
                )
                for a in answers
            ]
            echo(table(["label", "votes", "image"], rows))
