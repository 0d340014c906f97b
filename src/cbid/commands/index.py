"""``cbid index``: more images into a project, without learning anew; a project's codes into Milvus."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.checks import check_real
from cbid.commands.options import (
    JobsOption,
    JsonOption,
    ProjectOption,
    QuietOption,
    echo,
    echo_json,
    find_project,
    resumable,
)
from cbid.data.names import printable

__all__ = ["index"]


def index(
    source: Annotated[
        Path | None, typer.Argument(metavar="SRC", show_default=False, help="What cbid fit takes, or one image.")
    ] = None,
    project: ProjectOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            show_default=False,
            help="Have this Milvus collection hold the project's codes: milvus://host:port/collection, or "
            "milvus:file.db/collection. A token is taken from CBID_MILVUS_TOKEN.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Drop a collection that holds other codes than this project's.")
    ] = False,
    recall: Annotated[
        float, typer.Option(help="The share of the exact answers that searches of the collection are to find.")
    ] = 0.99,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a server that does not answer.")] = 30.0,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Add the images of a source that are not in a project yet; the coder stays as it was learned.

    Example: cbid index new-photos/ --project photos.cbid

    With --to the project's codes, ids, labels and weights go to a Milvus collection. Only what differs is sent.

    Example: cbid index --project photos.cbid --to milvus://localhost:19530/photos
    """
    from cbid.project import Project

    if source is None and to is None:
        raise typer.BadParameter("give a source of images to add, or --to ADDRESS, or both")
    shown = not quiet and not as_json
    told: dict[str, Any] = {}
    with Project.open(find_project(project), write=source is not None) as opened:
        if source is not None:
            before = len(opened)
            taken = opened.add_new(source, n_jobs=jobs, progress=shown)
            added = len(opened) - before
            failures = [{"name": name, "reason": reason} for name, reason in taken.failures]
            told = {"added": added, "known": len(taken.ids) - added, "failures": failures, "images": len(opened)}
            if not as_json:
                for name, reason in taken.failures:
                    typer.echo(f"cbid: left out {printable(name)}: {reason}", err=True)
            if shown:
                known = len(taken.ids) - added
                echo(f"{opened.path}: {added:,} images added, {known:,} were in already; now {len(opened):,}")
        if to is not None:
            with resumable():
                told["sent"] = sent = _send(opened, to, overwrite, recall, timeout, shown)
            if shown:
                counts = ", ".join(f"{sent[name]:,} {name}" for name in ("added", "changed", "removed", "same"))
                echo(f"{to}: {counts}; searches take {sent['candidates']:,} candidates (recall {sent['recall']:.4f})")
    if as_json:
        echo_json(told)


def _send(project: Any, to: str, overwrite: bool, recall: float, timeout: float, shown: bool) -> dict[str, Any]:
    """Send the codes, then keep the least number of candidates with which a sample of them finds enough."""
    from cbid.search.milvus import MilvusStore, index_to
    from cbid.storage.models import model_digest

    check_real("recall", recall, 0, 1 + 1e-9, open_below=True)
    if not len(project):
        raise ValueError(f"{project.path} holds no images; there is nothing to send")
    sent = index_to(
        project.index,
        to,
        weights=project.weights(project.n_bits),
        made_by=model_digest(project.coder),
        overwrite=overwrite,
        timeout=timeout,
        verbose=int(shown),
    )
    with MilvusStore.open(to, timeout=timeout) as store:
        measured = store.measure_recall(exact=project.index)
        chosen = next((c for c, found in measured.items() if found >= recall), max(measured))
        store.keep_candidates(chosen)
    return {"address": to, **sent._asdict(), "candidates": chosen, "recall": measured[chosen]}
