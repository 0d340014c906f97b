"""Query images (or vectors) of a command: described and encoded a batch at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from cbid.data.names import printable
from cbid.data.tables import VectorTable

__all__ = ["Query", "open_for", "queries"]


class Query(NamedTuple):
    """One image that is asked about."""

    name: str
    label: str | None
    vector: NDArray[np.float32]


def open_for(project: Any, given: Path) -> Any:
    """A source of what the project was made from: images, or vectors."""
    from cbid.project.fitting import open_images

    source, _ = open_images(given)
    if isinstance(source, VectorTable) != (project.descriptor is None):
        holds = "vectors" if project.descriptor is None else "images"
        raise ValueError(f"{printable(given)} does not hold {holds}, which the project was made from")
    return source


def queries(
    project: Any, sources: list[Path], *, jobs: int | None = None, only_new: bool = False
) -> Iterator[list[Query]]:
    """The images of these sources (files, folders, lists, arrays) in batches; an image that cannot be read is told on
    stderr, and is an error if it is all there is.

    only_new : without those that are in the project
    """
    from cbid.data.decode import ImageError
    from cbid.project.intake import described_batches, label_of, name_of

    found, failures = 0, []
    for given in sources:
        source = open_for(project, given)
        failures += list(getattr(source, "problems", []))
        held = project.held(source) if only_new else set()
        found += len(held)
        places = [i for i in range(len(source)) if i not in held]
        for _, batch in described_batches(source, project.descriptor, places, thumbnails=False, n_jobs=jobs):
            failures += batch.failures
            found += len(batch.places)
            if batch.places:
                yield [
                    Query(
                        _shown(given, name_of(source, i), alone=len(source) == 1),
                        label_of(source, i),
                        vector,
                    )
                    for i, vector in zip(batch.places, batch.vectors)
                ]
    if failures and not found:
        name, reason = failures[0]
        raise ImageError(f"{printable(name)}: {reason}")
    for name, reason in failures:
        typer.echo(f"cbid: left out {printable(name)}: {reason}", err=True)


def _shown(given: Path, name: str, *, alone: bool) -> str:
    """What a query is called in an answer: a file as it was given, an image of a folder with that folder."""
    if given.is_dir():
        return str(given / name)
    return str(given) if alone else name
