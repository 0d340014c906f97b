"""``cbid index`` adds images to a project or copies its codes to Milvus; ``cbid check`` checks a project."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbid.commands.options import (
    MAX_PIXELS,
    Interrupted,
    JobsOption,
    JsonOption,
    LabelDepthOption,
    MaxPixelsOption,
    PathLabelOption,
    ProjectOption,
    QuietOption,
    echo,
    echo_json,
    echo_skipped,
    find_project,
    labels_in_paths,
    open_source_for,
    resumable,
)
from cbid.text import count, printable

if TYPE_CHECKING:
    from cbid.project import Project


def index(
    source: Annotated[
        Path | None, typer.Argument(metavar="SRC", help="Images to add: a source of cbid fit or one image.")
    ] = None,
    project: ProjectOption = None,
    label: PathLabelOption = None,
    label_depth: LabelDepthOption = 1,
    max_pixels: MaxPixelsOption = MAX_PIXELS,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Copy the codes of the project to this Milvus collection: milvus://host:port/collection or "
            "milvus:file.db/collection. The environment variable CBID_MILVUS_TOKEN may hold a token.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Drop the collection if it holds codes of another project.")
    ] = False,
    recall: Annotated[float, typer.Option(help="Share of the exact matches that Milvus must find.")] = 0.99,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the Milvus server.")] = 30.0,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Add the new images of a source to a project. The coder does not change.

    If cbid fit got --label or --label-depth, give it here too: labels are found in the same way then.

    Example: cbid index new-photos/ --project photos.cbid

    The option --to copies the codes, ids, labels and weights of the project to a Milvus collection. It sends only the
    differences.

    Example: cbid index --project photos.cbid --to milvus://localhost:19530/photos
    """
    from cbid.project import Project

    if source is None and to is None:
        raise typer.BadParameter("give SRC, --to ADDRESS, or both")
    verbose = not quiet and not as_json
    answer: dict[str, Any] = {}
    with Project.open(find_project(project), write=source is not None) as opened:
        if source is not None:
            before, classes = len(opened), set(opened.classes)
            images = open_source_for(opened, source, max_pixels=max_pixels, **labels_in_paths(label, label_depth))
            try:
                taken = opened.add_new(images, n_jobs=n_jobs, progress=verbose)
            except KeyboardInterrupt:  # all images are added in one step
                raise Interrupted(f"interrupted; {count(len(opened) - before, 'image')} added") from None
            added = len(opened) - before
            known = len(taken.ids) - added
            failures = [{"name": name, "reason": reason} for name, reason in taken.failures]
            answer = {"added": added, "known": known, "failures": failures, "images": len(opened)}
            if not as_json:
                echo_skipped(taken.failures)
            if verbose:
                echo(f"{opened.path}: {added:,} images added, {known:,} already present, {len(opened):,} in total")
                new = [printable(name) for name in opened.classes if name not in classes]
                if new:
                    more = f" and {len(new) - 5:,} more" if len(new) > 5 else ""
                    echo(f"classes that the codes were not learned from: {', '.join(new[:5])}{more}")
        if to is not None:
            with resumable():
                answer["sent"] = sent = _send(opened, to, overwrite, recall, timeout, verbose)
            if verbose:
                counts = ", ".join(f"{sent[name]:,} {name}" for name in ("added", "changed", "removed", "same"))
                echo(f"{to}: {counts}; {sent['candidates']:,} candidates per search (recall {sent['recall']:.4f})")
    if as_json:
        echo_json(answer)


def _send(
    project: "Project", to: str, overwrite: bool, recall: float, timeout: float, verbose: bool
) -> dict[str, Any]:
    """Send the codes, then store the smallest number of candidates that reaches the recall on a sample."""
    from cbid.checks import check_real
    from cbid.search.stores import MilvusStore, index_to
    from cbid.storage.models import model_digest

    check_real("recall", recall, 0, 1 + 1e-9, open_below=True)
    if not len(project):
        raise ValueError(f"{project.path} holds no images: there is nothing to send")
    sent = index_to(
        project.index,
        to,
        weights=project.weights(project.n_bits),
        made_by=model_digest(project.coder),
        overwrite=overwrite,
        timeout=timeout,
        verbose=int(verbose),
    )
    with MilvusStore.open(to, timeout=timeout) as store:
        measured = store.measure_recall(exact=project.index)
        chosen = next((c for c, found in measured.items() if found >= recall), max(measured))
        store.keep_candidates(chosen)
    return {"address": to, **sent._asdict(), "candidates": chosen, "recall": measured[chosen]}


def check(
    project: Annotated[
        Path | None,
        typer.Argument(metavar="PROJECT", help="A project (default: the only one in the current folder)."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove files left by killed writers, and add missing checksums.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read every file of a project and compare it with its checksum. The exit status is 1 if anything is damaged.

    Example: cbid check photos.cbid --repair
    """
    from cbid.project import Project

    folder = find_project(project)
    problems, notes = Project.check(folder, repair=repair)
    if as_json:
        echo_json({"project": str(folder), "problems": problems, "notes": notes})
    else:
        for line in [*notes, *problems, "damaged" if problems else "ok"]:
            echo(line)
    if problems:
        raise typer.Exit(1)
