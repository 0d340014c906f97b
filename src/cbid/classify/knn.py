"""k-nearest-neighbour classification on binary codes: classes, label sets, label trees, and "unknown"."""

import warnings
from dataclasses import field
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_share, unchanged_on_error
from cbid.classify.votes import EQUAL_SHARES, count_votes, descend, neighbour_votes, neighbours_with_ties, set_shares
from cbid.codes import check_codes, pack
from cbid.evaluation.gains import label_matrices
from cbid.label_trees import LabelTree, parse_tree
from cbid.labels import are_label_sets, encode_label_sets
from cbid.params import check_params, estimator, jobs, param, real
from cbid.search import CodeIndex
from cbid.search.checks import as_count

_MAX_MERGED_BITS = 32  # up to this length, equal codes of one class are merged for the vote
_PARTS = 5  # one part of the samples is held out to find the distance of unknown items


@estimator
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
    tree : str, mapping or nested dict, optional
        The tree of the labels: a separator of path labels, child -> parent, or nested dicts. The votes of the classes
        below a node are its own, and the answer is found from the top down: on each level the node with most votes.
    threshold : float, optional
        The share of the votes that a label needs. Label sets: all labels with at least this share, by default .5.
        With a tree: the answer is the last node on the way down with this share, by default 0, so that it is a
        class. Not used otherwise.
    unknown : float, optional
        Answer "unknown" (-1 for numbers, no label for label sets) for items that are farther from their neighbours
        than most known ones: this share of known items, such as .05, is rejected by mistake. The distance is found
        on samples that are held out: with a coder, a fifth of X, for which the coder is fitted once more to the
        rest; without, every sample, compared with the others. `calibrate` finds it on samples of your own.
    n_jobs : int, optional
        Threads of a search, as in scikit-learn: None is one, -1 all processors.

    Attributes
    ----------
    classes_ : (n_classes,)
        The classes; with label sets, all labels.
    coder_ : the fitted coder, or None
    index_ : CodeIndex; ids are the rows of the training data
    tree_ : LabelTree, or None
    unknown_distance_ : float or None
        Mean distance to the neighbours above which an item is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> bits = np.array([[1, 1, 1, -1], [1, 1, -1, -1], [-1, -1, 1, 1]])
    >>> model = CodeKNeighborsClassifier(n_neighbors=1).fit(bits, ["a", "a", "b"])
    >>> model.predict([[1, 1, 1, 1]])
    array(['a'], dtype='<U1')
    """

    n_neighbors: int = field(default=5, kw_only=False)
    weights: str = "uniform"
    coder: Any = None
    packed: bool = False
    n_bits: int | None = None
    bit_weights: ArrayLike | str | None = "auto"
    tree: Any = None
    threshold: float | None = param(None, check_share)
    unknown: float | None = param(None, real(0, 1))
    n_jobs: int | None = param(None, jobs)

    @unchanged_on_error
    def fit(self, X: ArrayLike, y: Any) -> Self:
        """Store the codes of X with their classes y.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,), or label sets
            Label sets are a list of lists or sets of labels, or a 0/1 matrix (n, labels), dense or sparse. A sample
            without a label votes for none.
        """
        self._check_parameters()
        several = are_label_sets(y)
        if several:
            rows = validate_data(self, X, dtype=_dtype(self.packed))
            numbers = self._encode_sets(y, len(rows))
        else:
            rows, y = validate_data(self, X, y, dtype=_dtype(self.packed))
            check_classification_targets(y)
            self.classes_, numbers = np.unique(y, return_inverse=True)
            self._sets = None
        self.tree_ = self._parsed_tree(several)
        self._unknown_label = None if self.unknown is None else self._free_label(several)
        # Parameters that are set after this count in the next fit.
        self.coder_ = None if self.coder is None else clone(self.coder).fit(rows, y)
        self._packed = self.packed
        self.index_ = self._index_of(self.coder_, rows)
        codes = self._encoded(rows)
        self.index_.add(codes, labels=numbers)
        self._voters, self._counts = self._merged(codes, numbers)
        self.unknown_distance_ = None
        if self.unknown is not None:
            self.unknown_distance_ = self._calibrated(self._held_out_distances(rows, y, numbers))
        return self

    def _check_parameters(self) -> None:
        check_params(self)
        as_count(self.n_neighbors, "n_neighbors")
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

    def _encode_sets(self, y: Any, n: int) -> NDArray[np.int64]:
        """Set the labels and the distinct label sets; return the number of the set of each sample."""
        self.classes_, matrix = encode_label_sets(y, name="y")
        if matrix.shape[0] != n:
            raise ValueError(f"y has {matrix.shape[0]} label sets: expected {n}, one for each row of X")
        if not matrix.nnz:
            raise ValueError("y has no label: expected at least one sample with a label")
        keys = [matrix.indices[start:stop].tobytes() for start, stop in zip(matrix.indptr, matrix.indptr[1:])]
        _, first, numbers = np.unique(np.array(keys, dtype=object), return_index=True, return_inverse=True)
        self._sets = csr_matrix(matrix[first], dtype=np.float64)
        self._n_columns = y.shape[1] if issparse(y) or getattr(y, "ndim", 1) == 2 else None
        self._sparse = issparse(y)
        return numbers

    def _parsed_tree(self, several: bool) -> LabelTree | None:
        if self.tree is None:
            return None
        if several:
            raise ValueError("tree is given, but samples have several labels: expected tree=None or one label each")
        return parse_tree(self.tree, self.classes_.tolist())

    def _free_label(self, several: bool) -> Any:
        """Return the label of unknown items, which must not be a class."""
        if several:
            return None
        label = "unknown" if self.classes_.dtype.kind in "UO" else -1
        if self.classes_.dtype.kind not in "UOif" or label in self.classes_.tolist():
            shown = self.classes_.tolist()[:5]
            raise ValueError(f"unknown={self.unknown}: expected text or numbers other than {label!r}, found {shown}")
        return label

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

        With label sets: the share of the votes for each label, from 0 to 1.

        All neighbours as near as the last of the ``n_neighbors`` vote, each with the same part of the votes that are
        left. With codes of up to 32 bits up to 8,192 of them count after equal codes of a class are merged, with
        longer codes up to 8,192 rows; if there are more, a random subset with a fixed seed votes.
        """
        return self._shares(self._fitted_codes(X))

    def predict(self, X: ArrayLike) -> Any:
        """Return the class with most votes for each row of X.

        After a fit with label sets: the labels with at least ``threshold`` of the votes, in the form of ``y``: a 0/1
        matrix with the same columns, or an array of sets. With a tree: a node of it.
        """
        codes = self._fitted_codes(X)
        shares = self._shares(codes)
        known = np.ones(len(codes), dtype=bool)
        if self.unknown_distance_ is not None:
            known = self._distances(codes) <= self.unknown_distance_
        if self._sets is not None:
            least = 0.5 if self.threshold is None else self.threshold
            return self._as_fitted((shares >= least - EQUAL_SHARES) & (shares > 0) & known[:, None])
        found: Any = self.classes_[shares.argmax(axis=1)]
        if self.tree_ is not None:
            found = descend(self.tree_, self.classes_.tolist(), shares, self.threshold or 0.0)
            found = found.astype(str) if self.classes_.dtype.kind == "U" else found
        return found if known.all() else np.where(known, found, self._unknown_label)

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy; with label sets the share of rows whose whole set is right, as in scikit-learn."""
        check_is_fitted(self)
        if self._sets is None:
            return float(super().score(X, y, sample_weight))
        predicted = self.predict(X)
        true, found = label_matrices(y, list(predicted) if self._n_columns is None else predicted, ("y", "X"))
        right = np.asarray(np.abs(true - found).sum(axis=1)).ravel() == 0
        return float(np.average(right, weights=sample_weight))

    def decision(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how near each row of X is to the known samples, (n,); rows below 0 are unknown.

        It is ``unknown_distance_`` minus the mean distance to the neighbours; without ``unknown`` the former is 0.
        """
        return (self.unknown_distance_ or 0.0) - self._distances(self._fitted_codes(X))

    def calibrate(self, X: ArrayLike) -> Self:
        """Find the distance of unknown items on samples of known classes that nothing has learned from.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            The share ``unknown`` of them is rejected.
        """
        codes = self._fitted_codes(X)
        if self.unknown is None:
            raise ValueError("unknown=None: expected the share of known items that may be rejected, such as 0.05")
        self._unknown_label = self._free_label(self._sets is not None)
        self.unknown_distance_ = self._calibrated(self._distances(codes))
        return self

    def _fitted_codes(self, X: ArrayLike) -> NDArray[np.uint8]:
        check_is_fitted(self)
        k = as_count(self.n_neighbors, "n_neighbors")
        if k > len(self.index_):
            raise ValueError(f"n_neighbors={k}: the model has {len(self.index_)} samples")
        return self._encoded(self._validated(X))

    def _shares(self, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the share of the votes of each class or label, (n, n_classes)."""
        votes = np.zeros((len(codes), len(self.classes_)))
        for near in neighbours_with_ties(self._voters, codes, self.n_neighbors, counts=self._counts):
            counts = None if self._counts is None else self._counts[near.ids]
            if self._sets is not None:
                given = neighbour_votes(near.distances, self.n_neighbors, weights=self.weights, counts=counts)
                votes[near.rows] = set_shares(given, near.labels, self._sets)
                continue
            found = count_votes(
                near.distances,
                near.labels,
                len(self.classes_),
                self.n_neighbors,
                weights=self.weights,
                counts=counts,
                queries=codes[near.rows],
            )
            votes[near.rows] = found / found.sum(axis=1, keepdims=True)
        return votes

    def _as_fitted(self, chosen: NDArray[np.bool_]) -> Any:
        """Return predicted labels (n, n_classes) in the form of the fitted ones."""
        if self._n_columns is None:
            found = np.empty(len(chosen), dtype=object)
            found[:] = [set(self.classes_[row].tolist()) for row in chosen]
            return found
        matrix = np.zeros((len(chosen), self._n_columns), dtype=np.int64)
        matrix[:, self.classes_.astype(np.int64)] = chosen
        return csr_matrix(matrix) if self._sparse else matrix

    def _distances(self, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the mean distance of each code to its neighbours."""
        return self.index_.search(codes, self.n_neighbors).distances.mean(axis=1, dtype=np.float64)

    def _calibrated(self, distances: NDArray[np.float64]) -> float:
        """Return the distance that the share ``unknown`` of these distances exceeds, at most."""
        assert self.unknown is not None
        return float(np.quantile(distances, 1 - self.unknown, method="higher"))

    def _held_out_distances(self, rows: NDArray[Any], y: Any, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean distances of samples that the coder has not learned from, in the units of the index."""
        if self.coder_ is None:
            k = min(self.n_neighbors + 1, len(rows))
            if k < 2:
                raise ValueError(f"unknown={self.unknown}: expected at least 2 samples, found {len(rows)}")
            found = self.index_.search(self._encoded(rows), k)
            return found.distances[:, 1:].mean(axis=1, dtype=np.float64)  # the first one is the sample itself
        held = self._held_out(numbers)
        rest = np.flatnonzero(~held)
        part = y[rest] if hasattr(y, "shape") else [y[i] for i in rest.tolist()]
        coder = clone(self.coder).fit(rows[rest], part)
        index = self._index_of(coder, rows)
        index.add(coder.encode(rows[rest]), labels=numbers[rest])
        found = index.search(coder.encode(rows[held]), min(self.n_neighbors, len(rest)))
        scale = _largest_distance(self.index_) / _largest_distance(index)
        return scale * found.distances.mean(axis=1, dtype=np.float64)

    def _held_out(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Choose a fifth of the samples, a fifth of each class, but none of a class of one sample."""
        rng = np.random.default_rng(0)
        groups = np.zeros(len(numbers), dtype=np.int64) if self._sets is not None else numbers
        held = np.zeros(len(numbers), dtype=bool)
        for group in np.unique(groups):
            members = rng.permutation(np.flatnonzero(groups == group))
            held[members[: -(-len(members) // _PARTS) if len(members) > 1 else 0]] = True
        if not held.any():
            raise ValueError(f"unknown={self.unknown}: expected a class of at least 2 samples to hold some out")
        return held

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

    def _index_of(self, coder: Any, rows: NDArray[Any]) -> CodeIndex:
        """Return an empty index with the weights for codes of this coder, or for the codes ``rows`` themselves."""
        weights = self._bit_weights(coder)
        return CodeIndex(self._count_bits(coder, rows), weights, n_threads=effective_n_jobs(self.n_jobs))

    def _count_bits(self, coder: Any, X: NDArray[Any]) -> int:
        if coder is not None:
            return int(getattr(coder, "n_bits_", 0) or coder.transform(X[:1]).shape[1])
        if self.packed:
            return 8 * X.shape[1] if self.n_bits is None else as_count(self.n_bits, "n_bits")
        return X.shape[1]

    def _bit_weights(self, coder: Any) -> ArrayLike | None:
        if isinstance(self.bit_weights, str):
            if self.bit_weights != "auto":
                raise ValueError(f"bit_weights={self.bit_weights!r}: expected 'auto', None or an array")
            learned = getattr(coder, "weights_", None)
            margin = getattr(coder, "margin", "database")
            if self._sets is not None and learned is not None and np.ndim(learned) == 2:
                return None  # one vector for each class, and samples have several labels
            if learned is not None and np.ndim(learned) == 2 and margin != "database":
                warnings.warn(
                    f"the coder's weights (margin={margin!r}) depend on the class of the query, which is unknown: "
                    "using plain Hamming distance. margin='database' gives weights by the class of the stored items; "
                    "bit_weights=None silences this warning",
                    UserWarning,
                    stacklevel=5,
                )
                return None
            return learned
        if self.bit_weights is not None and np.ndim(self.bit_weights) == 2:
            if self._sets is not None:
                raise ValueError("bit_weights has one vector for each class: expected (n_bits,) with label sets")
            n_columns = np.shape(self.bit_weights)[1]
            if n_columns != len(self.classes_):
                raise ValueError(
                    f"bit_weights has {n_columns} columns; expected {len(self.classes_)}, one for each class"
                )
        return self.bit_weights


def _dtype(packed: bool) -> Any:
    # Packed codes must be uint8: a conversion would hide other data.
    return None if packed else "numeric"


def _largest_distance(index: CodeIndex) -> float:
    """Return the distance of two codes that differ in all bits, a mean over classes if each has its weights."""
    weights = index.weights
    return float(index.n_bits) if weights is None else max(float(weights.sum(axis=0).mean()), 1e-300)
