"""Learn from more rows than memory holds: a stratified sample, as large as the budget allows."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cbid.checks import check_integer
from cbid.labels import encode_labels
from cbid.scale.running import as_bytes, peak_allocation, used_budget
from cbid.scale.sources import RowSource, open_rows

Indices = NDArray[np.int64]
Chunk = tuple[NDArray[Any], NDArray[Any] | None]  # vectors (n, d), labels (n,)
Sample = tuple[Indices, NDArray[Any], NDArray[Any] | None]  # row numbers, vectors, labels
Draw = Callable[[int], Sample]  # from the most rows to a sample

MIN_PER_CLASS = 10  # members taken of each class before proportional shares; all, if it has fewer
_PILOTS = 1000, 3000  # rows of the two fits whose memory is measured
_MARGIN = 1.2  # for what tracing does not see: the libraries' own buffers, fragmented memory
_READ = 1 << 24  # bytes read at a time


@dataclass(frozen=True)
class FitReport:
    """The result of ``fit_from``.

    Attributes
    ----------
    coder
        The given coder, now fitted.
    n_rows, n_sample
        Rows of the source, and rows of the sample.
    rows : (n_sample,)
        The row numbers of the sample.
    per_class
        Rows of the sample by label; None without labels.
    max_memory
        The budget, in bytes.
    bytes_per_row
        The measured memory of the fit for each row.
    """

    coder: Any
    n_rows: int
    n_sample: int
    rows: Indices
    per_class: dict[Any, int] | None
    max_memory: int
    bytes_per_row: float


def fit_from(
    source: Any,
    coder: Any,
    *,
    labels: Any = None,
    max_memory: int | str = "2GB",
    max_sample: int | None = None,
    random_state: int = 0,
) -> FitReport:
    """Fit a coder on a stratified sample of a source, within ``max_memory`` for the whole process.

    The size of the sample is measured: two small fits of a copy of the coder give its memory for each row. Each class
    contributes the same share of its members, and at least 10 of them (all, if it has fewer).

    Parameters
    ----------
    source
        An array (n, d), mapped or not; a ``.npy`` or ``.npz`` file of one; one or several parquet files, or a folder
        of them; or an iterator of chunks, X or (X, y), which is read once. The sample of an iterator is a simple
        random one, except for the 10 members of each class.
    coder
        A coder of ``cbid.coders``, or any estimator with ``fit``; it is fitted in place.
    labels
        (n,), or a ``.npy`` file of them, for a source without labels.
    max_memory
        Bytes, or text such as "2GB": the limit for the process, including what it uses already.
    max_sample
        The most rows of the sample.
    random_state
        The same seed gives the same sample, independent of the chunks.
    """
    budget = as_bytes(max_memory)
    check_integer("random_state", random_state, 0)
    if max_sample is not None:
        check_integer("max_sample", max_sample, 2)
    if isinstance(source, Iterator):
        if labels is not None:
            raise ValueError("labels: an iterator has labels in its chunks, (X, y); expected None")
        return _fit_chunks(source, coder, budget, max_sample, random_state)
    return _fit_rows(open_rows(source, labels), coder, budget, max_sample, random_state)


def _fit_rows(rows: RowSource, coder: Any, budget: int, max_sample: int | None, seed: int) -> FitReport:
    n_known = len(rows) if rows.labels is None else int(np.count_nonzero(rows.labels >= 0))
    if not n_known:
        raise ValueError("labels has None for every row; expected at least one label")
    at_a_time = max(1, _READ // rows.row_bytes)

    def draw(most: int) -> Sample:
        chosen = stratified(rows.labels, len(rows), most, np.random.default_rng(seed))
        y = None if rows.labels is None or rows.classes is None else rows.classes[rows.labels[chosen]]
        return chosen, rows.take(chosen, at_a_time), y

    n_classes = 1 if rows.classes is None else len(rows.classes)
    sorting = 16 * len(rows) if rows.labels is not None else 0  # bytes to sort the labels
    reading = max((stop - start for start, stop in rows.spans(at_a_time)), default=0) * rows.row_bytes
    n_most = min(n_known, max_sample or n_known)
    allowed, per_row = _measured(coder, draw, n_most, n_classes, rows.row_bytes, budget, sorting + reading)
    chosen, X, y = draw(min(allowed, max_sample or allowed, n_known))
    return _fit_sample(coder, X, y, chosen, len(rows), budget, per_row)


def _fit_chunks(chunks: Iterator[Any], coder: Any, budget: int, max_sample: int | None, seed: int) -> FitReport:
    pairs = iter_chunks(chunks)
    first = next(pairs, None)
    if first is None:
        raise ValueError("source holds no chunks; expected at least one")
    if not first[0].shape[1]:
        raise ValueError(f"source has chunks of shape {first[0].shape}; expected vectors of at least one value")
    dtype = first[0].dtype if first[0].dtype.kind == "f" else np.dtype(np.float32)
    row_bytes = first[0].shape[1] * dtype.itemsize
    # A third of what is left: every coder needs at least twice the memory of its sample.
    capacity = max((budget - used_budget() - first[0].nbytes) // (3 * row_bytes), 1)
    reservoir = Reservoir(
        min(capacity, max_sample or capacity), first[0].shape[1], dtype, np.random.default_rng(seed)
    )
    for X, y in chain([first], pairs):
        reservoir.add(X, y)
    X, numbers, y = reservoir.sample()
    n_seen = reservoir.n_seen
    del reservoir
    if not len(X):
        labelled = "" if first[1] is None else " with a label"
        raise ValueError(f"source has no row{labelled} in {n_seen} rows; expected at least one")
    classes, labels = (None, None) if y is None else np.unique(y, return_inverse=True)

    def draw(most: int) -> Sample:
        chosen = stratified(labels, len(X), most, np.random.default_rng(seed))
        return numbers[chosen], X[chosen], None if y is None else y[chosen]

    # The whole sample stays in memory during the fit: used_budget counts it already.
    n_classes = 1 if classes is None else len(classes)
    allowed, per_row = _measured(coder, draw, len(X), n_classes, row_bytes, budget, 0)
    if allowed < len(X):
        numbers, X, y = draw(allowed)
    return _fit_sample(coder, X, y, numbers, n_seen, budget, per_row)


def _fit_sample(
    coder: Any, X: NDArray[Any], y: NDArray[Any] | None, rows: Indices, n_rows: int, budget: int, per_row: float
) -> FitReport:
    coder.fit(X) if y is None else coder.fit(X, y)
    per_class = None
    if y is not None:
        classes, counts = np.unique(y, return_counts=True)
        per_class = dict(zip(classes.tolist(), counts.tolist()))
    return FitReport(coder, n_rows, len(rows), rows, per_class, budget, per_row)


# ---- The memory of a fit ----


def _measured(
    coder: Any, draw: Draw, n: int, n_classes: int, row_bytes: int, budget: int, besides: int
) -> tuple[int, float]:
    """Return the number of rows that the budget allows, and the bytes of each, by two small fits or one.

    Raises if the rows of these fits alone exceed the budget.
    """
    sizes = [max(size, factor * MIN_PER_CLASS * n_classes) for factor, size in enumerate(_PILOTS, 1)]
    sizes = sizes if n > sizes[1] else [n]
    left = budget - used_budget() - besides
    _check_enough(left // row_bytes, left, budget, max(sizes))
    costs = []
    for number, size in enumerate(sizes):
        _, X, y = draw(size)
        if number == 0:
            _fit_bytes(coder, X, y)  # a first fit also imports and compiles
        costs.append((len(X), _fit_bytes(coder, X, y)))
    return _allowed(costs, row_bytes, budget, besides)


def _fit_bytes(coder: Any, X: NDArray[Any], y: NDArray[Any] | None) -> int:
    pilot = clone(coder)
    quiet = {"verbose": 0, "callback": None}
    pilot.set_params(**{name: quiet[name] for name in pilot.get_params(deep=False) if name in quiet})

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they concern the small sample; the real fit repeats valid ones
            pilot.fit(X) if y is None else pilot.fit(X, y)

    return peak_allocation(fit)


def _allowed(costs: list[tuple[int, int]], row_bytes: int, budget: int, besides: int) -> tuple[int, float]:
    """Return the number of rows that the budget allows, and the bytes of each.

    Memory is assumed to grow along the line through both pilots; quadratically, if it grew faster than the rows (a
    coder that holds all pairs).
    """
    left = budget - used_budget() - besides
    n, cost = costs[-1]
    per_row = row_bytes + _MARGIN * cost / n
    if len(costs) == 2:
        (fewer, less), (n, cost) = costs
        if cost / max(less, 1) > 1.1 * n / fewer:  # root of row_bytes x + (margin cost / n^2) x^2 = left
            square = _MARGIN * cost / n**2
            allowed = int((np.sqrt(row_bytes**2 + 4 * square * max(left, 0)) - row_bytes) / (2 * square))
            return _round_down(_check_enough(allowed, left, budget, n)), row_bytes + square * max(allowed, 1)
        slope = max(cost - less, 0) / (n - fewer)
        per_row = row_bytes + _MARGIN * slope
        left -= int(_MARGIN * max(cost - slope * n, 0))
    return _round_down(_check_enough(int(left / per_row), left, budget, n)), per_row


def _check_enough(allowed: int, left: int, budget: int, least: int) -> int:
    if allowed < least:
        raise ValueError(
            f"max_memory={budget:,} bytes: {max(left, 0):,} are left, enough for {max(allowed, 0)} rows, "
            f"at least {least} are needed. Give more"
        )
    return allowed


def _round_down(n: int) -> int:
    """Keep two leading digits: a small difference in memory at the start then gives the same sample.

    >>> _round_down(123_456), _round_down(57)
    (120000, 57)
    """
    unit = 10 ** max(len(str(n)) - 2, 0)
    return n // unit * unit


# ---- Samples ----


def quotas(sizes: NDArray[Any], most: int) -> Indices:
    """Return how many members to take of classes of these sizes, at most ``most`` in all.

    Each class gives ``MIN_PER_CLASS`` members, or all if it has fewer, and the same share of the others. Rounding
    favours the largest remainders.

    >>> quotas(np.array([900, 90, 10]), 100).tolist()
    [74, 16, 10]
    """
    sizes = sizes.astype(np.int64)
    if sizes.sum() <= most:
        return sizes.copy()
    floor = np.minimum(sizes, MIN_PER_CLASS)
    if floor.sum() > most:
        raise _sample_too_small(most, int(np.count_nonzero(sizes)), int(floor.sum()))
    rest = (most - int(floor.sum())) * (sizes - floor) / max(int((sizes - floor).sum()), 1)
    taken = floor + rest.astype(np.int64)
    largest = np.argsort(-(rest % 1), kind="stable")[: most - int(taken.sum())]
    taken[largest] += 1
    return np.minimum(taken, sizes)


def _sample_too_small(most: int, n_classes: int, needed: int) -> ValueError:
    return ValueError(
        f"a sample of {most} rows is too small for {n_classes} classes: expected at least {needed}, {MIN_PER_CLASS} "
        "of each class; give a larger max_sample or max_memory"
    )


def stratified(labels: Indices | None, n: int, most: int, rng: np.random.Generator) -> Indices:
    """Draw at most ``most`` of n rows, ascending, within each class by ``quotas``; skip rows labelled -1.

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


