"""Fitting a project: read what is new, learn, encode, index, measure, and then commit all of it at once."""

import json
import os
import shutil
import time
import warnings
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cbid
from cbid.checks import check_integer, check_real
from cbid.coders import Coder
from cbid.data.image_sets import ImageSet, Problems, as_image_set
from cbid.data.names import printable
from cbid.data.sources import open_source
from cbid.data.tables import VectorTable
from cbid.descriptors import Descriptor
from cbid.project.descriptors import descriptor_to_json, make_descriptor
from cbid.project.encoding import encode_rows
from cbid.project.errors import ProjectError, ProjectWarning
from cbid.project.evaluating import evaluate
from cbid.project.intake import Known, Taken, label_of, take_in
from cbid.project.learning import (
    check_settings,
    choose_coder,
    coder_settings,
    is_supervised,
    learn,
    tell_left_out,
)
from cbid.project.manifest import IMAGES, LEARNING, LOCK, MANIFEST, STARTED, VECTORS, Manifest, is_ours, new_name
from cbid.project.parts import ADDED, HELD_OUT, TRAIN, split
from cbid.project.prefixes import lengths_of, weights_of
from cbid.project.table import PENDING, ImageRow, ImageTable
from cbid.project.vectors import check_rows, map_vectors
from cbid.search import CodeIndex
from cbid.storage.atomic import whole_file
from cbid.storage.lock import WriterLock

__all__ = ["fit", "open_images"]

_MOST_FAILURES = 1000  # that are kept by name


def open_images(source: Any) -> tuple[ImageSet | VectorTable, str]:
    """A source as an ``ImageSet`` or a ``VectorTable``, and where it is; what is broken in it is listed in there."""
    if isinstance(source, (str, os.PathLike)):
        return open_source(source, on_error="skip"), os.path.abspath(source)
    if isinstance(source, VectorTable):
        return source, ""
    return as_image_set(source), ""


