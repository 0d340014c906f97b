"""Project: a directory with one searchable set of images or vectors."""

import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_integer
from cbid.coders import Coder
from cbid.codes import check_codes, unpack
from cbid.data.isolated import DecodeLimits, decode_isolated
from cbid.descriptors import Descriptor
from cbid.project import inspecting, searching
from cbid.project.evaluating import evaluate
from cbid.project.files import IMAGES, MANIFEST, STARTED, VECTORS, ProjectError, ProjectWarning, map_vectors
from cbid.project.fitting import PHASES, fit, open_images
from cbid.project.inspecting import BitClasses, Occlusion, Predictions
from cbid.project.intake import Intake, KnownImages, Source, as_source, items_of
from cbid.project.models import descriptor_from_json, has_dial, prefix_lengths
from cbid.project.searching import (
    BitSides,
    CodeStore,
    Examples,
    Explanation,
    ProjectMatches,
    SearchSettings,
    Votes,
    as_codes,
    as_vectors,
)
from cbid.project.snapshot import Snapshot, stamp_of
from cbid.project.table import HELD_OUT, PENDING, TRAIN, ImageRecord, ImageTable, join_labels
from cbid.search import CodeIndex, IndexCorruptError, UnknownIdError
from cbid.search.checks import as_float32, as_ids, unmasked
from cbid.storage.atomic import WriterLock
from cbid.storage.models import ModelFileError