def iter_chunks(chunks: Iterable[Any]) -> Iterator[Chunk]:
    """Yield vectors and labels of each chunk, X or (X, y); all must have one width, and labels or none."""
    first: Chunk | None = None
    for number, chunk in enumerate(chunks):
        X, y = chunk if isinstance(chunk, tuple) and len(chunk) == 2 else (chunk, None)
        X, y = np.asarray(X), None if y is None else np.asarray(y)
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise ValueError(f"chunk {number} has shape {X.shape} and type {X.dtype}; expected numbers (n, d)")
        if y is not None and y.shape != (len(X),):
            raise ValueError(f"chunk {number} has labels of shape {y.shape}; expected ({len(X)},)")
        if first is not None and (X.shape[1] != first[0].shape[1] or (y is None) != (first[1] is None)):
            raise ValueError(
                f"chunk {number} has vectors of {X.shape[1]} values {'without' if y is None else 'with'} labels; "
                f"the first chunk has {first[0].shape[1]} {'without' if first[1] is None else 'with'} labels"
            )
        first = (X[:0], y) if first is None else first
        yield X, y


class Reservoir:
    """A random sample of rows that are seen once.

    Each row draws a random key. The ``MIN_PER_CLASS`` smallest keys of each class are kept, then the smallest of all,
    up to the capacity. The sample does not depend on the chunks. Rows labelled None are skipped. Too many classes for
    the capacity raise an error.
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
        """See the next rows."""
        keys, rows = self.rng.random(len(X)), self.n_seen + np.arange(len(X))
        self.n_seen += len(X)
        if y is not None and y.dtype == object:
            known = np.array([label is not None for label in y], dtype=bool)
            X, y, keys, rows = X[known], y[known], keys[known], rows[known]
        labels = np.zeros(len(X), np.int64) if y is None else self._numbers(y)
        keys = np.concatenate([self.keys, keys])
        rows = np.concatenate([self.rows, rows])
        labels = np.concatenate([self.labels, labels])
        n_stored = len(self.keys)

        by_class = np.lexsort((keys, labels))
        starts = np.searchsorted(labels[by_class], np.arange(labels.max(initial=-1) + 1))
        rank = np.empty(len(keys), np.int64)  # by key, within the class
        rank[by_class] = np.arange(len(keys)) - starts[labels[by_class]]
        floor = int(np.count_nonzero(rank < MIN_PER_CLASS))
        if y is not None and floor > self.capacity:
            raise _sample_too_small(self.capacity, len(self.classes), floor)
        kept = np.zeros(len(keys), bool)
        kept[np.lexsort((keys, rank >= MIN_PER_CLASS))[: self.capacity]] = True

        # New rows overwrite dropped rows, then fill unused slots.
        new = np.flatnonzero(kept[n_stored:])
        slots = np.concatenate([np.flatnonzero(~kept[:n_stored]), np.arange(n_stored, self.capacity)])[: len(new)]
        self.X[slots] = X[new]
        size = min(len(keys), self.capacity)
        for name, values in (("keys", keys), ("rows", rows), ("labels", labels)):
            column = np.resize(values[:n_stored], size) if n_stored else np.empty(size, values.dtype)
            column[slots] = values[n_stored + new]
            setattr(self, name, column)

    def sample(self) -> tuple[NDArray[Any], Indices, NDArray[Any] | None]:
        """Return vectors, row numbers and labels of the sample, in the order of the rows."""
        order = np.argsort(self.rows)
        names = np.empty(len(self.classes), dtype=object)
        names[:] = list(self.classes)
        y = names[self.labels[order]] if self.classes else None
        if y is not None and len({type(name) for name in self.classes}) == 1:
            y = np.array(y.tolist())  # an array of numbers or of strings
        return self.X[: len(order)][order], self.rows[order], y

    def _numbers(self, y: NDArray[Any]) -> Indices:
        names, numbers = encode_labels(y)
        known = [self.classes.setdefault(name, len(self.classes)) for name in names.tolist()]
        return np.array(known, dtype=np.int64)[numbers]
