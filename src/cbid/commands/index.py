"""``cbid index``: more images into a project, without learning anew."""

from pathlib import Path
from typing import Annotated

import typer

from cbid.commands.options import JobsOption, JsonOption, ProjectOption, QuietOption, echo, echo_json, find_project
from cbid.data.names import printable

__all__ = ["index"]


def index(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="What cbid fit takes, or one image.")],
    project: ProjectOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Add the images of a source that are not in a project yet; the coder stays as it was learned.

    Example: cbid index new-photos/ --project photos.cbid
    """
    from cbid.project import Project

    with Project.open(find_project(project), write=True) as opened:
        before = len(opened)
        taken = opened.add_new(source, n_jobs=jobs, progress=not quiet and not as_json)
        added = len(opened) - before
        if as_json:
            failures = [{"name": name, "reason": reason} for name, reason in taken.failures]
            echo_json({"added": added, "known": len(taken.ids) - added, "failures": failures, "images": len(opened)})
            return
        for name, reason in taken.failures:
            typer.echo(f"cbid: left out {printable(name)}: {reason}", err=True)
        if not quiet:
            known = len(taken.ids) - added
            echo(f"{opened.path}: {added:,} images added, {known:,} were in already; now {len(opened):,}")
