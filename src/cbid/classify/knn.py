"""k-nearest-neighbour classification on binary codes, with a fair share of the vote for neighbours that tie."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_n_jobs, unchanged_on_error
from cbid.codes import check_codes, pack
from cbid.search import CodeIndex, Matches
from cbid.search.checks import as_count

__all__ = ["MAX_TIED", "CodeKNeighborsClassifier", "Neighbours", "count_votes", "neighbours_with_ties", "random_keys"]

MAX_TIED = 8_192  # neighbours at the distance of the k-th that are fetched; if there are more, a random subset votes
_WIDTHS = (1, 64, MAX_TIED)  # neighbours beyond the k-th that are fetched, until all ties are known
_STORE_WIDTHS = (1, 64)  # the same for a store outside the process
_CHUNK = 1 << 20  # neighbours in memory at a time
_FIRST_SAMPLE = 4_096  # codes drawn to find some of very many ties
_ENOUGH_TIED = 512  # ties in a sample that are enough
_MAX_MERGED_BITS = 32  # up to this length, equal codes of one class are merged for the vote
_EQUAL = 1e-9  # votes that differ relatively by less are equal


class CodeKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Classify by the votes of the nearest codes, by plain or weighted Hamming distance.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that vote.
    weights : {"uniform", "distance"}, default="uniform"
        One vote for each neighbour, or 1 / distance (neighbours at distance 0, if any, then vote alone). All
        neighbours as near as the last one share its votes evenly, so the order of the training data does not matter.
        Among classes with equal votes the one with more votes nearby wins; if these are equal too, the code of the
        query decides as a fixed random number.
    coder : estimator with ``fit`` and ``encode``, optional
        Fitted on X and y; X are then vectors. Without a coder X are bits, set where positive: 0/1, -1/+1 (the
        ``transform`` of a coder in a Pipeline) or projections.
    packed : bool, default=False
        Without a coder: X are packed codes, uint8, (n, ceil(n_bits/8)).
    n_bits : int, optional
        With ``packed``: the number of bits, by default 8 for each byte.
    bit_weights : "auto", None, (n_bits,) or (n_bits, n_classes), default="auto"
        Weights of the distance. "auto": ``weights_`` of the coder if it has them; None: plain Hamming.
        Two-dimensional: one vector for each class of the training item, columns in the order of ``classes_``. Weights
        of a coder that belong to the class of the query (a margin other than "database") are ignored with a warning.
    n_jobs : int, optional
        Threads of a search, as in scikit-learn: None is one, -1 all processors.

    Attributes
    ----------
    classes_ : (n_classes,)
    coder_ : the fitted coder, or None
    index_ : CodeIndex; ids are the rows of the training data

    Examples
    --------
    >>> import numpy as np
    >>> bits = np.array([[1, 1, 1, -1], [1, 1, -1, -1], [-1, -1, 1, 1]])
    >>> model = CodeKNeighborsClassifier(n_neighbors=1).fit(bits, ["a", "a", "b"])
    >>> model.predict([[1, 1, 1, 1]])
    array(['a'], dtype='<U1')
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: str = "uniform",
        coder: Any = None,
        packed: bool = False,
        n_bits: int | None = None,
        bit_weights: ArrayLike | str | None = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.coder = coder
        self.packed = packed
        self.n_bits = n_bits
        self.bit_weights = bit_weights
        self.n_jobs = n_jobs

    @unchanged_on_error
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store the codes of X with their classes y."""
        as_count(self.n_neighbors, "n_neighbors")
        check_n_jobs(self.n_jobs)
        if not isinstance(self.weights, str) or self.weights not in ("uniform", "distance"):
            raise ValueError(
                f"weights={self.weights!r}: expected 'uniform' or 'distance' (for weights of bits see bit_weights)"
            )
        if self.coder is not None and not (hasattr(self.coder, "fit") and hasattr(self.coder, "encode")):
            raise ValueError(f"coder={self.coder!r}: expected an estimator with encode, or None")
        if self.packed and self.coder is not None:
            raise ValueError("packed=True: expected False with a coder, which takes vectors, not codes")
        if self.n_bits is not None and not self.packed:
            raise ValueError(f"n_bits={self.n_bits}: expected None with packed=False")
        rows, y = validate_data(self, X, y, dtype=_dtype(self.packed))
        check_classification_targets(y)
        self.classes_, classes = np.unique(y, return_inverse=True)
        # Parameters that are set after this count in the next fit.
        self.coder_ = None if self.coder is None else clone(self.coder).fit(rows, y)
        self._packed = self.packed
        n_bits = self._count_bits(rows)
        self.index_ = CodeIndex(n_bits, self._bit_weights(), n_threads=effective_n_jobs(self.n_jobs))
        codes = self._encoded(rows)
        self.index_.add(codes, labels=classes)
        self._voters, self._counts = self._merged(codes, classes)
        return self

    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> NDArray[np.int64] | tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the nearest training items of each row of X: distances and row numbers (n, n_neighbors).

        Without X: of each training item, without itself.
        """
        check_is_fitted(self)
        k = as_count(self.n_neighbors if n_neighbors is None else n_neighbors, "n_neighbors")
        others = len(self.index_) - (X is None)
        if k > others:
            raise ValueError(f"n_neighbors={k}: the model has {len(self.index_)} samples")
        if X is None:
            codes = self.index_.reconstruct(self.index_.ids)
            found = self.index_.search(codes, k + 1)
            keep = found.ids != np.arange(len(codes))[:, None]
            keep[keep.all(axis=1), -1] = False  # k + 1 duplicates come before it
            distances, rows = (a[keep].reshape(len(codes), k) for a in (found.distances, found.ids))
        else:
            found = self.index_.search(self._encoded(self._validated(X)), k)
            distances, rows = found.distances, found.ids
        return (distances, rows) if return_distance else rows

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share of the votes of each class (n, n_classes); the winner of a tie is 1e-9 ahead.

        All neighbours as near as the last of the ``n_neighbors`` vote, each with the same part of the votes that are
        left. With codes of up to 32 bits up to 8,192 of them count after equal codes of a class are merged, with
        longer codes up to 8,192 rows; if there are more, a random subset with a fixed seed votes.
        """
        check_is_fitted(self)
        k = as_count(self.n_neighbors, "n_neighbors")
        if k > len(self.index_):
            raise ValueError(f"n_neighbors={k}: the model has {len(self.index_)} samples")
        codes = self._encoded(self._validated(X))
        votes = np.zeros((len(codes), len(self.classes_)))
        for near in neighbours_with_ties(self._voters, codes, k, counts=self._counts):
            votes[near.rows] = count_votes(
                near.distances,
                near.labels,
                len(self.classes_),
                k,
                weights=self.weights,
                counts=None if self._counts is None else self._counts[near.ids],
                queries=codes[near.rows],
            )
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with most votes for each row of X."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def _merged(
        self, codes: NDArray[np.uint8], classes: NDArray[np.int64]
    ) -> tuple[CodeIndex, NDArray[np.int64] | None]:
        """Return an index of the distinct pairs of code and class, and how many rows each of them has.

        Short codes have many equal rows; merged, all of them can vote. Otherwise the index of all rows, and None.
        """
        if self.index_.n_bits > _MAX_MERGED_BITS:
            return self.index_, None
        keys = classes.astype(np.uint64)
        for column in codes.T:
            keys = keys << np.uint64(8) | column
        _, first, counts = np.unique(keys, return_index=True, return_counts=True)
        index = CodeIndex(self.index_.n_bits, self.index_.weights, n_threads=self.index_.n_threads)
        index.add(codes[first], labels=classes[first])
        return index, counts

    def _validated(self, X: ArrayLike) -> NDArray[Any]:
        return validate_data(self, X, dtype=_dtype(self._packed), reset=False)

    def _encoded(self, X: NDArray[Any]) -> NDArray[np.uint8]:
        if self.coder_ is not None:
            return self.coder_.encode(X)
        return check_codes(X, self.index_.n_bits, name="X") if self._packed else pack(X)

    def _count_bits(self, X: NDArray[Any]) -> int:
        if self.coder_ is not None:
            return int(getattr(self.coder_, "n_bits_", 0) or self.coder_.transform(X[:1]).shape[1])
        if self.packed:
            return 8 * X.shape[1] if self.n_bits is None else as_count(self.n_bits, "n_bits")
        return X.shape[1]

    def _bit_weights(self) -> ArrayLike | None:
        if isinstance(self.bit_weights, str):
            if self.bit_weights != "auto":
                raise ValueError(f"bit_weights={self.bit_weights!r}: expected 'auto', None or an array")
            learned = getattr(self.coder_, "weights_", None)
            margin = getattr(self.coder_, "margin", "database")
            if learned is not None and np.ndim(learned) == 2 and margin != "database":
                warnings.warn(
                    f"the coder's weights (margin={margin!r}) depend on the class of the query, which is unknown: "
                    "using plain Hamming distance. margin='database' gives weights by the class of the stored items; "
                    "bit_weights=None silences this warning",
                    UserWarning,
                    stacklevel=4,
                )
                return None
            return learned
        if self.bit_weights is not None and np.ndim(self.bit_weights) == 2:
            n_columns = np.shape(self.bit_weights)[1]
            if n_columns != len(self.classes_):
                raise ValueError(
                    f"bit_weights has {n_columns} columns; expected {len(self.classes_)}, one for each class"
                )
        return self.bit_weights


