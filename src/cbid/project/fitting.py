"""Fitting a project: read new images, learn, encode, index and measure, then commit everything in one step."""

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cbid
from cbid import coders
from cbid.checks import check_integer, check_real
from cbid.coders import CBID, Coder
from cbid.data.folders import ImageFolder
from cbid.data.image_sets import Problems, as_image_set
from cbid.data.sources import open_source
from cbid.data.tables import VectorTable
from cbid.descriptors import Descriptor
from cbid.project.evaluating import evaluate
from cbid.project.files import (
    CHECKPOINT,
    IMAGES,
    MANIFEST,
    STARTED,
    VECTORS,
    ProjectManifest,
    ProjectWarning,
    check_rows,
    make_directory,
    map_vectors,
    new_name,
    note_files,
    remove_unused,
    started,
)
from cbid.project.intake import Intake, KnownImages, Source, label_of, take_in
from cbid.project.models import (
    check_settings,
    choose_coder,
    coder_settings,
    default_descriptor,
    descriptor_from_json,
    descriptor_to_json,
    encode_rows,
    is_supervised,
    learn,
    make_descriptor,
    prefix_lengths,
    prefix_weights,
    skipped_message,
)
from cbid.project.table import (
    ADDED,
    HELD_OUT,
    LABEL_SEPARATOR,
    PENDING,
    TRAIN,
    ImageTable,
    split_labels,
)
from cbid.search import CodeIndex, prepare_search
from cbid.search.scan import prepare_meanwhile
from cbid.storage.atomic import WriterLock, whole_file
from cbid.storage.digests import digest_bytes
from cbid.text import count, printable

OWN_PIXELS = 100_000_000  # of an image in a source that the user names: more than for uploaded images
_COMMITTED = "the fit was committed before this error; fit again to complete the table of images"
_MAX_FAILURES = 1000  # listed in the manifest
PHASES = ("reading", "learning", "encoding", "compiling", "measuring")
_LONG_COMPILING = 1.0  # seconds; less is loading from the cache
_MIN_TRAIN = 2  # images per class: one alone has no neighbour


def open_images(source: Any, **options: Any) -> tuple[Source, str]:
    """Return a source as an ``ImageSet`` or a ``VectorTable``, and its path; it lists what is broken in it.

    The options are those of ``open_source``.
    """
    if isinstance(source, (str, os.PathLike)):
        options = {"on_error": "skip", "max_pixels": OWN_PIXELS, **options}
        return open_source(source, **options), os.path.abspath(source)
    if isinstance(source, VectorTable):
        return source, ""
    return as_image_set(source), os.path.abspath(source.root) if isinstance(source, ImageFolder) else ""


def fit(
    path: str | os.PathLike[str],
    source: Any,
    *,
    descriptor: "str | Descriptor | None",
    n_bits: int,
    coder: "str | Coder | None",
    held_out: float,
    n_jobs: int | None,
    seed: int,
    progress: bool,
    tree: str | None = None,
) -> bool:
    """Make or update the project in the directory ``path``; see ``Project.fit``. Return whether anything changed."""
    check_integer("n_bits", n_bits, 1)
    check_real("held_out", held_out, 0, 1)
    check_integer("seed", seed, 0)
    directory = Path(path)
    images, where = open_images(source, tree=tree is not None)
    if not len(images):
        raise ValueError("the source is empty; expected at least two images")
    describer, skipped = None, []
    if not isinstance(images, VectorTable):
        own = _own_descriptor(directory) if descriptor is None else None
        describer = own or make_descriptor(descriptor or default_descriptor())
        skipped = _without_project(images.problems, where, directory)
    labels = [label_of(images, i) for i in range(len(images))]
    made = choose_coder(coder, n_bits, labels, seed=seed, n_jobs=n_jobs, skipped=skipped)
    check_settings(made)
    if tree is not None and not isinstance(made, CBID):
        raise ValueError(f"tree={tree!r}: expected None with the coder {type(made).__name__}; CBID learns from trees")
    make_directory(directory)
    lock = WriterLock(directory)
    try:
        return ProjectFit(directory, images, where, describer, n_jobs, progress).run(made, held_out, seed, tree)
    finally:
        lock.release()


