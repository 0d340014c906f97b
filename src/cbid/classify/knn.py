"""k-nearest-neighbour classification on binary codes."""

import warnings
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_n_jobs, unchanged_on_error
from cbid.codes import check_codes, pack
from cbid.search import CodeIndex
from cbid.search.checks import as_count

__all__ = ["CodeKNeighborsClassifier", "count_votes"]


class CodeKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Classify by the votes of the nearest codes, by plain or weighted Hamming distance.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that vote.
    weights : {"uniform", "distance"}, default="uniform"
        One vote for each neighbour, or 1 / distance (neighbours at distance 0, if any, then vote alone). The nearest
        neighbour breaks ties between classes.
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
        self.index_.add(self._encoded(rows), labels=classes)
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
        """Return the share of the votes of each class (n, n_classes); the winner of a tie is 1e-9 ahead."""
        check_is_fitted(self)
        k = as_count(self.n_neighbors, "n_neighbors")
        if k > len(self.index_):
            raise ValueError(f"n_neighbors={k}: the model has {len(self.index_)} samples")
        found = self.index_.search(self._encoded(self._validated(X)), k)
        assert found.labels is not None
        votes = count_votes(found.distances.astype(np.float64), found.labels, len(self.classes_), self.weights)
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with most votes for each row of X."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

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


def count_votes(
    distances: NDArray[np.float64], labels: NDArray[np.int64], n_classes: int, weights: str
) -> NDArray[np.float64]:
    """Return the votes of each class (n, n_classes) from neighbours (n, k), nearest first."""
    vote = np.ones(distances.shape)
    if weights == "distance":
        same = distances == 0
        # Relative to the nearest: tiny distances do not overflow, and the shares stay the same.
        nearest = np.where(same, np.inf, distances).min(axis=1, keepdims=True)
        np.divide(nearest, distances, out=vote, where=~same)
        vote = np.where(same.any(axis=1, keepdims=True), same, vote)
    rows = np.arange(len(labels))
    votes = np.zeros((len(labels), n_classes))
    for j in range(labels.shape[1]):
        votes[rows, labels[:, j]] += vote[:, j]
    tied = votes == votes.max(axis=1, keepdims=True)
    votes_for_tied = np.take_along_axis(tied, labels, axis=1)  # the first of them is the nearest
    winner = labels[rows, votes_for_tied.argmax(axis=1)]
    several = tied.sum(axis=1) > 1
    votes[rows[several], winner[several]] *= 1 + 1e-9
    return votes
