"""``cbid evaluate`` and ``cbid report``: the accuracy of a project, as a table or as a web page."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.commands.options import (
    MAX_PIXELS,
    JobsOption,
    JsonOption,
    LabelDepthOption,
    MaxPixelsOption,
    Model,
    ModelDescriptorOption,
    ModelOption,
    PathLabelOption,
    ProjectOption,
    Query,
    QuietOption,
    accuracy_table,
    echo_result,
    find_project,
    labels_in_paths,
    open_project_or_model,
    read_queries,
)


def evaluate(
    source: Annotated[
        Path | None, typer.Argument(metavar="SRC", help="Measure on these labelled images instead.")
    ] = None,
    project: ProjectOption = None,
    model: ModelOption = None,
    descriptor: ModelDescriptorOption = None,
    label: PathLabelOption = None,
    label_depth: LabelDepthOption = 1,
    max_pixels: MaxPixelsOption = MAX_PIXELS,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the accuracy that cbid fit measured on held-out images, or measure it on other images.

    Images of SRC that are in the project are skipped, because they would find themselves. Files are compared by
    path, rows of arrays and tables by content.

    With --model, a fifth of each class of SRC become queries, and the rest is searched.

    Example: cbid evaluate test-photos/ --project photos.cbid

    Example: cbid evaluate embeddings.npz --model coder.safetensors
    """
    options: dict[str, Any] = {"n_jobs": n_jobs, "max_pixels": max_pixels, **labels_in_paths(label, label_depth)}
    with open_project_or_model(project, model, descriptor) as opened:
        if isinstance(opened, Model):
            measured = _evaluate_model(opened, source, options)
        elif source is None:
            measured = {**opened.evaluation, "confusion": opened.confusion}
        else:
            import numpy as np

            queries: list[Query] = []
            for batch in read_queries(opened, [source], only_new=True, **options):
                queries += batch
            if not queries:
                raise ValueError(f"all images of {source} are in the project: there is nothing to measure")
            measured = opened.evaluate(np.stack([q.vector for q in queries]), [q.label for q in queries])
        echo_result(measured, accuracy_table(measured), as_json=as_json)


def _evaluate_model(model: Model, source: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """Measure a coder on labelled vectors: a fifth of each class are the queries, the rest is stored."""
    import numpy as np

    from cbid.project.evaluating import evaluate
    from cbid.project.fitting import split
    from cbid.project.models import prefix_lengths, prefix_weights
    from cbid.project.table import HELD_OUT

    if source is None:
        raise typer.BadParameter("--model needs labelled vectors to measure on", param_hint="SRC")
    found = [query for batch in read_queries(model, [source], **options) for query in batch]
    vectors = np.stack([query.vector for query in found])
    labels = np.array([query.label or "" for query in found])
    asked = split([q.name for q in found], [q.label for q in found], 0.2, 0, supervised=bool((labels != "").any()))
    codes = model.encode(vectors)
    parts = [(vectors[rows], codes[rows], labels[rows]) for rows in (asked == HELD_OUT, asked != HELD_OUT)]
    return evaluate(
        *parts,
        n_bits=model.n_bits,
        lengths=prefix_lengths(model.coder),
        weights=partial(prefix_weights, model.coder),
    )


def report(
    project: ProjectOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write (default: PROJECT.html).")
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