class Project:
    """Images (or vectors), their codes, the coder that made the codes, and its measured accuracy, in one directory.

    ``Project.fit`` makes a project, ``Project.open`` opens one. All large files are memory-mapped. Any number of
    processes and threads may read while one process writes. Changes are durable when the call returns; other
    processes see them after ``refresh``.

    Attributes
    ----------
    limits : DecodeLimits
        Image files are decoded in separate processes with these limits of memory and time.
    """

    was_up_to_date = False  # whether a fit found nothing to do

    def __init__(
        self, path: str | os.PathLike[str], *, write: bool = False, descriptor: Descriptor | None = None
    ) -> None:
        """Open a project; see ``open``."""
        self.path = Path(path)
        self._mutex = threading.RLock()
        self.limits = DecodeLimits()
        self._given_descriptor = descriptor
        self._descriptor: Descriptor | None = None
        self._store: CodeStore | None = None  # searched instead of the index
        self._predictions: tuple[tuple[Any, Any], Predictions] | None = None  # of one fit and one set of labels
        self._snapshot = Snapshot.read(self.path)
        self._lock = WriterLock(self.path) if write else None
        try:
            self._table = ImageTable(self.path / IMAGES, write=write)
            if self.is_sealed and not self._table.is_sealed:
                raise ProjectError(f"{self.path / IMAGES} is damaged: it has no checksums")
            if not self.is_sealed:
                warnings.warn(
                    f"{self.path} was made by an older release and has no checksums; cbid check --repair adds them",
                    ProjectWarning,
                    stacklevel=3,
                )
            if write:
                self._refresh()
                self._recover()
        except BaseException:
            self._release()
            raise

    @classmethod
    def fit(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        *,
        descriptor: str | Descriptor | None = None,
        n_bits: int = 128,
        coder: str | Coder | None = None,
        held_out: float = 0.2,
        n_jobs: int | None = None,
        seed: int = 0,
        progress: bool = False,
        tree: str | None = None,
    ) -> Self:
        """Learn codes for the images of a source, index them, measure them, and return the open project.

        A fit that is killed leaves the project unchanged. The next one continues: it does not read images again, and
        CBID keeps the bits it has learned.

        Parameters
        ----------
        path : path
            A new directory, or a project to update. An update reads only new and changed images, removes images that
            are no longer in the source, and keeps images that were added by ``add``, and learns from those that have
            a label. It does nothing if nothing has changed.
        source : path, ``ImageSet``, ``VectorTable`` or sequence of images
            Anything that ``cbid.data.open_source`` accepts. Vectors need no descriptor and have no thumbnails.
        descriptor : str, Descriptor or None, default=None
            "efficientnet", "hog", "gist", "phog", "centrist", "pixels", "onnx:FILE" or "onnx:FILE#LAYER". None is the
            descriptor of the project; for a new one "efficientnet" if the extra ``deep`` is installed, else "hog".
        n_bits : int, default=128
        coder : str, Coder or None, default=None
            A name from ``cbid.coders`` or an unfitted coder. None: CBID if there are labels, else ITQ and a
            ``ProjectWarning``.
        held_out : float, default=0.2
            Share of each class that is used for measuring, not for learning.
        n_jobs : int or None, default=None
            Threads or processes, as in scikit-learn.
        seed : int, default=0
        progress : bool, default=False
            Whether to show progress bars.
        tree : str or None, default=None
            The separator of path labels, "/": CBID learns their tree, and nested folders are read as paths.
        """
        changed = fit(
            path,
            source,
            descriptor=descriptor,
            n_bits=n_bits,
            coder=coder,
            held_out=held_out,
            n_jobs=n_jobs,
            seed=seed,
            progress=progress,
            tree=tree,
        )
        project = cls(path, descriptor=descriptor if isinstance(descriptor, Descriptor) else None)
        project.was_up_to_date = not changed
        return project

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, write: bool = False, descriptor: Descriptor | None = None) -> Self:
        """Open a project.

        Parameters
        ----------
        path : path
        write : bool, default=False
            Take the lock of the only writer and hold it until ``close``.
        descriptor : Descriptor or None, default=None
            Needed only if the project was fitted with a descriptor of a class outside cbid.
        """
        return cls(path, write=write, descriptor=descriptor)

    def close(self) -> None:
        """Close the files and release the writer's lock. The project cannot be used afterwards."""
        self._table.close()
        self._snapshot.index.close()
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

    def __len__(self) -> int:
        return len(self.index)

    # Properties of the project

    @property
    def version(self) -> tuple[int, int]:
        """A value that changes with every committed fit that this object has seen."""
        return self._snapshot.stamp

    @property
    def is_sealed(self) -> bool:
        """Whether all files have checksums. Projects of 0.1.0 have none; ``check`` with ``repair`` adds them."""
        return bool(self._snapshot.manifest.checksums)

    @property
    def coder(self) -> Coder:
        """The fitted coder."""
        return self._snapshot.coder

    @property
    def index(self) -> CodeIndex:
        """The codes with ids and labels; an image without a label has the label ""."""
        return self._snapshot.index

    @property
    def descriptor(self) -> Descriptor | None:
        """The descriptor of images; None if the project was made from vectors."""
        saved = self._snapshot.manifest.descriptor
        if saved is None:
            return None
        if self._descriptor is None:
            self._descriptor = descriptor_from_json(saved, self._given_descriptor)
        return self._descriptor

    @property
    def n_bits(self) -> int:
        """Bits of a code."""
        return self._snapshot.n_bits

    @property
    def n_features(self) -> int:
        """Values of a raw vector."""
        return self._snapshot.n_features

    @property
    def lengths(self) -> list[int]:
        """The code lengths for prefix search, ascending. The last is ``n_bits``; a store has no other."""
        return prefix_lengths(self.coder) if self._store is None else [self.n_bits]

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return self._snapshot.stored().ids

    @property
    def classes(self) -> list[str]:
        """The distinct labels, sorted."""
        return list(self._snapshot.stored().classes)

    @property
    def class_counts(self) -> dict[str, int]:
        """The number of images of each class, by name; "" are images without a label."""
        stored = self._snapshot.stored()
        counts = dict.fromkeys([*([] if stored.complete else [""]), *stored.classes], 0)
        for text, count in zip(*np.unique(stored.labels, return_counts=True)):
            for name in stored.sets.get(str(text), [""]):
                counts[name] += int(count)
        return counts

    def ids_of(self, label: str | None = None, part: str | None = None) -> NDArray[np.int64]:
        """Return the ids of the images of a class ("": without a label) and of a part, ascending; None: of all."""
        stored = self._snapshot.stored()
        keep = np.ones(len(stored.ids), dtype=bool)
        if label is not None:
            keep = np.isin(stored.labels, stored.texts([label], "any") if label else [""])
        if part is not None:
            keep &= np.isin(stored.ids, self._table.ids_in(part))
        return stored.ids[keep]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the fit: descriptor, coder, held-out share, seed, source."""
        manifest = self._snapshot.manifest
        return {"descriptor": manifest.descriptor, "source": manifest.source, **manifest.settings}

    @property
    def last_fit(self) -> dict[str, Any]:
        """Statistics of the last fit: counts, seconds of each phase, failures, version of cbid."""
        fit = self._snapshot.manifest.fit
        seconds = fit.get("seconds", {})
        return {**fit, "seconds": {phase: seconds[phase] for phase in PHASES if phase in seconds}}

    @property
    def evaluation(self) -> dict[str, Any]:
        """The accuracy measured on the held-out images; see ``cbid.project.evaluating.evaluate``."""
        return {name: value for name, value in self._snapshot.evaluation.items() if name != "confusion"}

    @property
    def confusion(self) -> dict[str, Any]:
        """The confusion matrix of the held-out images: "classes", and "matrix" with true classes as rows."""
        return self._snapshot.evaluation["confusion"] or {"classes": [], "matrix": []}

    @property
    def has_thumbnails(self) -> bool:
        """Whether the project was made from images."""
        return self._snapshot.manifest.descriptor is not None

    # Single images

    def record(self, id: int) -> ImageRecord:
        """Return name, path, label and part of one image."""
        self._check_id(id)
        return self._table.records([id])[0]

    def records(self, first: int = 0, count: int = 100) -> list[ImageRecord]:
        """Return ``count`` records by ascending id, after skipping ``first``."""
        check_integer("first", first, 0)
        check_integer("count", count, 0)
        return self._table.records(self.ids[first : first + count])

    def records_of(self, ids: Sequence[int] | NDArray[np.int64]) -> list[ImageRecord]:
        """Return the records of ids that a search has found, in their order."""
        return self._table.records(ids)

    def thumbnail(self, id: int) -> bytes:
        """Return a JPEG whose longer side has at most 192 pixels."""
        self._check_id(id)
        jpeg = self._table.thumbnail(id)
        if jpeg is None:
            raise ValueError(f"id={id} has no thumbnail: the project was made from vectors")
        return jpeg

    def vector(self, id: int) -> NDArray[np.float32]:
        """Return the raw vector (d,) of one image, as the descriptor computed it."""
        self._check_id(id)
        vector = self._snapshot.vectors(np.array([id]))[id]
        self._table.check_vector(id, vector)
        return vector

    def code(self, id: int) -> NDArray[np.uint8]:
        """Return the packed code of one image."""
        return self.index.reconstruct([id])[0]

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Return whether the file at ``path`` is one of the images."""
        return any(id in self.index for id in self._table.ids_of(os.fsencode(os.path.abspath(path))))

    def held(self, source: Source) -> set[int]:
        """Return the places of a source whose images are in the project: files by path, others by content."""
        stamps = {row.stamp for row in self._table.rows() if not row.path and row.id in self.index}
        items, _ = items_of(source, distinct=False)
        return {i.place for i in items if (self.holds(os.fsdecode(i.path)) if i.path else i.stamp in stamps)}

    def _check_id(self, id: int) -> None:
        if id not in self.index:
            raise UnknownIdError(f"id={id!r} is not in the project")

    # Searching

    def describe_image(self, image: "bytes | ArrayLike") -> NDArray[np.float32]:
        """Return the vector (d,) of an image: an array, a Pillow image, or the bytes of a file."""
        descriptor = self.descriptor
        if descriptor is None:
            raise ValueError("the project has no descriptor, because it was made from vectors; give vectors")
        array = decode_isolated(image, self.limits) if isinstance(image, bytes) else np.asarray(image)
        return as_vectors(self._snapshot, descriptor.describe(array))[0]

    def encode(self, vectors: ArrayLike) -> NDArray[np.uint8]:
        """Return packed codes (n, ceil(n_bits/8)) of vectors (n, d), or of one (d,)."""
        return as_codes(self._snapshot, as_float32(vectors, "vectors"))

    def search(
        self,
        codes_or_vectors: ArrayLike,
        k: int = 10,
        *,
        n_bits: int | None = None,
        how: str = "weighted",
        exclude: int | Sequence[int] | None = None,
        label: str | Sequence[str] | None = None,
        match: str = "any",
        vectors: ArrayLike | None = None,
        likeness: float | None = None,
    ) -> ProjectMatches:
        """Return the k nearest images of each query.

        Images at the same distance are ranked by the distance of their vectors from the vector of the query (of more
        than 512 that tie, by a random subset). If only the code of the query is known, the smaller id comes first.

        Parameters
        ----------
        codes_or_vectors : array (q, ...) or one query
            Packed codes (uint8) or vectors.
        k : int, default=10
        n_bits : int or None, default=None
            Compare only the first bits, with the weights fitted at that length.
        how : {"weighted", "plain", "raw"}, default="weighted"
            Weighted or plain Hamming distance, or Euclidean distance of the raw vectors.
        exclude : int, sequence of int or None, default=None
            Ids to exclude, such as the id of the query.
        label : str, sequence of str or None, default=None
            Search only images of this class, or of these classes.
        match : {"any", "all", "branch"}, default="any"
            With several labels: images that have one of them, all of them, or one of them or a path below it
            ("animal" also finds "animal/dog").
        vectors : array (q, d) or None, default=None
            The vectors of the queries, to rank ties if the queries are codes.
        likeness : float or None, default=None
            From 0 ("same class") to 1 ("looks alike"): search with ``coder.weights_at(likeness)``. Needs a coder
            with these weights (``has_dial``) and ``how="weighted"``. None: the weights of the coder.
        """
        queries = np.asarray(unmasked(codes_or_vectors, "codes_or_vectors"))
        settings = SearchSettings(n_bits, how, exclude, label, match, likeness)
        found = searching.search(self._snapshot, self._store, queries, k, settings, vectors)
        return replace(found, pictures=self.thumbnail)

    def search_examples(
        self,
        like: Examples,
        unlike: Examples | None = None,
        k: int = 10,
        **settings: Any,
    ) -> ProjectMatches:
        """Return the k images that are nearest to several examples and far from counter-examples, as one query.

        Images are ranked by their mean distance to the examples less half their mean distance to the
        counter-examples. The other parameters are those of ``search``.
        """
        unlike = unlike or Examples(np.empty((0, like.codes.shape[1]), np.uint8), None)
        return searching.search_examples(self._snapshot, self._store, like, unlike, k, SearchSettings(**settings))

    def search_in(self, store: CodeStore) -> None:
        """Search codes in this store from now on. It must hold the codes of the project (``cbid index --to``)."""
        searching.check_store(self._snapshot, store)
        self._store = store

    def weights(self, n_bits: int, how: str = "weighted", likeness: float | None = None) -> NDArray[np.float64]:
        """Return the weights (self.n_bits,) of a search with the first ``n_bits`` bits; zero after them."""
        return self._snapshot.weights(n_bits, how, likeness)

    @property
    def has_dial(self) -> bool:
        """Whether a search can choose between "same class" and "looks alike" (``likeness``)."""
        return has_dial(self.coder)

    def classify(
        self,
        codes: ArrayLike,
        k: int = 5,
        n_bits: int | None = None,
        *,
        exclude: int | Sequence[int] | None = None,
        vectors: ArrayLike | None = None,
        weights: str = "uniform",
        unknown: float | None = None,
    ) -> Votes:
        """Return the class that wins the vote of the k nearest labelled images, and all votes.

        If images have several labels, each of them gets the votes of an image, and the labels with at least half of
        all votes win.

        With ``weights="distance"`` a vote counts 1 / distance; images at distance 0, if any, then vote alone.

        ``codes`` are packed codes or vectors; with codes, ``vectors`` may be the vectors of the same queries. Vectors
        rank ties, as in ``search``. If the vector of the query is not known, all images as near as the k-th
        vote, each with an even share (of more than about 8,192, a random subset).

        With ``unknown``, such as .05, queries that are farther from their k nearest than this share of the held-out
        images is from theirs have the label "unknown".
        """
        far = None if unknown is None else (unknown, lambda: self.ids_of(part=HELD_OUT))
        queries = np.asarray(unmasked(codes, "codes"))
        return searching.classify(self._snapshot, self._store, queries, k, n_bits, exclude, vectors, weights, far)

    def explain(
        self, code_a: ArrayLike, code_b: ArrayLike, n_bits: int | None = None, likeness: float | None = None
    ) -> Explanation:
        """Compare two codes bit by bit. The weights of the bits that differ sum to the weighted distance."""
        length = self.n_bits if n_bits is None else n_bits
        weight = self.weights(length, likeness=likeness)[:length]
        a, b = (
            unpack(check_codes(np.asarray(code), self.n_bits)[0], self.n_bits)[:length] for code in (code_a, code_b)
        )
        return Explanation(a == b, weight.copy())

    def predictions(self) -> Predictions:
        """Return the class predicted for each held-out image by the training images, with the current labels.

        As in ``evaluation``, up to 2,000 held-out images are considered. The result is kept until images change.
        """
        snapshot, changes = self._snapshot, (self._snapshot.stamp, self._snapshot.stored())
        cached = self._predictions
        if cached is None or cached[0][0] != changes[0] or cached[0][1] is not changes[1]:
            found = inspecting.predictions(snapshot, self.ids_of(part=TRAIN), self.ids_of(part=HELD_OUT))
            cached = self._predictions = changes, found
        return cached[1]

    def duplicates(self, radius: int, similarity: float = 0.95) -> list[tuple[list[int], float]]:
        """Return groups of near-duplicates, each with the similarity of its least similar pair, from 0 to 1.

        Two images are near-duplicates if their codes differ in at most ``radius`` bits and their raw vectors have at
        least this ``similarity`` (1 less their distance divided by the sum of their norms). Groups are connected by
        such pairs. The most similar groups come first.
        """
        return inspecting.duplicates(self._snapshot, radius, similarity)

    def bit_classes(self, s: int) -> BitClasses:
        """Return how many images of each class have the value 1 in bit s (from 0), over all stored images."""
        return inspecting.bit_classes(self._snapshot, s)

    def occlude(
        self,
        image: "bytes | ArrayLike",
        other: ArrayLike,
        n_bits: int | None = None,
        *,
        likeness: float | None = None,
        own: ArrayLike | None = None,
        grid: int | None = None,
        seconds: float = 4.0,
    ) -> Occlusion:
        """Return which parts of a picture decide the bits that it shares with another code.

        Each part of a grid is hidden in turn. See ``Occlusion``. ``own`` is the code of the picture, if it is known;
        ``grid`` is the number of parts along each side (None: as many as fit into ``seconds``, at most 12).
        """
        array = decode_isolated(image, self.limits) if isinstance(image, bytes) else np.asarray(image)
        length = self.n_bits if n_bits is None else n_bits
        weights = self.weights(length, likeness=likeness)
        code = check_codes(np.asarray(other), self.n_bits)[0]
        known = None if own is None else check_codes(np.asarray(own), self.n_bits)[0]
        describe = self.describe_image
        return inspecting.occlude(
            self._snapshot, describe, array, code, weights, own=known, grid=grid, seconds=seconds
        )

    def bit(self, s: int, count: int = 24) -> BitSides:
        """Return the images on both sides of bit s (from 0), those farthest from its threshold first.

        In a large project, a fixed sample of 5,000 images is considered.
        """
        return searching.bit_sides(self._snapshot, s, count)

    def evaluate(self, vectors: ArrayLike, labels: Sequence[str | None]) -> dict[str, Any]:
        """Measure ``evaluation``, including "confusion", with other images than the held-out ones.

        Parameters
        ----------
        vectors : array (n, d)
            Vectors of images that are not in the project.
        labels : sequence (n,) of str or None
        """
        snapshot = self._snapshot
        queries = as_vectors(snapshot, vectors)
        if len(labels) != len(queries):
            raise ValueError(f"labels has {len(labels)} entries for {len(queries)} vectors; expected one per vector")
        ids, names = snapshot.stored()[:2]
        return evaluate(
            (queries, as_codes(snapshot, queries), np.array([label or "" for label in labels])),
            (snapshot.vectors(ids)[ids], snapshot.index.reconstruct(ids), names),
            n_bits=snapshot.n_bits,
            lengths=self.lengths,
            weights=snapshot.weights,
        )

    # Changing

    def add(
        self,
        images_or_paths: Any,
        labels: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        *,
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> NDArray[np.int64]:
        """Add images (arrays, bytes of files, paths), or vectors (n, d) to a project of vectors; return their ids.

        If one cannot be read, none is added. Searches find the images once this returns.
        """
        source = as_source(images_or_paths, labels, names, vectors=self.descriptor is None)
        return self._add(source, None, strict=True, n_jobs=n_jobs, progress=progress).ids

    def add_new(self, source: Any, *, n_jobs: int | None = None, progress: bool = False) -> Intake:
        """Add the images of a source (see ``fit``) that are not in the project yet.

        A file is identified by path, size and time, a vector with an id by id and values, and anything else by its
        content. Images that cannot be read are skipped and listed in ``failures``.
        """
        images = open_images(source, tree="tree" in self.settings)[0]
        known = KnownImages((row for row in self._table.rows() if row.id in self.index), by_content=True)
        limits = None if self.limits == DecodeLimits() else self.limits
        return self._add(images, known, strict=False, limits=limits, n_jobs=n_jobs, progress=progress)

    def _add(self, source: Source, known: KnownImages | None, **options: Any) -> Intake:
        with self._mutex:
            self._check_writer("add")
            options = {"limits": self.limits, **options}
            return self._snapshot.add_images(source, self.descriptor, self._table, known, **options)

    def remove(self, ids: ArrayLike) -> None:
        """Remove images by id. All ids must be in the project."""
        with self._mutex:
            self._check_writer("remove")
            self._snapshot.remove_images(np.unique(as_ids(ids)), self._table)

    def relabel(self, ids: ArrayLike, label: str | Sequence[str] | None) -> None:
        """Give images another label, several (a list), or none. All ids must be in the project.

        The label holds until the source of the next fit gives the image another one than it had. The codes do not
        change before the next fit.
        """
        wanted = np.unique(as_ids(ids))
        names = [] if label is None else [label] if isinstance(label, str) else list(label)
        if not all(isinstance(name, str) and name and name.isprintable() for name in names):
            raise ValueError(f"label={label!r}: expected printable text, a list of such texts, or None")
        with self._mutex:
            self._check_writer("relabel")
            if len(wanted):
                self._snapshot.relabel_images(wanted, join_labels(names) or "", self._table)

    @property
    def n_unlearned(self) -> int:
        """The number of labels that were given by ``relabel`` since the last fit."""
        return self._table.n_unlearned()

    def _check_writer(self, method: str) -> None:
        if self._lock is None:
            raise ValueError(f"{method}: the project is open for reading; open it with write=True")

    # Checking

    @classmethod
    def check(cls, path: str | os.PathLike[str], *, repair: bool = False) -> tuple[list[str], list[str]]:
        """Read every file of a project; return what is damaged, and notes on what is not.

        Parameters
        ----------
        path : path
        repair : bool, default=False
            First remove what killed or failed writers have left, and then add checksums that are missing. Needs the
            lock of the writer. Damage is never repaired: the content is lost, and only a new fit helps.
        """
        problems: list[str] = []
        notes: list[str] = []
        has = {name: (Path(path) / name).exists() for name in (MANIFEST, STARTED, IMAGES)}
        if not has[MANIFEST] and (has[STARTED] or not has[IMAGES]):
            cls(path)  # raises: it is not a project, or not yet one, but it is not damaged
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ProjectWarning)  # what opening finds is reported below
                project = cls(path, write=repair)
            with project:
                if repair:
                    before = len(project)
                    project._recover(remove_ghosts=True)
                    if len(project) < before:
                        notes.append(f"{before - len(project)} codes without an image were removed")
                project._check(problems, notes, repair=repair)
        except (ProjectError, IndexCorruptError, ModelFileError) as error:
            problems.append(str(error))
        return problems, notes

    def _check(self, problems: list[str], notes: list[str], *, repair: bool) -> None:
        damage = self._table.damage()
        if damage is not None:
            problems.append(f"{self.path / IMAGES}: {damage}")
            return
        try:
            self.index.verify()
        except IndexCorruptError as error:
            problems.append(str(error))
        live, rows = set(self.ids.tolist()), {row.id: row.part for row in self._table.rows()}
        ghosts = sorted(live - set(rows))
        problems += [f"id={id}: its code has no image; --repair removes the code" for id in ghosts]
        left = [id for id, part in rows.items() if id not in live and part != PENDING]
        if left:
            notes.append(f"{len(left)} images of a writer that was killed have no code; --repair removes them")
        vectors = map_vectors(self.path / VECTORS, self.n_features)
        wrong, missing = self._table.differences(vectors)
        problems += [f"id={id}: {what}" for id, what in wrong if id in live]
        if self.is_sealed:
            problems += [f"id={id}: its checksum is missing" for id in missing]
            if self._table.n_features() != self.n_features:
                problems.append(f"{self.path / IMAGES}: n_features differs from {MANIFEST}")
        elif repair:
            notes.append(f"{self._table.add_checksums(vectors)} images got checksums")
            self._snapshot.manifest.write(self.path)
        else:
            notes.append(f"{len(missing)} images have no checksums, as in older releases; --repair adds them")

    # Following other processes

    def refresh(self) -> bool:
        """Load what other processes have committed; return whether anything changed."""
        with self._mutex:
            return self._refresh()

    def _refresh(self) -> bool:
        if stamp_of(self.path) == self._snapshot.stamp:
            if not self.index.refresh():
                return False
            self._snapshot.changed()
            return True
        snapshot = Snapshot.read(self.path)
        if snapshot.manifest.descriptor != self._snapshot.manifest.descriptor:
            self._descriptor = None
        if self._table.is_replaced():  # the project was deleted and made again
            self._table = ImageTable(self.path / IMAGES)
        self._snapshot = snapshot
        return True

    def _recover(self, *, remove_ghosts: bool = False) -> None:
        """Make table and index agree after a writer that was killed or failed.

        Rows without codes belong to an addition that was not committed. Codes without rows are ghosts that cbid 0.1.0
        could leave. A table that was lost or replaced looks the same, so they are removed only on request.
        """
        self._snapshot.settle_labels(self._table)
        ids = self.ids
        if self._table.finished() == (len(ids), int(ids.sum())):
            return
        live = set(ids.tolist())
        rows = {row.id: row.part for row in self._table.rows()}
        self._table.delete([id for id, part in rows.items() if part != PENDING and id not in live])
        ghosts = np.array(sorted(live - set(rows)), dtype=np.int64)
        if len(ghosts) and remove_ghosts:
            self._snapshot.remove_images(ghosts, self._table)
        elif len(ghosts):
            warnings.warn(
                f"{len(ghosts)} codes have no image, the first id={ghosts[0]}; cbid check --repair removes them",
                ProjectWarning,
                stacklevel=4,
            )
