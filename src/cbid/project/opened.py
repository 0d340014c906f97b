"""A project as it lies on the disk, opened: what it holds, and what others have committed since."""

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cbid import coders
from cbid.checks import check_integer
from cbid.coders import Coder
from cbid.data.image_sets import ImageSet
from cbid.data.tables import VectorTable
from cbid.descriptors import Descriptor
from cbid.project.descriptors import descriptor_from_json
from cbid.project.errors import ProjectError
from cbid.project.evaluating import is_evaluation
from cbid.project.intake import items_of
from cbid.project.manifest import IMAGES, MANIFEST, VECTORS, Manifest
from cbid.project.prefixes import lengths_of
from cbid.project.table import PENDING, ImageRecord, ImageTable
from cbid.project.vectors import check_rows, map_vectors
from cbid.search import CodeIndex, IndexCorruptError, UnknownIdError
from cbid.storage.lock import WriterLock

if TYPE_CHECKING:
    from cbid.search.milvus import MilvusStore

__all__ = ["Opened", "State", "Stored"]


@dataclass
class State:
    """What a reader sees, replaced as a whole when another fit is committed."""

    manifest: Manifest
    stamp: tuple[int, int]
    coder: Coder
    index: CodeIndex
    vectors: NDArray[np.float32]
    evaluation: dict[str, Any]
    lengths: list[int]
    weights: dict[tuple[int, str], NDArray[np.float64]] = field(default_factory=dict)
    changes: int = 0  # that this process has seen in the index; what is kept below belongs to one of them
    stored: "tuple[int, Stored] | None" = None
    digest: str | None = None  # of the coder, once it was asked for
    certain: tuple[int, NDArray[np.int64], NDArray[np.float32]] | None = None

    def ids_and_labels(self) -> "Stored":
        """What is stored at one moment, also while another thread adds or removes."""
        kept = self.stored
        if kept is None or kept[0] != self.changes:
            changes, ids = self.changes, self.index.ids
            labels = self.index.labels
            while not np.array_equal(ids, now := self.index.ids):
                ids, labels = now, self.index.labels
            labels = np.empty(0, "<U1") if labels is None else labels
            names = set(labels.tolist())
            kept = self.stored = changes, Stored(ids, labels, sorted(names - {""}), "" not in names)
        return kept[1]


class Stored(NamedTuple):
    """All ids, ascending; their labels; the distinct ones, sorted; whether every image has one."""

    ids: NDArray[np.int64]
    labels: NDArray[np.str_]
    classes: list[str]
    labelled: bool