def fit(
    path: str | os.PathLike[str],
    source: Any,
    *,
    descriptor: "str | Descriptor" = "hog",
    n_bits: int = 128,
    coder: "str | Coder | None" = None,
    held_out: float = 0.2,
    n_jobs: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> bool:
    """Make a project in the directory ``path``, or bring the one that is there up to date; see ``Project.fit``.

    Returns whether there was anything to do.
    """
    check_integer("n_bits", n_bits, 1)
    check_real("held_out", held_out, 0, 1)
    check_integer("seed", seed, 0)
    directory = Path(path)
    images, where = open_images(source)
    if not len(images):
        raise ValueError("the source is empty; give at least two images")
    describer = None if isinstance(images, VectorTable) else make_descriptor(descriptor)
    labels = [label_of(images, i) for i in range(len(images))]
    left_out = [] if isinstance(images, VectorTable) else _others(images.problems, where, directory)
    made = choose_coder(coder, n_bits, labels, describer, seed=seed, n_jobs=n_jobs, left_out=left_out)
    check_settings(made)
    _make_directory(directory)  # what is wrong with the settings is told before anything is made or read
    lock = WriterLock(directory)
    try:
        return _Fit(directory, images, where, describer, n_jobs, progress).run(made, held_out, seed)
    finally:
        lock.release()


class _Fit:
    """One run, under the writer's lock."""

    def __init__(
        self,
        directory: Path,
        images: ImageSet | VectorTable,
        where: str,
        descriptor: Descriptor | None,
        n_jobs: int | None,
        progress: bool,
    ) -> None:
        self.directory, self.images, self.where = directory, images, where
        self.describer, self.n_jobs, self.progress = descriptor, n_jobs, progress
        self.descriptor = None if descriptor is None else descriptor_to_json(descriptor)
        self.before = Manifest.read(directory) if (directory / MANIFEST).exists() else None
        self.committed: dict[int, str] = {}  # labels by id, as the committed index has them
        self.seconds: dict[str, float] = {}

    def run(self, coder: Coder, held_out: float, seed: int) -> bool:
        self._check_descriptor()
        with closing(ImageTable(self.directory / IMAGES, write=True)) as table:
            begun = time.perf_counter()
            taken, kept, width = self._take_in(table)
            self.seconds["reading"] = time.perf_counter() - begun
            settings = {"coder": coder_settings(coder), "held_out": held_out, "seed": seed}
            parts = split(taken.names, taken.labels, held_out, seed, supervised=is_supervised(coder))
            self._tell(taken, parts)
            if self._up_to_date(taken, settings, table):
                self._settle(table, taken, parts)
                return False
            self._learn_and_commit(table, taken, kept, parts, coder, settings, width)
            return True

    def _check_descriptor(self) -> None:
        """One project, one kind of vector: refuse another one, or forget what a first fit has begun with another."""
        if self.before is not None:
            old, new = self.before.descriptor, self.descriptor
            if (old and old["fingerprint"]) != (new and new["fingerprint"]):
                raise ValueError(
                    f"{printable(self.directory)} was made from {_kind(old)}, not from {_kind(new)}; "
                    "give another name for this one"
                )
            return
        started = self.directory / STARTED
        wanted = {"descriptor": self.descriptor}
        try:
            same = json.loads(started.read_bytes()) == wanted
        except (OSError, ValueError):
            same = False
        if not same:
            for name in (IMAGES, f"{IMAGES}-journal", VECTORS, LEARNING):
                (self.directory / name).unlink(missing_ok=True)
            with whole_file(started) as temporary:
                temporary.write_text(json.dumps(wanted) + "\n")

    def _take_in(self, table: ImageTable) -> tuple[Taken, list[ImageRow], int]:
        """The source's images, and the rows of those that were added by hand and stay."""
        if self.before is not None:
            with CodeIndex.open(self.directory / self.before.index) as index:
                names = index.labels
                self.committed = dict(zip(index.ids.tolist(), [] if names is None else names.tolist()))
        rows, stale, added = [], [], []
        for row in table.rows():
            if row.id in self.committed or row.part == PENDING:
                rows.append(row)
                if row.origin == "add":
                    added.append(row)
            else:
                stale.append(row.id)
        table.delete(stale)
        taken, width = take_in(
            self.images,
            self.describer,
            table,
            self.directory / VECTORS,
            known=Known(rows),
            part=PENDING,
            origin="fit",
            n_jobs=self.n_jobs,
            progress=self.progress,
        )
        taken.failures = _others(taken.failures, self.where, self.directory)
        ours = set(taken.ids.tolist())
        return taken, [row for row in added if row.id not in ours], width

    def _up_to_date(self, taken: Taken, settings: dict[str, Any], table: ImageTable) -> bool:
        """Whether the committed fit is just what this one would make."""
        if self.before is None or self.before.settings != settings:
            return False
        # By the committed index, not by the table: that may be ahead of it, or behind, where a fit was killed.
        labels = {r.id: self.committed[r.id] for r in table.rows() if r.origin == "fit" and r.id in self.committed}
        return labels == {id: label or "" for id, label in zip(taken.ids.tolist(), taken.labels)}

    def _settle(self, table: ImageTable, taken: Taken, parts: NDArray[np.str_]) -> None:
        """What the last fit could not write down after its commit."""
        wanted = dict(zip(taken.ids.tolist(), zip(taken.labels, parts.tolist())))
        if any((row.label, row.part) != wanted.get(row.id, (row.label, row.part)) for row in table.rows()):
            table.settle(taken.ids.tolist(), taken.labels, parts.tolist())

    def _tell(self, taken: Taken, parts: NDArray[np.str_]) -> None:
        if taken.failures:
            warnings.warn(tell_left_out(taken.failures), ProjectWarning, stacklevel=5)
        unlearned = int((parts == ADDED).sum())
        if unlearned:
            warnings.warn(
                f"{unlearned} images without a label, or alone in their class, are indexed but not learned from",
                ProjectWarning,
                stacklevel=5,
            )

    def _learn_and_commit(
        self,
        table: ImageTable,
        taken: Taken,
        kept: list[ImageRow],
        parts: NDArray[np.str_],
        coder: Coder,
        settings: dict[str, Any],
        width: int,
    ) -> None:
        vectors = map_vectors(self.directory / VECTORS, width)
        all_ids = np.concatenate([taken.ids, np.array([row.id for row in kept], dtype=np.int64)])
        check_rows(self.directory / VECTORS, vectors, all_ids)
        names = np.array([label or "" for label in taken.labels])
        train, held = (taken.ids[parts == part] for part in (TRAIN, HELD_OUT))
        if len(train) < 2:
            raise ValueError(f"{len(train)} images can be learned from; at least two are needed")
        begun = time.perf_counter()
        y = names[parts == TRAIN] if is_supervised(coder) else None
        coder = learn(coder, vectors[train], y, checkpoint=self.directory / LEARNING, verbose=self.progress)
        self.seconds["learning"] = time.perf_counter() - begun

        begun = time.perf_counter()
        all_labels = np.array([*names.tolist(), *(row.label or "" for row in kept)])
        codes = encode_rows(coder, vectors, all_ids)
        manifest = Manifest(
            n_features=width,
            coder=new_name("coder", ".safetensors"),
            index=new_name("index"),
            evaluation=new_name("evaluation", ".json"),
            descriptor=self.descriptor,
            settings=settings,
            source=self.where,
        )
        try:
            coder.save(self.directory / manifest.coder)
            index = CodeIndex(coder.n_bits_, getattr(coder, "weights_", None))
            index.add(codes, ids=all_ids, labels=all_labels)
            index.save(self.directory / manifest.index)
            index.close()
            self.seconds["encoding"] = time.perf_counter() - begun

            begun = time.perf_counter()
            measured = evaluate(
                (vectors[held], codes[: len(parts)][parts == HELD_OUT], names[parts == HELD_OUT]),
                (vectors[train], codes[: len(parts)][parts == TRAIN], names[parts == TRAIN]),
                n_bits=coder.n_bits_,
                lengths=lengths_of(coder),
                weights=lambda length, how: weights_of(coder, length, how),
                seed=settings["seed"],
            )
            self.seconds["measuring"] = time.perf_counter() - begun
            with whole_file(self.directory / manifest.evaluation) as temporary:
                temporary.write_text(json.dumps(measured, sort_keys=True) + "\n")
            counts = {part: int((parts == part).sum()) for part in (TRAIN, HELD_OUT)}
            manifest.fit.update(
                cbid=cbid.__version__,
                ended=datetime.now(UTC).isoformat(timespec="seconds"),
                seconds={name: round(value, 3) for name, value in self.seconds.items()},
                images={**counts, ADDED: len(all_ids) - sum(counts.values())},
                read=taken.n_read,
                failures=[list(failure) for failure in taken.failures[:_MOST_FAILURES]],
                n_failures=len(taken.failures),
            )
            manifest.write(self.directory)
        except BaseException:
            _remove(self.directory, manifest)
            raise
        # Committed. What follows is made up for by the next fit where it fails.
        table.settle(taken.ids.tolist(), taken.labels, parts.tolist())
        self._sweep(table, manifest, set(all_ids.tolist()))

    def _sweep(self, table: ImageTable, manifest: Manifest, live: set[int]) -> None:
        """Remove what the committed state no longer names."""
        table.delete([row.id for row in table.rows() if row.id not in live])
        named = {MANIFEST, IMAGES, VECTORS, LOCK, manifest.coder, manifest.index, manifest.evaluation}
        for entry in list(self.directory.iterdir()):
            if entry.name not in named and is_ours(entry.name):
                _delete(entry)


def _others(failures: Problems, where: str, directory: Path) -> Problems:
    """Without the project itself, which may lie within the folder of its own images."""
    here = os.path.abspath(directory)
    return [failure for failure in failures if os.path.abspath(os.path.join(where, failure[0])) != here]


def _kind(descriptor: dict[str, Any] | None) -> str:
    return "vectors" if descriptor is None else f"{descriptor['kind']} with {descriptor['params']}"


def _make_directory(directory: Path) -> None:
    """Make it, or see that it may be a project: nobody's files are ever in the way."""
    if directory.exists() and not directory.is_dir():
        raise FileExistsError(f"{printable(directory)} is a file; a project is a directory")
    directory.mkdir(parents=True, exist_ok=True)
    foreign = sorted(entry.name for entry in directory.iterdir() if not is_ours(entry.name))
    if foreign:
        raise ProjectError(
            f"{printable(directory)} holds other files ({printable(foreign[0])}); "
            "a project takes a new name, an empty directory or a project"
        )


def _remove(directory: Path, manifest: Manifest) -> None:
    for name in (manifest.coder, manifest.index, manifest.evaluation):
        _delete(directory / name)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