def split(
    names: Sequence[str], labels: Sequence[str | None], share: float, seed: int, *, supervised: bool
) -> NDArray[np.str_]:
    """Return the part of each image, (n,): "train", "held-out", or "added" if it can be neither.

    The same share of each class is held out, but at least two images remain for training. A digest of seed and name
    decides, so a class that grows keeps most of its split. If images have several labels, the share of all is held
    out. With ``supervised``, images without a label and classes of one image cannot be learned from and are "added".
    """
    digests = [digest_bytes(f"{seed}\n{name}".encode(errors="surrogateescape"), size=8) for name in names]
    draw = np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)
    if any(label is not None and LABEL_SEPARATOR in label for label in labels):
        labels = [None if label is None else "" for label in labels]
    known = sorted({label for label in labels if label is not None})
    number = {label: i for i, label in enumerate(known)}
    classes = np.array([-1 if label is None else number[label] for label in labels], dtype=np.int64)
    parts = np.full(len(names), TRAIN, dtype="<U8")
    if not supervised:
        classes[:] = 0
    parts[classes < 0] = ADDED
    for i in np.unique(classes[classes >= 0]):
        members = np.flatnonzero(classes == i)
        if supervised and len(members) < _MIN_TRAIN:
            parts[members] = ADDED
            continue
        count = 0 if share == 0 else max(1, round(share * len(members)))
        count = min(count, max(0, len(members) - _MIN_TRAIN))
        parts[members[np.argsort(draw[members], kind="stable")[:count]]] = HELD_OUT
    return parts


