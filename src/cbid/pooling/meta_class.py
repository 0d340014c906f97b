"""Meta"""

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import LinearSVC
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_choice, check_integer, check_real
from cbid.storage.models import Saved

__all__ = ["Classemes", "MetaClass"]

_LEAST_AFFINITY = 1e-6  # of any two classes, so that the graph holds together

OUTPUTS = ("real", "bit", "pca")
Array = NDArray[np.floating]


class _ClassifierOutputs(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """One linear SVM for each group of base classes, against all the others."""

    C: float
    output: str
    n_components: int
    n_jobs: int | None
    random_state: Any

    groups_: NDArray[np.bool_]
    coef_: Array
    intercept_: Array
    _ARRAYS = frozenset({"groups_", "coef_", "intercept_", "mean_", "components_"})

    @abstractmethod
    def _groups(self, X: Array, numbers: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        """Which base classes each classifier recognises, (n_groups, n_classes)."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from the base set: vectors X (n, d) and labels y (n,)."""
        self._check_params()
        samples, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class, {self.classes_[0]!r}; a base set needs at least two")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.groups_ = self._groups(samples, numbers, seed)

        def machine(group: NDArray[np.bool_]) -> LinearSVC:
            return self._svm().fit(samples, group[numbers])

        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as threads:
            machines = list(threads.map(machine, self.groups_))
        self.coef_ = np.concatenate([m.coef_ for m in machines])
        self.intercept_ = np.concatenate([m.intercept_ for m in machines])
        if self.output == "pca":
            most = min(len(samples), len(self.groups_))
            if self.n_components > most:
                raise ValueError(
                    f"n_components={self.n_components}: {len(samples)} samples and "
                    f"{len(self.groups_)} classifiers have at most {most} principal axes"
                )
            pca = PCA(self.n_components, random_state=seed).fit(self._decide(samples))
            self.mean_, self.components_ = pca.mean_, pca.components_
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Outputs (n, n_groups) of the classifiers, their signs in -1/+1 (int8), or principal axes (n, n_components).

        Columns of the first two are in the order of ``groups_``.
        """
        check_is_fitted(self)
        values = self._decide(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))
        if self.output == "bit":
            return np.where(values >= 0, 1, -1).astype(np.int8)
        if self.output == "pca":
            return (values - self.mean_.astype(values.dtype)) @ self.components_.T.astype(values.dtype)
        return values

    def _decide(self, X: Array) -> Array:
        return X @ self.coef_.T.astype(X.dtype) + self.intercept_.astype(X.dtype)

    def _svm(self) -> LinearSVC:
        # Balanced: a group is a small part of the base set, or a large one. The primal solver: LIBLINEAR's dual one
        # draws from one generator for the whole process, so threads would change the result.
        return LinearSVC(C=self.C, class_weight="balanced", dual=False, max_iter=10_000)

    def _check_params(self) -> None:
        check_real("C", self.C, 0, open_below=True)
        check_choice("output", self.output, OUTPUTS)
        check_integer("n_components", self.n_components, 1)

    def _check_state(self) -> None:
        self._check_params()
        n_groups, n_classes, d = len(self.groups_), len(self.classes_), self.n_features_in_
        shapes = {"groups_": (n_groups, n_classes), "coef_": (n_groups, d), "intercept_": (n_groups,)}
        if self.output == "pca":
            shapes |= {"mean_": (n_groups,), "components_": (self.n_components, n_groups)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype.kind != ("b" if name == "groups_" else "f"):
                raise ValueError(f"{name} is {array.dtype} {array.shape}; {shape} belongs there")

    @property
    def _n_features_out(self) -> int:
        return self.n_components if self.output == "pca" else len(self.groups_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = [] if self.output == "bit" else ["float64", "float32"]
        return tags


class Classemes(_ClassifierOutputs):
    """One linear SVM for each class of the base set; their outputs describe any vector.

    Parameters
    ----------
    C : float > 0
        Weight of the training errors of each classifier; classes are balanced.
    output : {"real", "bit", "pca"}
        Decision values, their signs, or their principal axes over the base set.
    n_components : int
        Principal axes with "pca".
    n_jobs : int or None
        Threads, as in scikit-learn.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (n_classes,), the base classes
    groups_ : (n_classes, n_classes) bool, one class a classifier
    coef_, intercept_ : (n_classes, d), (n_classes,)
    mean_, components_ : (n_classes,), (n_components, n_classes), with "pca"
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        output: str = "real",
        n_components: int = 2,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.output = output
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _groups(self, X: Array, numbers: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        return np.eye(len(self.classes_), dtype=bool)


class MetaClass(_ClassifierOutputs):
    """One linear SVM for each node of a label tree over the base classes; their outputs describe any vector.

    One-against-rest classifiers are held against held-out parts of the base set; the classes that they mistake for
    each other stay together longest in a tree of two-way normalised cuts of the confusion matrix. Every node but the
    root is a meta-class: single classes are the leaves, so classemes are among the outputs.

    Parameters
    ----------
    C : float > 0
        Weight of the training errors of each classifier; classes are balanced.
    output : {"real", "bit", "pca"}
        MC: decision values; MC-bit: their signs; MC-PCA: their principal axes over the base set.
    n_components : int
        Principal axes with "pca".
    n_folds : int
        Parts of the base set that are held out in turn for the confusion matrix; fewer when a class is smaller.
    n_jobs : int or None
        Threads, as in scikit-learn.
    random_state : int, RandomState or None
        Draws the parts.

    Attributes
    ----------
    classes_ : (n_classes,), the base classes
    groups_ : (2 n_classes - 2, n_classes) bool, the classes of each node
    coef_, intercept_ : (n_groups, d), (n_groups,)
    mean_, components_ : (n_groups,), (n_components, n_groups), with "pca"

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> MetaClass(output="bit").fit(X / 16, y).transform(X / 16).shape
    (1797, 18)
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        output: str = "real",
        n_components: int = 2,
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.output = output
        self.n_components = n_components
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("n_folds", self.n_folds, 2)

    def _groups(self, X: Array, numbers: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        counts = np.bincount(numbers)
        if counts.min() < 2:
            raise ValueError(
                f"class {self.classes_[counts.argmin()]!r} has one sample in y; two of each class are needed to see "
                "on held-out samples which classes are mistaken for each other"
            )
        parts = StratifiedKFold(min(self.n_folds, counts.min()), shuffle=True, random_state=seed)
        predicted = cross_val_predict(self._svm(), X, numbers, cv=parts)
        return grow_tree(confusion_affinity(numbers, predicted))


def confusion_affinity(numbers: NDArray[np.integer], predicted: NDArray[np.integer]) -> NDArray[np.float64]:
    """How easily two classes are mistaken, (k, k): the mean of the shares of each taken for the other.

    numbers, predicted: (n,), class numbers 0 to k - 1 of samples and what a classifier says of them.
    """
    k = int(numbers.max()) + 1
    confusion = np.zeros((k, k))
    np.add.at(confusion, (numbers, predicted), 1)
    confusion /= confusion.sum(axis=1, keepdims=True)
    return (confusion + confusion.T) / 2


def grow_tree(affinity: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The nodes of a binary tree over k classes but its root, (2 k - 2, k): which classes each node holds.

    Each node is cut in two where the classes are least mistaken for each other, down to single classes. Parents come
    before their children, the two children of a node next to each other.
    """
    k = len(affinity)
    nodes = []
    open_nodes = [np.arange(k)]
    for classes in open_nodes:  # which grows meanwhile
        if len(classes) == 1:
            continue
        side = _normalized_cut(affinity[np.ix_(classes, classes)])
        for part in (classes[side], classes[~side]):
            nodes.append(np.isin(np.arange(k), part))
            open_nodes.append(part)
    return np.array(nodes).reshape(-1, k)


def _normalized_cut(affinity: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Two sides of a graph by spectral clustering (Shi and Malik, 2000): which nodes are with the first, (k,).

    Along the second eigenvector of the normalised Laplacian, the cut of least normalised cost.
    """
    W = affinity + _LEAST_AFFINITY
    np.fill_diagonal(W, 0)  # a node is never parted from itself
    degrees = W.sum(axis=1)
    scale = 1 / np.sqrt(degrees)
    _, vectors = eigh(-W * scale[:, None] * scale, subset_by_index=[0, 1])
    position = vectors[:, 1] * scale
    order = np.argsort(position, kind="stable")
    within = np.tril(W[np.ix_(order, order)])  # each pair once, at the later of its two
    size = np.cumsum(degrees[order])[:-1]  # of the first side, for every cut
    cost = size - 2 * np.cumsum(within.sum(axis=1))[:-1]
    cut = int(np.argmin(cost / size + cost / (degrees.sum() - size))) + 1
    side = np.zeros(len(W), dtype=bool)
    side[order[:cut]] = True
    return side if side[0] else ~side  # an eigenvector's sign is arbitrary
