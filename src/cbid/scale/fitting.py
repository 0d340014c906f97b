"""Learning from more rows than memory holds: a stratified sample, as large as the budget allows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cbid.checks import check_integer
from cbid.scale.memory import allocated_by, as_bytes, least_held
from cbid.scale.sampling import LEAST, Chunk, Reservoir, chunks_of, stratified
from cbid.scale.sources import RowSource, open_rows

__all__ = ["FitReport", "fit_from"]

_PILOTS = 1000, 3000  # rows of the two fits whose memory is measured
_MARGIN = 1.2  # for what tracing does not see: the libraries' own buffers, memory in pieces
_READ = 1 << 24  # bytes read at a time


@dataclass(frozen=True)
class FitReport:
    """What ``fit_from`` did.

    coder: the fitted coder, the one that was given.
    n_rows: rows of the source. n_sample: rows that were learned from. rows: (n_sample,) their numbers.
    per_class: how many of each class, by label; None without labels.
    max_memory: the budget, in bytes. bytes_per_row: what the fit takes for a row, as measured.
    """

    coder: Any
    n_rows: int
    n_sample: int
    rows: NDArray[np.int64]
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

    How many rows that allows is measured: two small fits of a copy of the coder tell how much memory it takes for a
    row. Of the classes each gives the same share of its members, and at least 10 of them if it has as many.

    Parameters
    ----------
    source
        An array (n, d), mapped or not; a ``.npy`` or ``.npz`` file of one; a parquet file, several, or a folder of
        them; or an iterator of chunks, X or (X, y), which is read once: its sample is a simple random one, but for
        the 10 of every class.
    coder
        A coder of ``cbid.coders``, or any estimator with ``fit``; it is fitted in place.
    labels
        (n,), or a ``.npy`` file of them, where the source has none of its own.
    max_memory
        Bytes, or text such as "2GB": the most that the process may hold, with what it holds already.
    max_sample
        The most rows to learn from, where that is less than the budget allows.
    random_state
        The same seed gives the same sample, whatever the chunks.
    """
    budget = as_bytes(max_memory)
    check_integer("random_state", random_state, 0)
    if max_sample is not None:
        check_integer("max_sample", max_sample, 2)
    if isinstance(source, Iterator):
        if labels is not None:
            raise ValueError("labels is given with an iterator; its chunks bring theirs: (X, y)")
        return _fit_passing(source, coder, budget, max_sample, random_state)
    rows = open_rows(source, labels)
    return _fit_stored(rows, coder, budget, max_sample, random_state)


def _fit_stored(rows: RowSource, coder: Any, budget: int, max_sample: int | None, seed: int) -> FitReport:
    n_known = len(rows) if rows.labels is None else int(np.count_nonzero(rows.labels >= 0))
    if not n_known:
        raise ValueError("labels has None for every row; give a label to those that are to be learned from")
    at_a_time = max(1, _READ // rows.row_bytes)

    def drawn(most: int) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any] | None]:
        chosen = stratified(rows.labels, len(rows), most, np.random.default_rng(seed))
        y = None if rows.labels is None or rows.classes is None else rows.classes[rows.labels[chosen]]
        return chosen, rows.take(chosen, at_a_time), y

    n_classes = 1 if rows.classes is None else len(rows.classes)
    columns = 16 * len(rows) if rows.labels is not None else 0  # labels in order, while rows are chosen
    largest = max((stop - start for start, stop in rows.spans(at_a_time)), default=0) * rows.row_bytes
    sizes = _pilot_sizes(min(n_known, max_sample or n_known), n_classes)
    _check_pilots(sizes, rows.row_bytes, budget, columns + largest)
    costs = _costs(coder, (drawn(size)[1:] for size in sizes))
    allowed, per_row = _allowed(costs, rows.row_bytes, budget, columns + largest)
    most = min(allowed, max_sample or allowed, n_known)
    chosen, X, y = drawn(most)
    return _finish(coder, X, y, chosen, len(rows), budget, per_row)


