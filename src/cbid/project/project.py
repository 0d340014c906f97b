"""Project: a directory that holds one searchable set of images, or of vectors."""

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid import coders
from cbid.checks import check_choice, check_integer
from cbid.classify.knn import count_votes
from cbid.coders import Coder
from cbid.codes import check_codes, n_bytes, unpack
from cbid.data.decode import decode_image
from cbid.descriptors import Descriptor
from cbid.project.adding import add_images, as_source
from cbid.project.answers import BitSides, Explanation, ProjectMatches, Votes, nearest_vectors
from cbid.project.descriptors import descriptor_from_json
from cbid.project.errors import ProjectError
from cbid.project.fitting import fit, open_images
from cbid.project.intake import Taken
from cbid.project.manifest import IMAGES, MANIFEST, VECTORS, Manifest
from cbid.project.prefixes import lengths_of, weights_of
from cbid.project.table import PENDING, ImageRecord, ImageTable
from cbid.project.vectors import map_vectors
from cbid.search import CodeIndex, IndexCorruptError, UnknownIdError
from cbid.search.lock import WriterLock

__all__ = ["Project"]

HOW = ("weighted", "plain", "raw")
_CERTAIN = 5_000  # images among which the most certain ones of a bit are looked for


@dataclass
class _State:
    """What a reader sees, replaced as a whole when another fit is committed."""

    manifest: Manifest
    stamp: tuple[int, int]
    coder: Coder
    index: CodeIndex
    vectors: NDArray[np.float32]
    evaluation: dict[str, Any]
    lengths: list[int]
    weights: dict[tuple[int, str], NDArray[np.float64]] = field(default_factory=dict)
    ids: NDArray[np.int64] | None = None  # sorted; both made when first asked for
    classes: list[str] | None = None
    certain: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None