def _dtype(packed: bool) -> Any:
    # Packed codes must be uint8: a conversion would hide other data.
    return None if packed else "numeric"


class CodeSearch(Protocol):
    """An index or a store of codes that returns the nearest."""

    def search(
        self, codes: ArrayLike, k: int = 10, *, weights: ArrayLike | None = None, labels: ArrayLike | None = None
    ) -> Matches:
        """Return the k nearest codes, as ``CodeIndex.search``."""


class Neighbours(NamedTuple):
    """The nearest neighbours of some of the queries, and all neighbours as near as the k-th.

    rows : (r,) the queries
    ids, distances, labels : (r, m) nearest first; missing places have id -1 and distance inf
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    distances: NDArray[np.float32]
    labels: NDArray[Any]


def neighbours_with_ties(
    index: CodeSearch,
    codes: NDArray[np.uint8],
    k: int,
    *,
    weights: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    excluded: NDArray[np.int64] | None = None,
    counts: NDArray[np.int64] | None = None,
) -> Iterator[Neighbours]:
    """Yield the k nearest of every query with all neighbours that tie with the k-th, some queries at a time.

    Parameters
    ----------
    index : CodeIndex with labels, or another store of codes
    codes : array (q, ceil(n_bits / 8))
        Queries.
    k : int
    weights, labels : see ``CodeIndex.search``
    excluded : array of int, default=None
        Ids to leave out.
    counts : array of int, default=None
        Number of items that each id stands for; the id is then the place in this array. Default: one.

    Notes
    -----
    If more than 8,192 tie with the k-th, a random subset of at least 512 of them is returned instead. It is drawn by
    a fixed function of the ids and does not depend on the other queries. A store outside the process returns at most
    64 more than k.
    """
    gone = np.empty(0, dtype=np.int64) if excluded is None else excluded
    local = isinstance(index, CodeIndex)
    n_stored = len(index) if isinstance(index, CodeIndex) else None

    def search(rows: NDArray[np.int64], width: int) -> Neighbours:
        wider = width + len(gone)
        if n_stored is not None:
            wider = min(wider, max(n_stored, width))
        found = index.search(codes[rows], wider, weights=weights, labels=labels)
        assert found.labels is not None
        return _without(Neighbours(rows, found.ids, found.distances, found.labels), gone, width)

    todo = np.arange(len(codes))
    widths = _WIDTHS if local else _STORE_WIDTHS
    for extra in widths:
        width = k + extra
        if n_stored is not None:
            width = min(width, max(n_stored, k))
        last = not local and extra == widths[-1]
        unresolved = [todo[:0]]
        for rows in _chunks(todo, width):
            near = search(rows, width)
            kth = _kth_distance(near, k, counts)
            open_ended = (near.distances[:, -1] == kth) & np.isfinite(kth) & (n_stored is None or width < n_stored)
            open_ended &= not last
            yield _take(near, np.flatnonzero(~open_ended), kth)
            unresolved.append(rows[open_ended])
        todo = np.concatenate(unresolved)
        if not len(todo):
            return
    assert isinstance(index, CodeIndex)
    for rows in _chunks(todo, k):
        near = search(rows, k)
        kth = _kth_distance(near, k, counts)
        for distance in np.unique(kth):
            same = np.flatnonzero(kth == distance)
            for part in _chunks(same, MAX_TIED):
                yield from _sampled(index, codes, _take(near, part, kth), distance, weights, labels, gone)


def _sampled(
    index: CodeIndex,
    codes: NDArray[np.uint8],
    near: Neighbours,
    distance: np.float32,
    weights: ArrayLike | None,
    labels: ArrayLike | None,
    gone: NDArray[np.int64],
) -> Iterator[Neighbours]:
    """Replace the neighbours at ``distance`` by those in a random subset of all ids that is large enough."""
    ids = index.ids
    ids = ids[np.argsort(random_keys(ids), kind="stable")]
    size, todo = _FIRST_SAMPLE, np.arange(len(near.rows))
    while len(todo):
        found = index.range_search(
            codes[near.rows[todo]], float(distance), weights=weights, labels=labels, among=ids[:size]
        )
        assert found.labels is not None
        unresolved = []
        for i, one in zip(todo.tolist(), found):
            assert one.labels is not None
            tied = (one.distances == distance) & ~np.isin(one.ids, gone)
            if tied.sum() < _ENOUGH_TIED and size < len(ids):
                unresolved.append(i)
                continue
            closer = near.distances[i] < distance
            both: list[tuple[Any, Any]] = [
                (near.ids, one.ids),
                (near.distances, one.distances),
                (near.labels, one.labels),
            ]
            joined = [np.concatenate([a[i, closer], b[tied]])[None] for a, b in both]
            yield Neighbours(near.rows[i : i + 1], *joined)
        todo, size = np.array(unresolved, dtype=np.int64), 4 * size


def _chunks(rows: NDArray[np.int64], width: int) -> Iterator[NDArray[np.int64]]:
    size = max(1, _CHUNK // width)
    return (rows[i : i + size] for i in range(0, len(rows), size))


def _without(near: Neighbours, gone: NDArray[np.int64], width: int) -> Neighbours:
    """Move excluded ids to the end, as missing, and return the first ``width`` columns."""
    if not len(gone):
        return near
    missing = np.isin(near.ids, gone)
    order = np.argsort(missing, axis=1, kind="stable")
    ids = np.where(missing, -1, near.ids)
    distances = np.where(missing, np.float32(np.inf), near.distances)
    labels = np.where(missing, np.zeros(1, near.labels.dtype), near.labels)
    taken = [np.take_along_axis(a, order, axis=1)[:, :width] for a in (ids, distances, labels)]
    return Neighbours(near.rows, *taken)


def _kth_distance(near: Neighbours, k: int, counts: NDArray[np.int64] | None) -> NDArray[np.float32]:
    """Return the distance of the k-th item (r,); inf if there are fewer."""
    if counts is None:
        return near.distances[:, k - 1] if near.distances.shape[1] >= k else np.full(len(near.rows), np.inf, "f4")
    total = np.where(near.ids < 0, 0, counts[near.ids]).cumsum(axis=1)
    at = (total < k).sum(axis=1)
    padded = np.pad(near.distances, ((0, 0), (0, 1)), constant_values=np.inf)
    return padded[np.arange(len(at)), at]


def _take(near: Neighbours, rows: NDArray[np.int64], kth: NDArray[np.float32]) -> Neighbours:
    """Return some rows, without the columns in which nobody is as near as the k-th."""
    inside = np.isfinite(near.distances[rows]) & (near.distances[rows] <= kth[rows, None])
    width = int(inside.sum(axis=1).max(initial=1))
    ids, distances, labels = (a[rows, :width] for a in (near.ids, near.distances, near.labels))
    inside = inside[:, :width]
    return Neighbours(
        near.rows[rows], np.where(inside, ids, -1), np.where(inside, distances, np.float32(np.inf)), labels
    )


def random_keys(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a fixed pseudo-random number for each integer (the finaliser of SplitMix64)."""
    keys = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def count_votes(
    distances: NDArray[Any],
    labels: NDArray[np.int64],
    n_classes: int,
    k: int,
    *,
    weights: str = "uniform",
    counts: NDArray[np.int64] | None = None,
    queries: NDArray[np.uint8] | None = None,
) -> NDArray[np.float64]:
    """Return the votes of each class (n, n_classes).

    Parameters
    ----------
    distances : array (n, m), ascending; inf where there is no neighbour
        The k nearest neighbours and all that tie with the k-th. Those share the votes that the nearer ones leave.
    labels : array (n, m)
        Class numbers. A neighbour with a negative number takes its votes, but gives them to no class.
    n_classes, k : int
    weights : {"uniform", "distance"}, default="uniform"
    counts : array (n, m), default=None
        Number of items that each neighbour stands for. Default: one.
    queries : array (n, n_bytes) uint8, default=None
        Codes of the queries. They decide, as random numbers, if nothing else does; by default the first class wins.
    """
    present = np.isfinite(distances)
    amount = np.where(present, 1 if counts is None else counts, 0).astype(np.float64)
    rows = np.arange(len(distances))
    total = amount.cumsum(axis=1)
    at = np.minimum((total < k).sum(axis=1), distances.shape[1] - 1)
    kth = distances[rows, at][:, None]  # of the last one if there are fewer than k
    closer, tied = present & (distances < kth), present & (distances == kth)
    n_closer, n_tied = ((amount * part).sum(axis=1, keepdims=True) for part in (closer, tied))
    share = np.minimum((k - n_closer) / np.maximum(n_tied, 1), 1)
    vote = amount * np.where(tied, share, closer)
    if weights == "distance":
        same = distances == 0
        # Relative to the nearest: tiny distances do not overflow, and the shares stay the same.
        nearest = np.where(same, np.inf, distances).min(axis=1, keepdims=True)
        power = np.ones(distances.shape)
        np.divide(nearest, distances, out=power, where=~same & present)
        vote *= np.where(same.any(axis=1, keepdims=True), same, power)
    vote = np.where(labels < 0, 0, vote)
    numbers = np.where(present & (labels >= 0), labels, 0)
    votes = _sums(vote, numbers, n_classes)
    best = votes >= (1 - _EQUAL) * votes.max(axis=1, keepdims=True)
    several = np.flatnonzero((best.sum(axis=1) > 1) & (votes > 0).any(axis=1))
    if len(several):
        keys = None if queries is None else queries[several]
        winner = _winner(best[several], distances[several], vote[several], numbers[several], keys)
        votes[several, winner] = votes[several].max(axis=1) * (1 + _EQUAL)
    return votes


