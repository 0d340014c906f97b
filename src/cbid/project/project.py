"""Project: a directory that holds one searchable set of images, or of vectors."""

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.coders import Coder
from cbid.descriptors import Descriptor
from cbid.project.adding import add_images, as_source
from cbid.project.fitting import fit, open_images
from cbid.project.intake import Known, Taken
from cbid.project.manifest import VECTORS
from cbid.project.searching import Searchable
from cbid.project.vectors import map_vectors

__all__ = ["Project"]


class Project(Searchable):
    """Images (or vectors), their codes, the coder that made them, and what was measured of it, in one directory.

    ``Project.fit`` makes one, ``Project.open`` opens it. Everything large is memory-mapped. Any number of processes
    and threads may read while one writes; a writer's changes are there after it returns, whatever happens then, and
    other processes see them after ``refresh``.
    """

    was_up_to_date = False  # whether a fit has found nothing to do

    @classmethod
    def fit(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        *,
        descriptor: str | Descriptor = "hog",
        n_bits: int = 128,
        coder: str | Coder | None = None,
        held_out: float = 0.2,
        n_jobs: int | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> Self:
        """Learn codes for the images of a source, index and measure them; the project is then in ``path``.

        path : directory
            A new one, or a project: of its images only those that are new or have changed are read, those that are
            gone from the source are removed, and images that were added by hand stay. Learning starts anew, unless
            nothing has changed.
        source : path, ``ImageSet``, ``VectorTable`` or sequence of images
            What ``cbid.data.open_source`` takes. Vectors need no descriptor, and have no thumbnails.
        descriptor : "hog", "gist", "phog", "centrist", "pixels", "onnx:FILE" or a ``Descriptor``
        n_bits : int
        coder : name of a coder in ``cbid.coders``, an unfitted one, or None
            None: CBID where there are labels (``kernel="rbf"`` over hand-made descriptors, linear over vectors and
            the embeddings of networks); ITQ where there are none, which is told by a ``ProjectWarning``.
        held_out : share of each class that is not learned from, but measured on
        n_jobs : threads or processes, as in scikit-learn
        progress : whether bars are shown

        A fit that is killed at any moment leaves the project as it was. The next one goes on: images that were read
        are not read again, and CBID goes on with the bits that it had learned.
        """
        done = fit(
            path,
            source,
            descriptor=descriptor,
            n_bits=n_bits,
            coder=coder,
            held_out=held_out,
            n_jobs=n_jobs,
            seed=seed,
            progress=progress,
        )
        project = cls(path, descriptor=descriptor if isinstance(descriptor, Descriptor) else None)
        project.was_up_to_date = not done
        return project

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, write: bool = False, descriptor: Descriptor | None = None) -> Self:
        """Open a project. ``write=True`` takes the lock of the one writer and holds it until ``close``.

        descriptor : only for a project that was fitted with a descriptor of your own class
        """
        return cls(path, write=write, descriptor=descriptor)

    # Changing

    def add(
        self,
        images_or_paths: Any,
        labels: Sequence[str | None] | None = None,
        names: Sequence[str] | None = None,
        *,
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> NDArray[np.int64]:
        """Add images (arrays, bytes of files, paths), or vectors (n, d) to a project of vectors; returns their ids.

        All of them or, if one cannot be read, none; they are found by searches once this returns.
        """
        source = as_source(images_or_paths, labels, names, vectors=self.descriptor is None)
        return self._add(source, known=None, strict=True, n_jobs=n_jobs, progress=progress).ids

    def add_new(self, source: Any, *, n_jobs: int | None = None, progress: bool = False) -> Taken:
        """Add the images of a source (see ``fit``) that are not in the project yet.

        A file is known by its path, size and time, a vector with an id by both id and values; what has neither, by
        its content. Those that cannot be read are left out, and listed in ``failures``.
        """
        images = open_images(source)[0]
        known = Known((row for row in self._table.rows() if row.id in self.index), by_content=True)
        return self._add(images, known=known, strict=False, n_jobs=n_jobs, progress=progress)

    def _add(self, source: Any, **options: Any) -> Taken:
        with self._mutex:
            self._check_writer("add")
            state = self._state
            taken = add_images(
                source,
                directory=self.path,
                table=self._table,
                index=state.index,
                coder=state.coder,
                descriptor=self.descriptor,
                **options,
            )
            if len(taken.ids) and int(taken.ids.max()) >= len(state.vectors):
                state.vectors = map_vectors(self.path / VECTORS, self.n_features)
            state.changes += 1
            return taken

    def remove(self, ids: ArrayLike) -> None:
        """Remove images by id, all of which must be there."""
        with self._mutex:
            self._check_writer("remove")
            gone = np.unique(np.atleast_1d(np.asarray(ids, dtype=np.int64)))
            state = self._state
            state.index.remove(gone)
            state.index.save()
            state.changes += 1
            self._table.delete(gone.tolist())

    def _check_writer(self, doing: str) -> None:
        if self._lock is None:
            raise ValueError(f"{doing}: the project is open for reading; open it with write=True")
