"""Samples for learning: every class with its share, whatever the size of the whole."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.labels import number_labels

__all__ = ["LEAST", "Chunk", "Reservoir", "chunks_of", "stratified"]

LEAST = 10  # members of a class that are taken before shares are counted, as far as it has them

Indices = NDArray[np.int64]


def quotas(sizes: NDArray[Any], most: int, least: int = LEAST) -> Indices:
    """How many members to take of classes of these sizes, at most ``most`` in all.

    Each class gives ``least`` of its members, or all if it has fewer, and the same share of those that are left.
    Rounding goes to the largest remainders.

    >>> quotas(np.array([900, 90, 10]), 100).tolist()
    [74, 16, 10]
    """
    sizes = sizes.astype(np.int64)
    if sizes.sum() <= most:
        return sizes.copy()
    floor = np.minimum(sizes, least)
    if floor.sum() > most:
        raise _too_small(most, int(np.count_nonzero(sizes)), int(floor.sum()), least)
    # What is above the floors, shared by what the classes have above theirs.
    rest = (most - int(floor.sum())) * (sizes - floor) / max(int((sizes - floor).sum()), 1)
    taken = floor + rest.astype(np.int64)
    largest = np.argsort(-(rest % 1), kind="stable")[: most - int(taken.sum())]
    taken[largest] += 1
    return np.minimum(taken, sizes)


def _too_small(most: int, n_classes: int, needed: int, least: int) -> ValueError:
    return ValueError(
        f"a sample of {most} rows is too small for {n_classes} classes: it takes {needed}, up to {least} of each; "
        "give a larger max_sample or max_memory"
    )


def stratified(labels: Indices | None, n: int, most: int, rng: np.random.Generator) -> Indices:
    """At most ``most`` of n rows, ascending, drawn within each class by ``quotas``; rows labelled -1 are left out.

    Without labels all rows are one class.
    """
    if labels is None:
        return np.sort(rng.choice(n, min(n, most), replace=False))
    known = labels >= 0
    sizes = np.bincount(labels[known])
    order = np.argsort(labels, kind="stable")[np.count_nonzero(~known) :]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    chosen = [
        order[start + rng.choice(size, quota, replace=False)]
        for start, size, quota in zip(starts[:-1].tolist(), sizes.tolist(), quotas(sizes, most).tolist())
    ]
    return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))


Chunk = tuple[NDArray[Any], NDArray[Any] | None]


def chunks_of(chunks: Iterable[Any]) -> Iterator[Chunk]:
    """Vectors and labels of each chunk, given as X or as (X, y); all must be of one width, with or without labels."""
    first: Chunk | None = None
    for number, chunk in enumerate(chunks):
        X, y = chunk if isinstance(chunk, tuple) and len(chunk) == 2 else (chunk, None)
        X, y = np.asarray(X), None if y is None else np.asarray(y)
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise ValueError(f"chunk {number} has shape {X.shape} and type {X.dtype}; give numbers, (n, d)")
        if y is not None and y.shape != (len(X),):
            raise ValueError(f"chunk {number} has {len(X)} vectors and labels of shape {y.shape}")
        if first is not None and (X.shape[1] != first[0].shape[1] or (y is None) != (first[1] is None)):
            raise ValueError(
                f"chunk {number} has vectors of {X.shape[1]} values {'without' if y is None else 'with'} labels; "
                f"the first chunk has {first[0].shape[1]} {'without' if first[1] is None else 'with'} labels"
            )
        first = (X[:0], y) if first is None else first
        yield X, y


class Reservoir:
    """A sample of rows that pass once, in no more memory than it takes itself.

    Every row draws a number; those with the smallest are kept, after the ``LEAST`` smallest of every class. So the
    sample is a random one in which no class is lost, and does not depend on how the rows were cut into chunks. More
    classes than it has room for are an error. Rows labelled None are left out.
    """

    def __init__(self, capacity: int, width: int, dtype: Any, rng: np.random.Generator) -> None:
        self.capacity, self.rng = capacity, rng
        self.X = np.empty((capacity, width), dtype)
        self.keys = np.empty(0)
        self.rows = np.empty(0, np.int64)
        self.labels = np.empty(0, np.int64)
        self.classes: dict[Any, int] = {}
        self.n_seen = 0

    def add(self, X: NDArray[Any], y: NDArray[Any] | None) -> None:
        keys, rows = self.rng.random(len(X)), self.n_seen + np.arange(len(X))
        self.n_seen += len(X)
        if y is not None and y.dtype == object:
            known = np.array([label is not None for label in y], dtype=bool)
            X, y, keys, rows = X[known], y[known], keys[known], rows[known]
        labels = np.zeros(len(X), np.int64) if y is None else self._numbers(y)
        keys = np.concatenate([self.keys, keys])
        rows = np.concatenate([self.rows, rows])
        labels = np.concatenate([self.labels, labels])
        held = len(self.keys)

        by_class = np.lexsort((keys, labels))
        starts = np.searchsorted(labels[by_class], np.arange(labels.max(initial=-1) + 1))
        place = np.empty(len(keys), np.int64)  # by key, within the class
        place[by_class] = np.arange(len(keys)) - starts[labels[by_class]]
        floor = int(np.count_nonzero(place < LEAST))
        if y is not None and floor > self.capacity:
            raise _too_small(self.capacity, len(self.classes), floor, LEAST)
        kept = np.zeros(len(keys), bool)
        kept[np.lexsort((keys, place >= LEAST))[: self.capacity]] = True

        # Rows that come in take the places of those that go out, then the places after the last.
        came = np.flatnonzero(kept[held:])
        free = np.concatenate([np.flatnonzero(~kept[:held]), np.arange(held, self.capacity)])[: len(came)]
        self.X[free] = X[came]
        size = min(len(keys), self.capacity)
        for name, everything in (("keys", keys), ("rows", rows), ("labels", labels)):
            column = np.resize(everything[:held], size) if held else np.empty(size, everything.dtype)
            column[free] = everything[held + came]
            setattr(self, name, column)

    def sample(self) -> tuple[NDArray[Any], Indices, NDArray[Any] | None]:
        """Vectors, row numbers and labels of what was kept, in the order in which the rows came."""
        order = np.argsort(self.rows)
        names = np.empty(len(self.classes), dtype=object)
        names[:] = list(self.classes)
        y = names[self.labels[order]] if self.classes else None
        if y is not None and len({type(name) for name in self.classes}) == 1:
            y = np.array(y.tolist())  # numbers, or texts, as an array of such
        return self.X[: len(order)][order], self.rows[order], y

    def _numbers(self, y: NDArray[Any]) -> Indices:
        names, numbers = number_labels(y)
        known = [self.classes.setdefault(name, len(self.classes)) for name in names.tolist()]
        return np.array(known, dtype=np.int64)[numbers]
