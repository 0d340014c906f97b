"""Read the query images (or vectors) of a command, one batch at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cbid.commands.output import echo_skipped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cbid.project import Project

__all__ = ["Query", "open_source_for", "read_queries"]


class Query(NamedTuple):
    """A described query image."""

    name: str
    label: str | None
    vector: "NDArray[np.float32]"


def open_source_for(project: "Project", path: Path) -> Any:
    """Open a source of the kind that the project holds: images or vectors."""
    from cbid.data.names import printable
    from cbid.data.tables import VectorTable
    from cbid.project.fitting import open_images

    source, _ = open_images(path)
    if isinstance(source, VectorTable) != (project.descriptor is None):
        given, wanted = ("vectors", "images") if isinstance(source, VectorTable) else ("images", "vectors")
        raise ValueError(f"{printable(path)} holds {given}: the project needs {wanted}")
    return source


def read_queries(
    project: "Project", paths: list[Path], *, n_jobs: int | None = None, only_new: bool = False
) -> Iterator[list[Query]]:
    """Describe the images of files, folders, list files or arrays, and yield them in batches.

    Images that cannot be read are reported on stderr at the end. If none can be read, the first failure is raised.

    Parameters
    ----------
    only_new : bool
        Skip the images that are in the project.
    """
    from cbid.data.decode import ImageError
    from cbid.data.names import printable
    from cbid.project.intake import described_batches, label_of, name_of

    n_found, failures = 0, []
    for path in paths:
        source = open_source_for(project, path)
        failures += list(getattr(source, "problems", []))
        stored = project.held(source) if only_new else set()
        n_found += len(stored)
        rows = [i for i in range(len(source)) if i not in stored]
        for _, batch in described_batches(source, project.descriptor, rows, thumbnails=False, n_jobs=n_jobs):
            failures += batch.failures
            n_found += len(batch.places)
            if batch.places:
                yield [
                    Query(_query_name(path, name_of(source, i), len(source)), label_of(source, i), vector)
                    for i, vector in zip(batch.places, batch.vectors)
                ]
    if failures and not n_found:
        name, reason = failures[0]
        raise ImageError(f"{printable(name)}: {reason}")
    echo_skipped(failures)


def _query_name(path: Path, name: str, n_images: int) -> str:
    """Name a query by its path: the folder with the image in it, or the file as it was given."""
    if path.is_dir():
        return str(path / name)
    return str(path) if n_images == 1 else name