class Project:
    """Images (or vectors), their codes, the coder that made them, and what was measured of it, in one directory.

    ``Project.fit`` makes one, ``Project.open`` opens it. Everything large is memory-mapped. Any number of processes
    and threads may read while one writes; a writer's changes are there after it returns, whatever happens then, and
    other processes see them after ``refresh``.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, write: bool = False, descriptor: Descriptor | None = None
    ) -> None:
        """See ``open``."""
        self.path = Path(path)
        self._mutex = threading.RLock()
        self._given = descriptor
        self._descriptor: Descriptor | None = None
        self._lock: WriterLock | None = None
        self._state = self._read()
        if write:
            self._lock = WriterLock(self.path)
        try:
            self._table = ImageTable(self.path / IMAGES, write=write)
            if write:
                self._refresh()
                self._remove_litter()
        except BaseException:
            self._release()
            raise

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
            None: CBID where there are labels, ITQ where there are none, which is told by a ``ProjectWarning``.
        held_out : share of each class that is not learned from, but measured on
        n_jobs : threads or processes, as in scikit-learn
        progress : whether bars are shown

        A fit that is killed at any moment leaves the project as it was. The next one goes on: images that were read
        are not read again, and CBID goes on with the bits that it had learned.
        """
        fit(
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
        return cls(path, descriptor=descriptor if isinstance(descriptor, Descriptor) else None)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, write: bool = False, descriptor: Descriptor | None = None) -> Self:
        """Open a project. ``write=True`` takes the lock of the one writer and holds it until ``close``.

        descriptor : only for a project that was fitted with a descriptor of your own class
        """
        return cls(path, write=write, descriptor=descriptor)

    def close(self) -> None:
        """Let others write; afterwards the project is not to be used."""
        self._table.close()
        self._state.index.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Project {str(self.path)!r}: {len(self)} images, {self.n_bits} bits>"

    # What there is

    def __len__(self) -> int:
        return len(self.index)

    @property
    def coder(self) -> Coder:
        return self._state.coder

    @property
    def index(self) -> CodeIndex:
        """The codes; ids are those of the images, labels their names, "" without one."""
        return self._state.index

    @property
    def descriptor(self) -> Descriptor | None:
        """What makes a vector of an image; None where the project was made from vectors."""
        saved = self._state.manifest.descriptor
        if saved is None:
            return None
        if self._descriptor is None:
            self._descriptor = descriptor_from_json(saved, self._given)
        return self._descriptor

    @property
    def n_bits(self) -> int:
        return self.coder.n_bits_

    @property
    def n_features(self) -> int:
        """Values of a raw vector."""
        return self._state.manifest.n_features

    @property
    def lengths(self) -> list[int]:
        """The code lengths offered for prefix search, ascending; the last is ``n_bits``."""
        return list(self._state.lengths)

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        state = self._state
        if state.ids is None:
            state.ids = state.index.ids
        return state.ids

    @property
    def classes(self) -> list[str]:
        """The distinct labels, sorted."""
        state = self._state
        if state.classes is None:
            labels = state.index.labels
            state.classes = [] if labels is None else [str(c) for c in np.unique(labels) if c]
        return list(state.classes)

    @property
    def settings(self) -> dict[str, Any]:
        """How it was fitted: descriptor, coder, held-out share, seed, source."""
        manifest = self._state.manifest
        return {"descriptor": manifest.descriptor, "source": manifest.source, **manifest.settings}

    @property
    def last_fit(self) -> dict[str, Any]:
        """What the last fit met: counts, seconds, failures, version."""
        return dict(self._state.manifest.fit)

    @property
    def evaluation(self) -> dict[str, Any]:
        """What was measured on the held-out images; see ``cbid.project.evaluating.evaluate``."""
        return {name: value for name, value in self._state.evaluation.items() if name != "confusion"}

    @property
    def confusion(self) -> dict[str, Any]:
        """ "classes", and "matrix": how often a held-out image of one class (row) was taken for another (column)."""
        return self._state.evaluation["confusion"] or {"classes": [], "matrix": []}

    @property
    def has_thumbnails(self) -> bool:
        return self._state.manifest.descriptor is not None

    # Single images

    def record(self, id: int) -> ImageRecord:
        """Name, path, label and part of one image."""
        self._check_ids([id])
        return self._table.records([id])[0]

    def records(self, first: int = 0, count: int = 100) -> list[ImageRecord]:
        """Records by ascending id, ``count`` of them after the first ``first``."""
        check_integer("first", first, 0)
        check_integer("count", count, 0)
        return self._table.records(self.ids[first : first + count])

    def thumbnail(self, id: int) -> bytes:
        """A JPEG whose longer side has at most 192 pixels."""
        self._check_ids([id])
        jpeg = self._table.thumbnail(id)
        if jpeg is None:
            raise ValueError(f"id={id} has no thumbnail: the project was made from vectors")
        return jpeg

    def vector(self, id: int) -> NDArray[np.float32]:
        """The raw vector (d,) of one image, as the descriptor gave it."""
        self._check_ids([id])
        vectors = self._state.vectors
        if id >= len(vectors):
            raise ProjectError(f"{self.path / VECTORS} is too short: it has no vector for id={id}")
        return vectors[id]

    def code(self, id: int) -> NDArray[np.uint8]:
        """The packed code of one image."""
        return self.index.reconstruct([id])[0]

    def _check_ids(self, ids: Sequence[int]) -> None:
        for id in ids:
            if id not in self.index:
                raise UnknownIdError(f"id={id!r} is not in the project")

    # From images to codes

    def describe_image(self, image: "bytes | ArrayLike") -> NDArray[np.float32]:
        """The vector (d,) of an image: an array, a Pillow image, or the bytes of a file."""
        descriptor = self.descriptor
        if descriptor is None:
            raise ValueError("the project was made from vectors and has no descriptor; give vectors")
        array = decode_image(image) if isinstance(image, bytes) else np.asarray(image)
        return self._as_vectors(descriptor.describe(array))[0]

    def encode(self, vectors: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes (n, ceil(n_bits/8)) of vectors (n, d), or of one (d,)."""
        return self.coder.encode(self._as_vectors(vectors))

    def _as_vectors(self, vectors: ArrayLike) -> NDArray[np.float32]:
        array = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        if array.ndim != 2 or array.shape[1] != self.n_features:
            raise ValueError(f"vectors has shape {array.shape}; vectors of {self.n_features} values are accepted")
        if not np.isfinite(array).all():
            raise ValueError("vectors has values that are not finite")
        return array

    # Searching

    def search(
        self,
        codes_or_vectors: ArrayLike,
        k: int = 10,
        *,
        n_bits: int | None = None,
        how: str = "weighted",
        exclude: int | Sequence[int] | None = None,
        label: str | None = None,
    ) -> ProjectMatches:
        """The k nearest images of each query: packed codes (uint8) or vectors, (q, ...) or one alone.

        n_bits : only the first bits of the codes, under the weights that were fitted at that length
        how : "weighted" or "plain" Hamming distance, or "raw": Euclidean distance of the vectors themselves
        exclude : ids that are not to be found, such as that of the query
        label : only images of this class
        """
        check_choice("how", how, HOW)
        check_integer("k", k, 1)
        state = self._state
        left_out = np.unique(np.atleast_1d(np.asarray([] if exclude is None else exclude, dtype=np.int64)))
        queries = np.asarray(codes_or_vectors)
        begun = time.perf_counter()
        if how == "raw":
            if queries.dtype == np.uint8:
                raise ValueError("how='raw' compares vectors; codes were given")
            if n_bits is not None:
                raise ValueError("how='raw' compares vectors; it takes no n_bits")
            return self._search_raw(state, self._as_vectors(queries), k, left_out, label, begun)
        codes = self._as_codes(queries)
        length = self.n_bits if n_bits is None else n_bits
        found = state.index.search(
            codes,
            k + len(left_out),
            weights=self.weights(length, how),
            labels=None if label is None else [label],
        )
        ids, distances, labels = found.ids, found.distances, found.labels
        assert labels is not None
        if len(left_out):
            # A stable sort brings what is left out to the end.
            order = np.argsort(np.isin(ids, left_out), axis=1, kind="stable")[:, :k]
            ids, distances, labels = (np.take_along_axis(a, order, axis=1) for a in (ids, distances, labels))
            gone = np.isin(ids, left_out)
            ids, distances, labels = (
                np.where(gone, -1, ids),
                np.where(gone, np.inf, distances),
                np.where(gone, "", labels),
            )
        seconds = time.perf_counter() - begun
        return ProjectMatches(ids, distances.astype(np.float32), labels, seconds, n_bytes(length))

    def _search_raw(
        self,
        state: _State,
        queries: NDArray[np.float32],
        k: int,
        left_out: NDArray[np.int64],
        label: str | None,
        begun: float,
    ) -> ProjectMatches:
        ids = self.ids
        labels = state.index.labels
        assert labels is not None
        keep = ~np.isin(ids, left_out) if len(left_out) else np.ones(len(ids), dtype=bool)
        keep &= ids < len(state.vectors)
        if label is not None:
            keep &= labels == label
        at, near = nearest_vectors(queries, state.vectors, ids[keep], k)
        found, distances = (
            np.full((len(queries), k), -1, dtype=np.int64),
            np.full((len(queries), k), np.inf, np.float32),
        )
        found[:, : at.shape[1]], distances[:, : at.shape[1]] = at, near
        names = np.full(found.shape, "", dtype=labels.dtype)
        names[:, : at.shape[1]] = labels[np.searchsorted(ids, at)]
        return ProjectMatches(found, distances, names, time.perf_counter() - begun, 4 * self.n_features)

    def weights(self, n_bits: int, how: str = "weighted") -> NDArray[np.float64]:
        """Weights (self.n_bits,) of a search with the first ``n_bits`` bits; zero past them."""
        state = self._state
        key = (n_bits, how)
        if key not in state.weights:
            state.weights[key] = weights_of(state.coder, n_bits, how)
        return state.weights[key]

    def _as_codes(self, queries: NDArray[Any]) -> NDArray[np.uint8]:
        if queries.dtype == np.uint8:
            return check_codes(queries, self.n_bits)
        return self.encode(queries)

    def classify(
        self, codes: ArrayLike, k: int = 5, n_bits: int | None = None, *, exclude: int | Sequence[int] | None = None
    ) -> Votes:
        """The class that wins the vote of the k nearest labelled images, and all votes; codes may be vectors."""
        classes = self.classes
        if not classes:
            raise ValueError("the images have no labels; there is nothing to classify by")
        check_integer("k", k, 1)
        queries = self._as_codes(np.asarray(codes))
        length = self.n_bits if n_bits is None else n_bits
        left_out = np.unique(np.atleast_1d(np.asarray([] if exclude is None else exclude, dtype=np.int64)))
        found = self.index.search(queries, k + len(left_out), weights=self.weights(length), labels=classes)
        assert found.labels is not None
        order = np.argsort(np.isin(found.ids, left_out), axis=1, kind="stable")[:, :k]
        ids, distances, labels = (
            np.take_along_axis(a, order, axis=1) for a in (found.ids, found.distances, found.labels)
        )
        missing = (ids < 0) | np.isin(ids, left_out)
        names = np.array(classes)
        numbers = np.where(missing, len(names), np.searchsorted(names, labels) % len(names))
        votes = count_votes(distances.astype(np.float64), numbers, len(names) + 1, "uniform")[:, :-1]
        return Votes(names[votes.argmax(axis=1)], votes)

    def explain(self, code_a: ArrayLike, code_b: ArrayLike, n_bits: int | None = None) -> Explanation:
        """Whether two codes agree in each bit, and what it weighs; where they do not, the weights add up to the
        weighted distance."""
        length = self.n_bits if n_bits is None else n_bits
        weight = self.weights(length)[:length]
        a, b = (
            unpack(check_codes(np.asarray(code), self.n_bits)[0], self.n_bits)[:length] for code in (code_a, code_b)
        )
        return Explanation(a == b, weight.copy())

    def bit(self, s: int, count: int = 24) -> BitSides:
        """The images on the two sides of bit s (from 0), most certain first: furthest from where the bit turns.

        Looked for among up to 5,000 images, drawn once.
        """
        check_integer("s", s, 0, self.n_bits - 1)
        check_integer("count", count, 1)
        state = self._state
        if state.certain is None:
            ids = self.ids
            ids = ids[ids < len(state.vectors)]
            if len(ids) > _CERTAIN:
                ids = np.sort(np.random.default_rng(0).choice(ids, _CERTAIN, replace=False))
            state.certain = ids, state.coder.project(state.vectors[ids]).astype(np.float32)
        ids, values = state.certain
        order = np.argsort(values[:, s], kind="stable")
        negative, positive = order[values[order, s] < 0], order[values[order, s] >= 0][::-1]
        return BitSides(ids[negative[:count]], ids[positive[:count]])

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

        Those that cannot be read are left out, and listed in ``failures``.
        """
        images = open_images(source)[0]
        known = {row.key: row for row in self._table.rows() if row.id in self.index}
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
            state.ids = state.classes = state.certain = None
            return taken

    def remove(self, ids: ArrayLike) -> None:
        """Remove images by id, all of which must be there."""
        with self._mutex:
            self._check_writer("remove")
            gone = np.unique(np.atleast_1d(np.asarray(ids, dtype=np.int64)))
            state = self._state
            state.index.remove(gone)
            state.index.save()
            state.ids = state.classes = state.certain = None
            self._table.delete(gone.tolist())

    def refresh(self) -> bool:
        """Show what other processes have committed since; returns whether anything had changed."""
        with self._mutex:
            return self._refresh()

    def _refresh(self) -> bool:
        if _stamp(self.path) != self._state.stamp:
            self._state = self._read()
            return True
        state = self._state
        if not state.index.refresh():
            return False
        state.vectors = map_vectors(self.path / VECTORS, self.n_features)
        state.ids = state.classes = state.certain = None
        return True

    def _check_writer(self, doing: str) -> None:
        if self._lock is None:
            raise ValueError(f"{doing}: the project is open for reading; open it with write=True")

    def _remove_litter(self) -> None:
        """Rows that an addition left when it was killed before its codes were committed."""
        live = set(self.ids.tolist())
        self._table.delete([row.id for row in self._table.rows() if row.part != PENDING and row.id not in live])

    def _read(self) -> _State:
        """The committed state. A fit that ends in between has taken away what was read first: then once more."""
        for last in (False, True):
            stamp = _stamp(self.path)
            manifest = Manifest.read(self.path)
            try:
                return self._opened(manifest, stamp)
            except (OSError, ValueError) as error:
                if not last and _stamp(self.path) != stamp:
                    continue
                if isinstance(error, (FileNotFoundError, IndexCorruptError)):
                    raise ProjectError(f"{self.path} is no whole project: {error}") from error
                raise
        raise AssertionError

    def _opened(self, manifest: Manifest, stamp: tuple[int, int]) -> _State:
        coder = coders.load(self.path / manifest.coder)
        index = CodeIndex.open(self.path / manifest.index)
        if index.n_bits != coder.n_bits_ or coder.n_features_in_ != manifest.n_features:
            raise ProjectError(f"{self.path} is no whole project: coder, index and vectors do not fit together")
        try:
            evaluation = json.loads((self.path / manifest.evaluation).read_bytes())
        except (ValueError, RecursionError) as error:
            raise ProjectError(f"{self.path / manifest.evaluation} is damaged: it is not JSON") from error
        vectors = map_vectors(self.path / VECTORS, manifest.n_features)
        return _State(manifest, stamp, coder, index, vectors, evaluation, lengths_of(coder))


def _stamp(path: Path) -> tuple[int, int]:
    """Changes with every commit of a fit."""
    try:
        info = os.stat(path / MANIFEST)
    except OSError:
        return (0, 0)
    return info.st_ino, info.st_mtime_ns