class ProjectFit:
    """One run of a fit. The caller holds the writer's lock."""

    def __init__(
        self,
        directory: Path,
        images: Source | None,
        where: str,
        descriptor: Descriptor | None,
        n_jobs: int | None,
        progress: bool,
    ) -> None:
        self.directory, self.images, self.where = directory, images, where
        self.describer, self.n_jobs, self.progress = descriptor, n_jobs, progress
        self.descriptor = None if descriptor is None else descriptor_to_json(descriptor)
        self.before = ProjectManifest.read(directory) if (directory / MANIFEST).exists() else None
        self.committed: dict[int, str] = {}  # labels by id in the committed index
        self.seconds: dict[str, float] = {}
        self.relabelled = False  # whether labels were given by hand since the last fit
        self.prepare: Callable[[], None] = prepare_search
        self.report: Callable[[str, int, int], Any] = lambda phase, done, total: None

    def run(self, coder: Coder, held_out: float, seed: int, tree: str | None = None) -> bool:
        """Fit to the images of the source; return whether anything changed."""
        if self.before is not None:
            return self._run(coder, held_out, seed, tree)
        with prepare_meanwhile() as self.prepare:  # a first fit may be the first of the installation
            return self._run(coder, held_out, seed, tree)

    def _run(self, coder: Coder, held_out: float, seed: int, tree: str | None) -> bool:
        remove_unused(self.directory)  # of a fit that was killed
        self._check_descriptor()
        with closing(ImageTable(self.directory / IMAGES, write=True)) as table:
            with self._timed("reading"):
                taken, n_listed, width = self._read_images(table)
            settings = {"coder": coder_settings(coder), "held_out": held_out, "seed": seed}
            if tree is not None:
                settings["tree"] = tree
            parts = split(taken.names, taken.labels, held_out, seed, supervised=is_supervised(coder))
            self._warn(taken, parts[:n_listed])
            if self._up_to_date(taken, parts, settings):
                wanted = dict(zip(taken.ids.tolist(), zip(taken.labels, parts.tolist())))
                if any((row.label, row.part) != wanted.get(row.id, (row.label, row.part)) for row in table.rows()):
                    _finish(table, taken, parts, n_listed)  # the last fit was killed after its commit
                return False
            self._warn_of_copies(taken, parts, width)
            self.learn_and_commit(table, taken, n_listed, parts, coder, settings, width)
            return True

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - begun

    def _check_descriptor(self) -> None:
        """Reject another descriptor than that of the project; an unfinished first fit with another one is dropped."""
        if self.before is not None:
            old, new = self.before.descriptor, self.descriptor
            if (old and old["fingerprint"]) != (new and new["fingerprint"]):
                raise ValueError(
                    f"{printable(self.directory)} was made from {_kind(old)}, not from {_kind(new)}; "
                    "choose another name for the new project"
                )
            return
        wanted = {"descriptor": self.descriptor}
        if started(self.directory) != wanted:
            for name in (IMAGES, f"{IMAGES}-journal", VECTORS, CHECKPOINT):
                (self.directory / name).unlink(missing_ok=True)
            with whole_file(self.directory / STARTED) as temporary:
                temporary.write_text(json.dumps(wanted) + "\n")

    def _read_images(self, table: ImageTable) -> tuple[Intake, int, int]:
        """Return the images of the source and then those added by hand, the number of the former, and the width."""
        if self.before is not None:
            with CodeIndex.open(self.directory / self.before.index) as index:
                names = index.labels
                self.committed = dict(zip(index.ids.tolist(), [] if names is None else names.tolist()))
        assert self.images is not None
        rows = list(table.rows())
        known = [row for row in rows if row.id in self.committed or row.part == PENDING]
        table.delete({row.id for row in rows} - {row.id for row in known})
        taken, width = take_in(
            self.images,
            self.describer,
            table,
            self.directory / VECTORS,
            known=KnownImages(known),
            part=PENDING,
            origin="fit",
            n_jobs=self.n_jobs,
            progress=self.progress,
        )
        taken.failures = _without_project(taken.failures, self.where, self.directory)
        self.relabelled = table.n_unlearned() > 0
        taken.labels = table.with_given(taken.ids, taken.labels)
        n_listed, in_source = len(taken.ids), set(taken.ids.tolist())
        added = [row for row in known if row.origin == "add" and row.id in self.committed and row.id not in in_source]
        taken.ids = np.concatenate([taken.ids, np.array([row.id for row in added], dtype=np.int64)])
        taken.names += [row.name for row in added]
        taken.labels += [self.committed[row.id] or None for row in added]
        return taken, n_listed, width

    def _up_to_date(self, taken: Intake, parts: NDArray[np.str_], settings: dict[str, Any]) -> bool:
        """Return whether this fit would make the same project again."""
        if self.before is None or self.before.settings != settings or self.relabelled:
            return False
        # The committed files decide: after a killed fit the table may be ahead of them or behind. The counts show
        # whether images were added since the last fit that this one can learn from.
        labels = {id: label or "" for id, label in zip(taken.ids.tolist(), taken.labels)}
        learned = self.before.fit.get("images", {})
        return labels == self.committed and _counts(parts).items() <= learned.items()

    def _warn(self, taken: Intake, parts: NDArray[np.str_]) -> None:
        if taken.failures:
            warnings.warn(skipped_message(taken.failures), ProjectWarning, stacklevel=5)
        unlearned = int((parts == ADDED).sum())
        if unlearned:
            found = count(unlearned, "image")
            warnings.warn(
                f"{found} without a label or alone in a class: indexed, but not used for learning",
                ProjectWarning,
                stacklevel=5,
            )

    def _warn_of_copies(self, taken: Intake, parts: NDArray[np.str_], width: int) -> None:
        """Report images with equal vectors in two classes, or on both sides of the measurement."""
        vectors = map_vectors(self.directory / VECTORS, width)
        check_rows(self.directory / VECTORS, vectors, taken.ids)
        groups: dict[bytes, list[int]] = {}
        for i, id in enumerate(taken.ids.tolist()):
            groups.setdefault(digest_bytes(vectors[id].tobytes()), []).append(i)
        for what, values, consequence in (
            ("two classes", [label or "" for label in taken.labels], "at most one of the labels is right"),
            (
                "the training and the held-out part",
                parts.tolist(),
                "the measured accuracy is too high for new images",
            ),
        ):
            across = [
                (group[0], i)
                for group in groups.values()
                for i in group[1:]
                if len({values[group[0]], values[i]} - {"", ADDED}) == 2
            ]
            if across:
                names = " and ".join(printable(taken.names[i]) for i in across[0])
                found = count(len(across), "copy is", "copies are")
                warnings.warn(
                    f"{found} in {what}, such as {names}: {consequence}",
                    ProjectWarning,
                    stacklevel=5,
                )

    def learn_and_commit(
        self,
        table: ImageTable,
        taken: Intake,
        n_listed: int,
        parts: NDArray[np.str_],
        coder: Coder,
        settings: dict[str, Any],
        width: int,
    ) -> None:
        """Learn, encode, measure, and commit; the first ``n_listed`` images are those of the source."""
        vectors = map_vectors(self.directory / VECTORS, width)
        if not table.is_sealed:  # made by an older release
            table.add_checksums(vectors)
        check_rows(self.directory / VECTORS, vectors, taken.ids)
        names = np.array([label or "" for label in taken.labels])
        train, held = (taken.ids[parts == part] for part in (TRAIN, HELD_OUT))
        if len(train) < 2:
            raise ValueError(f"{count(len(train), 'image')} left for learning: expected at least two")
        y: Any = names[parts == TRAIN] if is_supervised(coder) else None
        if y is not None and any(LABEL_SEPARATOR in text for text in y.tolist()):
            y = [split_labels(text) for text in y.tolist()]
        total = int(coder.get_params().get("n_bits", 0))
        self.report("learning", 0, total)
        with self._timed("learning"):
            coder = learn(
                coder,
                vectors[train],
                y,
                checkpoint=self.directory / CHECKPOINT,
                verbose=self.progress,
                report=lambda done: self.report("learning", done, total),
                tree=settings.get("tree"),
            )
        self.report("encoding", 0, len(taken.ids))
        with self._timed("encoding"):
            codes = encode_rows(coder, vectors, taken.ids)
        manifest = ProjectManifest(
            n_features=width,
            coder=new_name("coder", ".safetensors"),
            index=new_name("index"),
            evaluation=new_name("evaluation", ".json"),
            descriptor=self.descriptor,
            settings=settings,
            source=self.where,
        )
        files = [manifest.coder, manifest.index, manifest.evaluation]
        if self.before is not None:
            files += [self.before.coder, self.before.index, self.before.evaluation]
        note_files(self.directory, files)
        try:
            with self._timed("encoding"):
                coder.save(self.directory / manifest.coder)
                index = CodeIndex(coder.n_bits_, getattr(coder, "weights_", None))
                index.add(codes, ids=taken.ids, labels=names)
                index.save(self.directory / manifest.index)
                index.close()
            self.report("measuring", 0, len(held))
            with self._timed("compiling"):
                self.prepare()
            if self.seconds["compiling"] < _LONG_COMPILING:
                del self.seconds["compiling"]
            with self._timed("measuring"):
                measured = evaluate(
                    (vectors[held], codes[parts == HELD_OUT], names[parts == HELD_OUT]),
                    (vectors[train], codes[parts == TRAIN], names[parts == TRAIN]),
                    n_bits=coder.n_bits_,
                    lengths=prefix_lengths(coder),
                    weights=partial(prefix_weights, coder),
                    seed=settings["seed"],
                )
            with whole_file(self.directory / manifest.evaluation) as temporary:
                temporary.write_text(json.dumps(measured, sort_keys=True) + "\n")
            manifest.fit.update(
                cbid=cbid.__version__,
                ended=datetime.now(UTC).isoformat(timespec="seconds"),
                seconds={name: round(value, 3) for name, value in self.seconds.items()},
                images={**_counts(parts), ADDED: int((parts == ADDED).sum())},
                read=taken.n_read,
                failures=[list(failure) for failure in taken.failures[:_MAX_FAILURES]],
                n_failures=len(taken.failures),
            )
            manifest.write(self.directory)
        except BaseException as error:
            # The manifest on disk decides which files stay: an error may follow its replacement.
            remove_unused(self.directory)
            if (self.directory / manifest.index).exists():
                error.add_note(_COMMITTED)
            elif isinstance(error, OSError) and error.errno is not None:
                # Single files of the fit may have been saved; the message is about the project.
                reason = f"{self.directory}: the fit was not committed: {os.strerror(error.errno)}"
                raise OSError(error.errno, reason) from error
            raise
        try:  # committed: if the rest fails, the next fit does it
            _finish(table, taken, parts, n_listed)
            table.note_learned()
            live = set(taken.ids.tolist())
            table.delete([row.id for row in table.rows() if row.id not in live])
            (self.directory / CHECKPOINT).unlink(missing_ok=True)
            remove_unused(self.directory)
        except BaseException as error:
            error.add_note(_COMMITTED)
            raise


