"""Nearest hits and misses of more samples than memory holds (docs/method.md, section 2).

A part is a span of anchors. It reads all rows once, a span at a time, and keeps for each anchor and class the nearest
it has seen; so memory holds two spans and the answers, never all rows and no n x n matrix.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer
from cbid.data.arrays import read_npy
from cbid.learning.neighbourhoods import Neighbourhoods, nearest_members, squared_distances
from cbid.scale.parts import IDS, Job, stored_ids
from cbid.scale.running import run
from cbid.scale.sources import HeldRows, RowSource, open_rows
from cbid.storage.digests import digest_of
from cbid.storage.tensorfile import Arrays
from cbid.threads import faiss_threads

__all__ = ["Mined", "mine_to"]

_SPAN_BYTES = 32 * 2**20  # vectors of a span of members
_ANSWER_BYTES = 64 * 2**20  # what is kept for the anchors of a part


@dataclass(frozen=True)
class Mined:
    """Row numbers of the nearest members; -1 fills the place of one that a small class lacks.

    hits : (n, n_hits), of the row's own class
    misses : (n, n_classes, n_misses), of each class; -1 throughout for the row's own
    labels, classes : of the rows, as places in the sorted classes
    """

    hits: NDArray[np.int64]
    misses: NDArray[np.int64]
    labels: NDArray[np.int64]
    classes: NDArray[Any]

    def neighbourhoods(self) -> Neighbourhoods:
        """The same in memory, as ``find_neighbourhoods`` gives it; rows without a label are no anchors."""
        pairs = [(np.flatnonzero((self.labels != r) & (self.labels >= 0)), r) for r in range(len(self.classes))]
        return Neighbourhoods(
            self.hits.astype(np.int32),
            np.concatenate([anchors for anchors, _ in pairs]).astype(np.int32),
            np.concatenate([np.full(len(anchors), r) for anchors, r in pairs]).astype(np.int32),
            np.concatenate([self.misses[anchors, r] for anchors, r in pairs]).astype(np.int32),
        )


@dataclass(frozen=True)
class Mine:
    """Hits and misses of a span of rows, which are their own anchors."""

    rows: RowSource
    labels: NDArray[np.int64]
    n_classes: int
    n_hits: int
    n_misses: int
    centre: NDArray[np.float64]
    size: float

    def __call__(self, start: int, stop: int) -> tuple[Arrays, list[Any]]:
        anchors = self._scaled(start, stop)
        keep = max(self.n_hits + 1, self.n_misses)  # a row finds itself among its hits
        found = np.full((stop - start, self.n_classes, keep), -1, np.int64)
        distances = np.full(found.shape, np.inf)
        with faiss_threads(1):
            for first, last in self.rows.spans(_span_rows(self.rows)):
                block = np.concatenate([anchors, self._scaled(first, last)])
                for r in np.unique(self.labels[first:last]):
                    if r >= 0:
                        members = np.flatnonzero(self.labels[first:last] == r)
                        self._merge(block, members, first, found[:, r], distances[:, r])
        own = self.labels[start:stop]
        hits = np.full((stop - start, self.n_hits), -1, np.int64)
        known = np.flatnonzero(own >= 0)
        hits[known] = _others(found[known, own[known]], start + known, self.n_hits)
        misses = found[:, :, : self.n_misses].copy()
        misses[known, own[known]] = -1
        return {"hits": hits, "misses": misses, IDS: stored_ids(self.rows.ids_of(start, stop))}, []

    def _scaled(self, start: int, stop: int) -> NDArray[np.float32]:
        """Around the mean of all rows and divided by one number, so that no distance overflows."""
        return ((self.rows.read(start, stop) - self.centre) / self.size).astype(np.float32)

    def _merge(
        self,
        block: NDArray[np.float32],
        members: NDArray[np.int64],
        first: int,
        found: NDArray[np.int64],
        distances: NDArray[np.float64],
    ) -> None:
        """Put the nearest members of a span among those found so far, by distance, then by row."""
        a, keep = found.shape
        places = np.arange(a, dtype=np.int32)
        near = nearest_members(block, places, (a + members).astype(np.int32), keep)
        apart = squared_distances(block, places, near)
        apart[near < 0] = np.inf
        rows = np.where(near < 0, -1, near.astype(np.int64) - a + first)
        everything, far = np.concatenate([found, rows], axis=1), np.concatenate([distances, apart], axis=1)
        order = np.lexsort((everything, far), axis=1)[:, :keep]
        found[:] = np.take_along_axis(everything, order, axis=1)
        distances[:] = np.take_along_axis(far, order, axis=1)


def mine_to(
    source: Any,
    out: str | os.PathLike[str],
    *,
    labels: Any = None,
    n_hits: int = 5,
    n_misses: int = 5,
    scheduler: Any = None,
    n_jobs: int | None = None,
    part_rows: int | None = None,
    timeout: float = 30.0,
    overwrite: bool = False,
    verbose: int = 0,
) -> Mined:
    """The nearest hits and misses of every row of a source, in ``hits.npy`` and ``misses.npy`` in the folder ``out``.

    Exact, and so quadratic in the number of rows: meant for the sample that is learned from. Sources, ``labels`` and
    the other arguments are those of ``fit_from`` and ``encode_to``.
    """
    check_integer("n_hits", n_hits, 1)
    check_integer("n_misses", n_misses, 1)
    rows = open_rows(source, labels)
    if rows.labels is None or rows.classes is None:
        raise ValueError("labels is None and the source has none; hits and misses are those of classes")
    if not len(rows.classes):
        raise ValueError("labels has None for every row; hits and misses are those of classes")
    if scheduler is not None and isinstance(rows, HeldRows):
        raise ValueError("source is an array in the memory of this process; save it as .npy, and give the path")
    n_classes = len(rows.classes)
    size_of_part = min(_span_rows(rows), max(1, _ANSWER_BYTES // (16 * n_classes * max(n_hits + 1, n_misses))))
    if part_rows is not None:
        check_integer("part_rows", part_rows, 1)
        size_of_part = part_rows
    target = Path(os.path.abspath(out))
    outputs = {name: target / f"{name}.npy" for name in ("hits", "misses")}
    plan = {
        "what": "neighbourhoods",
        "source": rows.identity(),
        "labels": digest_of(rows.labels),
        "n_hits": n_hits,
        "n_misses": n_misses,
    }
    if rows.ids is not None:
        outputs[IDS] = target / f"{IDS}.npy"
        plan[IDS] = digest_of(stored_ids(rows.ids))
    centre, size = _centre_and_size(rows)
    job = Job(
        task=Mine(rows.without_labels(), rows.labels, n_classes, n_hits, n_misses, centre, size),
        spans=rows.spans(size_of_part),
        outputs=outputs,
        record=target.with_name(f"{target.name}.json"),
        plan=plan,
        sources=rows.files(),
        ids_file=target / f"{IDS}.npy" if rows.ids is None else None,
        fixed=part_rows is not None,
    )
    run(job, scheduler=scheduler, n_jobs=n_jobs, timeout=timeout, overwrite=overwrite, verbose=verbose)
    return Mined(read_npy(outputs["hits"]), read_npy(outputs["misses"]), rows.labels, rows.classes)


def _others(found: NDArray[np.int64], own: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The first ``count`` found in each row that are not the row's own number."""
    itself = np.argsort(found == own[:, None], axis=1, kind="stable")[:, :count]  # it goes last
    others = np.take_along_axis(found, itself, axis=1)
    return np.where(others == own[:, None], -1, others)


def _span_rows(rows: RowSource) -> int:
    return max(1, _SPAN_BYTES // (4 * rows.shape[1]))


def _centre_and_size(rows: RowSource) -> tuple[NDArray[np.float64], float]:
    """The mean of all rows, and the largest difference of a value from it."""
    spans = rows.spans(_span_rows(rows))
    centre = np.zeros(rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is looked at below
        for start, stop in spans:
            values = rows.read(start, stop)
            good = np.isfinite(values).all(axis=1)
            if not good.all():
                raise ValueError(f"source holds NaN or infinity in row {start + int(good.argmin())}")
            centre += values.sum(axis=0, dtype=np.float64)
        centre /= len(rows)
        size = max(float(np.abs(rows.read(*span) - centre).max()) for span in spans)
    if not np.isfinite(size):
        raise ValueError("source holds values too large to be compared; divide them by a number")
    return centre, size or 1.0