def _fit_passing(chunks: Iterator[Any], coder: Any, budget: int, max_sample: int | None, seed: int) -> FitReport:
    pairs = chunks_of(chunks)
    first = next(pairs, None)
    if first is None:
        raise ValueError("source holds no chunks; give at least one")
    if not first[0].shape[1]:
        raise ValueError(f"source has chunks of shape {first[0].shape}; give vectors of at least one value")
    dtype = first[0].dtype if first[0].dtype.kind == "f" else np.dtype(np.float32)
    row_bytes = first[0].shape[1] * dtype.itemsize
    # A third of what is left: no coder learns in less than twice the memory of its sample.
    capacity = max((budget - least_held() - first[0].nbytes) // (3 * row_bytes), 1)
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
        raise ValueError(f"source has no row{labelled} in {n_seen} rows; give at least one")
    classes, labels = (None, None) if y is None else np.unique(y, return_inverse=True)

    def drawn(most: int) -> NDArray[np.int64]:
        return stratified(labels, len(X), most, np.random.default_rng(seed))

    def of(y: NDArray[Any] | None, places: NDArray[np.int64]) -> NDArray[Any] | None:
        return None if y is None else y[places]

    sizes = _pilot_sizes(len(X), 1 if classes is None else len(classes))
    _check_pilots(sizes, row_bytes, budget, 0)
    pilots = [drawn(size) for size in sizes]
    costs = _costs(coder, ((X[places], of(y, places)) for places in pilots))
    # The sample that waits here, while part of it is learned from, is held already.
    allowed, per_row = _allowed(costs, row_bytes, budget, 0)
    if allowed < len(X):
        places = drawn(allowed)
        X, numbers, y = X[places], numbers[places], of(y, places)
    return _finish(coder, X, y, numbers, n_seen, budget, per_row)


def _pilot_sizes(n: int, n_classes: int) -> list[int]:
    """Rows of the two pilots, or of one over all rows where they are few."""
    sizes = [max(size, place * LEAST * n_classes) for place, size in enumerate(_PILOTS, 1)]
    return sizes if n > sizes[1] else [n]


def _check_pilots(sizes: list[int], row_bytes: int, budget: int, besides: int) -> None:
    """Refuse pilots whose rows alone are more than the budget allows."""
    left = budget - least_held() - besides
    _enough(left // row_bytes, left, budget, max(sizes))


def _cost(coder: Any, X: NDArray[Any], y: NDArray[Any] | None) -> tuple[int, int]:
    """Rows, and the bytes that a fit on them takes."""
    pilot = clone(coder)
    if "verbose" in pilot.get_params(deep=False):
        pilot.set_params(verbose=0)
    if "callback" in pilot.get_params(deep=False):
        pilot.set_params(callback=None)

    def fit() -> None:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a small sample; the fit itself tells what holds for it
            pilot.fit(X) if y is None else pilot.fit(X, y)

    return len(X), allocated_by(fit)


def _costs(coder: Any, pilots: Iterable[Chunk]) -> list[tuple[int, int]]:
    """Rows and bytes of a fit on each pilot; the first runs twice, since a first fit also imports and compiles."""
    costs = []
    for number, (X, y) in enumerate(pilots):
        if number == 0:
            _cost(coder, X, y)
        costs.append(_cost(coder, X, y))
    return costs


def _allowed(costs: list[tuple[int, int]], row_bytes: int, budget: int, besides: int) -> tuple[int, float]:
    """How many rows may be learned from, and the bytes that each takes.

    Memory is taken to grow along the line through both pilots; where it grew faster than the rows did, with their
    square (a coder that holds all pairs).
    """
    left = budget - least_held() - besides
    n, cost = costs[-1]
    per_row = row_bytes + _MARGIN * cost / n
    if len(costs) == 2:
        (fewer, less), (n, cost) = costs
        if cost / max(less, 1) > 1.1 * n / fewer:  # root of row_bytes x + (margin cost / n^2) x^2 = left
            square = _MARGIN * cost / n**2
            allowed = int((np.sqrt(row_bytes**2 + 4 * square * max(left, 0)) - row_bytes) / (2 * square))
            return _round_down(_enough(allowed, left, budget, n)), row_bytes + square * max(allowed, 1)
        slope = max(cost - less, 0) / (n - fewer)
        per_row = row_bytes + _MARGIN * slope
        left -= int(_MARGIN * max(cost - slope * n, 0))
    return _round_down(_enough(int(left / per_row), left, budget, n)), per_row


def _enough(allowed: int, left: int, budget: int, least: int) -> int:
    if allowed < least:
        raise ValueError(
            f"max_memory of {budget:,} bytes leaves {max(left, 0):,} for learning, beside what the process holds: "
            f"enough for {max(allowed, 0)} rows where at least {least} are needed; give more"
        )
    return allowed


def _round_down(n: int) -> int:
    """Two leading digits, so that a little more or less memory at the start gives the same sample.

    >>> _round_down(123_456), _round_down(57)
    (120000, 57)
    """
    unit = 10 ** max(len(str(n)) - 2, 0)
    return n // unit * unit


def _finish(
    coder: Any,
    X: NDArray[Any],
    y: NDArray[Any] | None,
    rows: NDArray[np.int64],
    n_rows: int,
    budget: int,
    per_row: float,
) -> FitReport:
    coder.fit(X) if y is None else coder.fit(X, y)
    per_class = None
    if y is not None:
        classes, counts = np.unique(y, return_counts=True)
        per_class = dict(zip(classes.tolist(), counts.tolist()))
    return FitReport(coder, n_rows, len(rows), rows, per_class, budget, per_row)