def _counts(parts: NDArray[np.str_]) -> dict[str, int]:
    return {part: int((parts == part).sum()) for part in (TRAIN, HELD_OUT)}


def _finish(table: ImageTable, taken: Intake, parts: NDArray[np.str_], n_listed: int) -> None:
    """Write labels and parts to the table. The first ``n_listed`` images belong to the source from now on."""
    ids = taken.ids.tolist()
    table.finish(ids[:n_listed], taken.labels[:n_listed], parts[:n_listed].tolist())
    table.finish(ids[n_listed:], taken.labels[n_listed:], parts[n_listed:].tolist(), own=False)


def _without_project(failures: Problems, where: str, directory: Path) -> Problems:
    """Drop the project itself, which may be in the folder of its images."""
    here = os.path.abspath(directory)
    return [failure for failure in failures if os.path.abspath(os.path.join(where, failure[0])) != here]


def unfinished(directory: Path) -> str | None:
    """Return what an interrupted fit has done already, or None."""
    try:
        with closing(ImageTable(directory / IMAGES)) as table:
            n_images = sum(1 for _ in table.rows())
    except (OSError, ValueError):
        return None
    try:
        bits = coders.load(directory / CHECKPOINT).n_bits_
    except (OSError, ValueError):
        bits = 0
    kept = [f"{n_images:,} images are read" if n_images else "", f"{bits} bits are learned" if bits else ""]
    return ", ".join(part for part in kept if part) or None


def _own_descriptor(directory: Path) -> Descriptor | None:
    """Return the descriptor of a project, or of its unfinished first fit, or None."""
    if (directory / MANIFEST).exists():
        saved = ProjectManifest.read(directory).descriptor
        return None if saved is None else descriptor_from_json(saved)
    try:
        return descriptor_from_json((started(directory) or {})["descriptor"])
    except (KeyError, TypeError, ValueError):  # nothing has begun, or with a descriptor that is not known here
        return None


def _kind(descriptor: dict[str, Any] | None) -> str:
    return "vectors" if descriptor is None else f"{descriptor['kind']} with {descriptor['params']}"
