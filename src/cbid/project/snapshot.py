"""One committed state of a project, read from its directory."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid import coders
from cbid.checks import check_choice
from cbid.coders import Coder
from cbid.data.decode import ImageError
from cbid.data.tables import VectorTable
from cbid.descriptors import Descriptor
from cbid.project.evaluating import is_evaluation
from cbid.project.files import MANIFEST, VECTORS, ProjectError, ProjectManifest, check_rows, map_vectors
from cbid.project.intake import Intake, KnownImages, Source, take_in
from cbid.project.models import encode_rows, prefix_weights
from cbid.project.table import ADDED, ImageTable, split_labels
from cbid.search import CodeIndex, IndexCorruptError
from cbid.search.vocabulary import SEPARATOR
from cbid.storage.atomic import check_no_link, check_regular, deferred_signals
from cbid.storage.models import model_digest
from cbid.text import printable

_COMMITTED = "the commit took place before this error: "
_MAX_WEIGHTS = 64  # code lengths whose weights are cached
_MAX_PROJECTED = 5_000  # images among which the extremes of a bit are searched


class StoredLabels(NamedTuple):
    """The labels of all images; several labels of an image are one text."""

    ids: NDArray[np.int64]  # ascending
    labels: NDArray[np.str_]  # texts, "" if missing
    classes: list[str]  # the distinct labels, sorted
    complete: bool  # whether every image has a label
    sets: dict[str, list[str]]  # the labels of each distinct text
    several: bool  # whether an image has several

    def texts(self, wanted: list[str], match: str) -> list[str]:
        """Return the stored texts that a filter by labels keeps.

        match : {"any", "all", "branch"}
            With one of the labels, all of them, or one of them or a path below it.
        """
        check_choice("match", match, ("any", "all", "branch"))
        if match == "branch":
            starts = tuple(f"{label}{SEPARATOR}" for label in wanted)
            wanted = [name for name in self.classes if name in wanted or name.startswith(starts)]
        elif match == "any" and not self.several:
            return wanted
        if match == "all":
            return [text for text, labels in self.sets.items() if set(wanted) <= set(labels)]
        return [text for text, labels in self.sets.items() if not set(labels).isdisjoint(wanted)]

    def members(self, texts: list[str]) -> NDArray[np.float64]:
        """Return which of these texts have which of the classes, (texts, classes), 0 or 1."""
        place = {name: i for i, name in enumerate(self.classes)}
        found = np.zeros((len(texts), len(self.classes)))
        for row, text in enumerate(texts):
            found[row, [place[name] for name in split_labels(text)]] = 1
        return found


@dataclass
class Snapshot:
    """What readers use until another fit is committed. Images may be added and removed meanwhile."""

    path: Path
    manifest: ProjectManifest
    stamp: tuple[int, int]
    coder: Coder
    index: CodeIndex
    evaluation: dict[str, Any]
    _vectors: NDArray[np.float32]
    _changes: int = 0  # of the index, as seen by this process; cached values belong to one of them
    _weights: dict[tuple[int, str, float | None], NDArray[np.float64]] = field(default_factory=dict)
    _stored: tuple[int, StoredLabels] | None = None
    _projected: tuple[int, NDArray[np.int64], NDArray[np.float32]] | None = None
    _held: dict[tuple[int, bytes], tuple[int, NDArray[np.float64]]] = field(default_factory=dict)
    _digest: str | None = None

    @classmethod
    def read(cls, path: Path) -> "Snapshot":
        """Read the committed state; once more if another fit is committed meanwhile and removes the files."""
        for last in (False, True):
            stamp = stamp_of(path)
            manifest = ProjectManifest.read(path)
            try:
                return cls._read(path, manifest, stamp)
            except (OSError, ValueError) as error:
                if not last and stamp_of(path) != stamp:
                    continue
                if isinstance(error, (FileNotFoundError, IndexCorruptError)):
                    raise ProjectError(f"{path} is not a complete project: {error}") from error
                raise
        raise AssertionError

    @classmethod
    def _read(cls, path: Path, manifest: ProjectManifest, stamp: tuple[int, int]) -> "Snapshot":
        check_no_link(path / manifest.index)
        for name in (manifest.coder, manifest.evaluation):
            check_no_link(path / name)
            check_regular(path / name)
            manifest.check_file(path, name)
        coder = coders.load(path / manifest.coder)
        index = CodeIndex.open(path / manifest.index)
        if index.n_bits != coder.n_bits_ or coder.n_features_in_ != manifest.n_features:
            raise ProjectError(f"{path} is damaged: n_bits or n_features differ between coder, index and vectors")
        file = path / manifest.evaluation
        try:
            evaluation = json.loads(file.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ProjectError(f"{file} is damaged: it is not JSON") from error
        if not is_evaluation(evaluation):
            raise ProjectError(f"{file} is damaged: entries are missing or not valid")
        vectors = map_vectors(path / VECTORS, manifest.n_features)
        return cls(path, manifest, stamp, coder, index, evaluation, vectors)

    @property
    def n_bits(self) -> int:
        """Number of bits of each code."""
        return self.coder.n_bits_

    @property
    def n_features(self) -> int:
        """Number of values of each vector."""
        return self.manifest.n_features

    def changed(self) -> None:
        """Drop cached values after the index has changed."""
        self._vectors = map_vectors(self.path / VECTORS, self.n_features)
        self._changes += 1

    def add_images(
        self,
        source: Source,
        descriptor: Descriptor | None,
        table: ImageTable,
        known: KnownImages | None,
        *,
        strict: bool,
        **options: Any,
    ) -> Intake:
        """Describe, store, encode and index. Saving the index commits the images; until then they are invisible.

        With ``strict``, an image that cannot be read is an error and nothing is added. The options are those of
        ``take_in``: limits, n_jobs and progress.
        """
        if isinstance(source, VectorTable) != (descriptor is None):
            made, given = ("vectors", "images") if descriptor is None else ("images", "vectors")
            raise ValueError(f"the project was made from {made}; expected {made}, not {given}")
        first, file = table.next_id(), self.path / VECTORS
        try:
            options |= {"known": known, "part": ADDED, "origin": "add", "strict": strict}
            taken, width = take_in(source, descriptor, table, file, **options)
            if strict and taken.failures:
                name, reason = taken.failures[0]
                raise ImageError(f"{printable(name)}: {reason}")
            new = taken.ids >= first
            ids: NDArray[np.int64] = taken.ids[new]
            labels = [label or "" for label, is_new in zip(taken.labels, new) if is_new]
            codes = encode_rows(self.coder, map_vectors(file, width), ids) if new.any() else None
        except BaseException:
            self._forget(table, lambda: range(first, table.next_id()))
            raise
        with deferred_signals(None if codes is None else _COMMITTED + _added(ids)):
            if codes is not None:
                self._commit_codes(codes, ids, labels, table)
            self.changed()
        return taken

    def _commit_codes(
        self, codes: NDArray[np.uint8], ids: NDArray[np.int64], labels: list[str], table: ImageTable
    ) -> None:
        """Add codes to the index and save it. After an error, images and codes are both there or both not."""
        try:
            self.index.add(codes, ids=ids, labels=labels)
            self.index.save()
        except BaseException as error:
            if self._was_committed(error, _added(ids)):
                self.changed()
            elif self.index.is_saved is False:
                if int(ids[0]) in self.index:
                    self.index.remove(ids)
                self._forget(table, ids.tolist)
            raise

    def _was_committed(self, error: BaseException, change: str) -> bool:
        """Return whether the change was saved before the error, which gets a note if so, or if it is not known."""
        if self.index.is_saved:
            error.add_note(_COMMITTED + change)
        elif self.index.is_saved is None:
            error.add_note(f"it is not known whether {change}; open the project again to see")
        return bool(self.index.is_saved)

    @staticmethod
    def _forget(table: ImageTable, ids: Callable[[], Iterable[int]]) -> None:
        """Delete rows that have no codes. They are invisible; if this fails, the next writer deletes them."""
        with deferred_signals(), contextlib.suppress(OSError, ProjectError):
            table.delete(ids())

    def remove_images(self, ids: NDArray[np.int64], table: ImageTable) -> None:
        """Remove images. Saving the index commits it."""
        all_ids, labels = self.index.ids, self.index.labels
        codes = self.index.reconstruct(ids)
        names = None if labels is None else labels[np.searchsorted(all_ids, ids)]
        change = f"{len(ids)} images were removed"
        with deferred_signals(_COMMITTED + change):
            self.index.remove(ids)
            try:
                self.index.save()
            except BaseException as error:
                self._was_committed(error, change)
                if self.index.is_saved is False:
                    self.index.add(codes, ids=ids, labels=names)
                else:
                    self.changed()
                raise
            self.changed()
            self._forget(table, ids.tolist)

    def relabel_images(self, ids: NDArray[np.int64], label: str, table: ImageTable) -> None:
        """Give images a label ("": none). Saving the index commits it; the table, or the next writer, follows."""
        all_ids, labels = self.index.ids, self.index.labels
        codes = self.index.reconstruct(ids)
        before = np.full(len(ids), "") if labels is None else labels[np.searchsorted(all_ids, ids)]
        change = f"{len(ids)} labels were changed"
        with deferred_signals(_COMMITTED + change):
            table.ask_labels(ids.tolist(), label or None)
            try:
                self.index.remove(ids)
                self.index.add(codes, ids=ids, labels=[label] * len(ids))
                self.index.save()
            except BaseException as error:
                self._was_committed(error, change)
                if self.index.is_saved is False:
                    if int(ids[0]) in self.index:
                        self.index.remove(ids)
                    self.index.add(codes, ids=ids, labels=before)
                self.changed()
                raise
            self.changed()
            try:
                self.settle_labels(table)
            except BaseException as error:  # the next writer settles them
                error.add_note(_COMMITTED + change)
                raise

    def settle_labels(self, table: ImageTable) -> None:
        """Complete or take back what ``relabel_images`` has begun: the label in the index counts."""
        asked = table.asked_labels()
        if asked:
            stored = self.stored()
            at = np.searchsorted(stored.ids, asked)
            present = [i for i, id in zip(at, asked) if i < len(stored.ids) and stored.ids[i] == id]
            table.settle_labels({int(stored.ids[i]): str(stored.labels[i]) or None for i in present})

    def stored(self) -> StoredLabels:
        """Return ids and labels of one moment, even while another thread adds or removes images."""
        cached = self._stored
        if cached is None or cached[0] != self._changes:
            changes, ids, labels = self._changes, self.index.ids, self.index.labels
            while not np.array_equal(ids, now := self.index.ids):
                ids, labels = now, self.index.labels
            labels = np.empty(0, "<U1") if labels is None else labels
            names = set(labels.tolist())
            sets = {text: split_labels(text) for text in sorted(names - {""})}
            classes = sorted({name for of in sets.values() for name in of})
            several = any(len(of) > 1 for of in sets.values())
            cached = changes, StoredLabels(ids, labels, classes, "" not in names, sets, several)
            self._stored = cached
        return cached[1]

    def vectors(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the mapped file of vectors (rows, d), which has a row for each of these ids."""
        vectors = self._vectors
        if len(ids) and ids.max() >= len(vectors):  # another thread has just added it
            vectors = self._vectors = map_vectors(self.path / VECTORS, self.n_features)
            check_rows(self.path / VECTORS, vectors, ids)
        return vectors

    def weights(self, n_bits: int, how: str, likeness: float | None = None) -> NDArray[np.float64]:
        """Return ``prefix_weights`` of the coder, cached."""
        weights = self._weights.get((n_bits, how, likeness))
        if weights is None:
            weights = prefix_weights(self.coder, n_bits, how, likeness)
            if len(self._weights) >= _MAX_WEIGHTS:
                self._weights.clear()
            self._weights[n_bits, how, likeness] = weights
        return weights

    def projected(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return up to 5,000 ids and, for each, the real value (n, n_bits) whose sign is the bit."""
        cached = self._projected
        if cached is None or cached[0] != self._changes:
            changes, ids = self._changes, self.stored().ids
            if len(ids) > _MAX_PROJECTED:
                ids = np.sort(np.random.default_rng(0).choice(ids, _MAX_PROJECTED, replace=False))
            values = self.coder.project(self.vectors(ids)[ids])
            cached = self._projected = changes, ids, values.astype(np.float32)
        return cached[1:]

    def held_distances(
        self, k: int, weights: NDArray[np.float64], measure: Callable[[], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the mean distances (n,) of held-out images to their k nearest, kept until images change."""
        key, changes = (k, weights.tobytes()), self._changes
        cached = self._held.get(key)
        if cached is None or cached[0] != changes:
            if len(self._held) >= _MAX_WEIGHTS:
                self._held.clear()
            cached = self._held[key] = changes, measure()
        return cached[1]

    def digest(self) -> str:
        """Return the digest of the coder, by which a store outside the project knows its codes."""
        if self._digest is None:
            self._digest = model_digest(self.coder)
        return self._digest


def _added(ids: NDArray[np.int64]) -> str:
    return f"{len(ids)} images were added"


def stamp_of(path: Path) -> tuple[int, int]:
    """Return a value that changes with every committed fit."""
    try:
        info = os.stat(path / MANIFEST)
    except OSError:
        return (0, 0)
    return info.st_ino, info.st_mtime_ns