def _sums(vote: NDArray[np.float64], numbers: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    places = np.arange(len(vote))[:, None] * n_classes + numbers
    votes = np.zeros(len(vote) * n_classes)
    np.add.at(votes, places.ravel(), vote.ravel())
    return votes.reshape(-1, n_classes)


def _winner(
    best: NDArray[np.bool_],
    distances: NDArray[Any],
    vote: NDArray[np.float64],
    numbers: NDArray[np.int64],
    queries: NDArray[np.uint8] | None,
) -> NDArray[np.int64]:
    """Choose one of the classes with equal votes: the one with most votes at the least distance, then at the next."""
    best = best.copy()
    steps = np.zeros(distances.shape, dtype=np.int64)
    steps[:, 1:] = (distances[:, 1:] != distances[:, :-1]).cumsum(axis=1)
    for step in range(int(steps[vote > 0].max(initial=0)) + 1):
        todo = np.flatnonzero(best.sum(axis=1) > 1)
        if not len(todo):
            break
        here = _sums(np.where(steps[todo] == step, vote[todo], 0), numbers[todo], best.shape[1])
        here = np.where(best[todo], here, -1)
        best[todo] = here >= (1 - _EQUAL) * here.max(axis=1, keepdims=True)
    if queries is None:
        return best.argmax(axis=1)
    keys = np.zeros(len(queries), dtype=np.uint64)
    for column in queries.T:
        keys = random_keys(keys ^ column)
    chosen = (keys % best.sum(axis=1).astype(np.uint64)).astype(np.int64)
    return (best.cumsum(axis=1) > chosen[:, None]).argmax(axis=1)