class Opened:
    """A project's state and its images, one by one."""

    def __init__(
        self, path: str | os.PathLike[str], *, write: bool = False, descriptor: Descriptor | None = None
    ) -> None:
        """See ``open``."""
        self.path = Path(path)
        self._mutex = threading.RLock()
        self._given = descriptor
        self._descriptor: Descriptor | None = None
        self._lock: WriterLock | None = None
        self._store: MilvusStore | None = None  # searched in the place of the index
        self._state = self._read()
        if write:
            self._lock = WriterLock(self.path)
        try:
            self._open_table(write=write)
            if write:
                self._refresh()
                self._remove_litter()
        except BaseException:
            self._release()
            raise

    def _open_table(self, *, write: bool = False) -> None:
        self._table_file = _file_of(self.path / IMAGES)
        self._table = ImageTable(self.path / IMAGES, write=write)

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
    def version(self) -> tuple[int, int]:
        """Another one with every fit that is committed and seen."""
        return self._state.stamp

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
        """The code lengths offered for prefix search, ascending; the last is ``n_bits``, in a store the only one."""
        return list(self._state.lengths) if self._store is None else [self.n_bits]

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return self._state.ids_and_labels().ids

    @property
    def classes(self) -> list[str]:
        """The distinct labels, sorted."""
        return list(self._state.ids_and_labels().classes)

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

    def records_of(self, ids: Sequence[int] | NDArray[np.int64]) -> list[ImageRecord]:
        """The records of ids that a search has found, in their order, read at once."""
        return self._table.records(ids)

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
        return self._vectors(self._state, np.array([id]))[id]

    def _vectors(self, state: State, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows of the file, which has one for each of these ids."""
        vectors = state.vectors
        if len(ids) and ids.max() >= len(vectors):  # added a moment ago, and the index was the first to know
            vectors = state.vectors = map_vectors(self.path / VECTORS, state.manifest.n_features)
            check_rows(self.path / VECTORS, vectors, ids)
        return vectors

    def code(self, id: int) -> NDArray[np.uint8]:
        """The packed code of one image."""
        return self.index.reconstruct([id])[0]

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Whether the file at ``path`` is one of the project's images."""
        return any(id in self.index for id in self._table.ids_of(os.fsencode(os.path.abspath(path))))

    def held(self, source: ImageSet | VectorTable) -> set[int]:
        """The places in a source of what the project holds: a file by its path, all else by its content."""
        stamps = {row.stamp for row in self._table.rows() if not row.path and row.id in self.index}
        items, _ = items_of(source, distinct=False)
        return {i.place for i in items if (self.holds(os.fsdecode(i.path)) if i.path else i.stamp in stamps)}

    def _check_ids(self, ids: Sequence[int]) -> None:
        for id in ids:
            if id not in self.index:
                raise UnknownIdError(f"id={id!r} is not in the project")

    # Following what others commit

    def refresh(self) -> bool:
        """Show what other processes have committed since; returns whether anything had changed."""
        with self._mutex:
            return self._refresh()

    def _refresh(self) -> bool:
        if _stamp(self.path) != self._state.stamp:
            state = self._read()
            if state.manifest.descriptor != self._state.manifest.descriptor:
                self._descriptor = None
            if _file_of(self.path / IMAGES) != self._table_file:  # deleted, and made anew under the same name
                self._open_table()
            self._state = state
            return True
        state = self._state
        if not state.index.refresh():
            return False
        state.vectors = map_vectors(self.path / VECTORS, self.n_features)
        state.changes += 1
        return True

    def _remove_litter(self) -> None:
        """Rows that an addition left when it was killed before its codes were committed."""
        if self._table.n_settled() == len(self):  # every image has its row, so there are no others
            return
        live = set(self.ids.tolist())
        self._table.delete([row.id for row in self._table.rows() if row.part != PENDING and row.id not in live])

    def _read(self) -> State:
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

    def _opened(self, manifest: Manifest, stamp: tuple[int, int]) -> State:
        coder = coders.load(self.path / manifest.coder)
        index = CodeIndex.open(self.path / manifest.index)
        if index.n_bits != coder.n_bits_ or coder.n_features_in_ != manifest.n_features:
            raise ProjectError(f"{self.path} is no whole project: coder, index and vectors do not fit together")
        try:
            evaluation = json.loads((self.path / manifest.evaluation).read_bytes())
        except (ValueError, RecursionError) as error:
            raise ProjectError(f"{self.path / manifest.evaluation} is damaged: it is not JSON") from error
        if not is_evaluation(evaluation):
            raise ProjectError(f"{self.path / manifest.evaluation} is damaged: it is not as written")
        vectors = map_vectors(self.path / VECTORS, manifest.n_features)
        return State(manifest, stamp, coder, index, vectors, evaluation, lengths_of(coder))


def _file_of(path: Path) -> tuple[int, int]:
    """Which file that is, whatever its name."""
    try:
        info = os.stat(path)
    except OSError:
        return (0, 0)
    return info.st_dev, info.st_ino


def _stamp(path: Path) -> tuple[int, int]:
    """Changes with every commit of a fit."""
    try:
        info = os.stat(path / MANIFEST)
    except OSError:
        return (0, 0)
    return info.st_ino, info.st_mtime_ns
