"""Outputs of classifiers as the descriptor: classemes and meta-classes, learned on a labelled base set.

The base set may have other classes than later images. An image is described by its similarity to each base class
(classemes; Torresani, Szummer and Fitzgibbon, 2010), or to each group of base classes in a label tree (meta-classes;
Bergamo and Torresani, 2012). A label tree splits classes last that are confused most (Bengio, Weston and Grangier,
2010).
"""

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import LinearSVC
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_arrays
from cbid.params import check_params, choice, estimator, integer, param, positive
from cbid.storage.models import Saved

_MIN_AFFINITY = 1e-6  # of any two classes, so that the graph is connected

OUTPUTS = ("real", "bit", "pca")
Array = NDArray[np.floating]


@estimator
class _ClassifierOutputs(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """One linear SVM for each group of base classes against all other classes."""

    _ARRAYS = frozenset({"groups_", "coef_", "intercept_", "mean_", "components_"})

    C: float = param(1.0, positive)
    output: str = param("real", choice(*OUTPUTS))
    n_components: int = param(2, integer(1))
    n_jobs: int | None = None
    random_state: Any = 0

    @abstractmethod
    def _groups(self, X: Array, labels: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        """Return the base classes that each classifier recognises, (n_groups, n_classes)."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from the base set: vectors X (n, d) and labels y (n,)."""
        check_params(self)
        samples, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}: expected at least two")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.groups_ = self._groups(samples, labels, seed)

        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as threads:
            svms = list(threads.map(lambda group: self._svm().fit(samples, group[labels]), self.groups_))
        self.coef_ = np.concatenate([svm.coef_ for svm in svms])
        self.intercept_ = np.concatenate([svm.intercept_ for svm in svms])
        if self.output == "pca":
            most = min(len(samples), len(self.groups_))
            if self.n_components > most:
                raise ValueError(
                    f"n_components={self.n_components}: expected at most {most} for {len(samples)} samples and "
                    f"{len(self.groups_)} classifiers"
                )
            pca = PCA(self.n_components, random_state=seed).fit(self._decide(samples))
            self.mean_, self.components_ = pca.mean_, pca.components_
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return outputs (n, n_groups) in the order of ``groups_``, or their signs (int8), or their PCA."""
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
        # Balanced, because groups differ in size. LIBLINEAR's dual solver uses a global random generator, so threads
        # would change the result; the primal one does not.
        return LinearSVC(C=self.C, class_weight="balanced", dual=False, max_iter=10_000)

    def _check_state(self) -> None:
        check_params(self)
        n_groups, n_classes, d = len(self.groups_), len(self.classes_), self.n_features_in_
        check_arrays(self, {"groups_": (n_groups, n_classes)}, dtype="bool")
        check_arrays(self, {"coef_": (n_groups, d), "intercept_": (n_groups,)})
        if self.output == "pca":
            check_arrays(self, {"mean_": (n_groups,), "components_": (self.n_components, n_groups)})

    @property
    def _n_features_out(self) -> int:
        return self.n_components if self.output == "pca" else len(self.groups_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = [] if self.output == "bit" else ["float64", "float32"]
        return tags


class Classemes(_ClassifierOutputs):
    """Outputs of one linear SVM for each class of the base set.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the training errors of each classifier; classes are balanced.
    output : {"real", "bit", "pca"}, default="real"
        Decision values, their signs, or their principal axes over the base set.
    n_components : int, default=2
        Principal axes with "pca".
    n_jobs : int or None, default=None
        Number of threads, as in scikit-learn.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (n_classes,), the base classes
    groups_ : (n_classes, n_classes) bool, one class per classifier
    coef_, intercept_ : (n_classes, d), (n_classes,)
    mean_, components_ : (n_classes,), (n_components, n_classes), with "pca"
    """

    def _groups(self, X: Array, labels: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        return np.eye(len(self.classes_), dtype=bool)


@estimator
class MetaClass(_ClassifierOutputs):
    """Outputs of one linear SVM for each node of a label tree over the base classes.

    Cross-validation of one-against-rest classifiers gives a confusion matrix. Two-way normalised cuts of it form a
    tree in which confused classes are split last. Every node except the root is a meta-class. The leaves are single
    classes, so the outputs include the classemes.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the training errors of each classifier; classes are balanced.
    output : {"real", "bit", "pca"}, default="real"
        MC: decision values; MC-bit: their signs; MC-PCA: their principal axes over the base set.
    n_components : int, default=2
        Principal axes with "pca".
    n_folds : int, default=3
        Folds of the cross-validation; fewer if a class has fewer samples.
    n_jobs : int or None, default=None
        Number of threads, as in scikit-learn.
    random_state : int, RandomState or None
        Seed of the folds and of PCA.

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

    n_folds: int = param(3, integer(2))

    def _groups(self, X: Array, labels: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        counts = np.bincount(labels)
        if counts.min() < 2:
            alone = self.classes_[counts.argmin()]
            raise ValueError(
                f"y has one sample of class {alone!r}: cross-validation needs at least two of each class"
            )
        folds = StratifiedKFold(min(self.n_folds, counts.min()), shuffle=True, random_state=seed)
        predicted = cross_val_predict(self._svm(), X, labels, cv=folds)
        return grow_tree(confusion_affinity(labels, predicted))


def confusion_affinity(labels: NDArray[np.integer], predicted: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the symmetrised confusion rates of classes, (k, k).

    labels, predicted: (n,), true and predicted class indices 0 to k - 1.
    """
    confusion = confusion_matrix(labels, predicted, normalize="true")
    return (confusion + confusion.T) / 2


def grow_tree(affinity: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the classes of each node of a binary tree over k classes, except the root: (2 k - 2, k).

    Each node is split where the classes are confused least, down to single classes. Parents come before their
    children, and siblings are adjacent.
    """
    k = len(affinity)
    nodes = []
    open_nodes = [np.arange(k)]
    for classes in open_nodes:  # the loop appends to it
        if len(classes) == 1:
            continue
        side = _normalized_cut(affinity[np.ix_(classes, classes)])
        for part in (classes[side], classes[~side]):
            nodes.append(np.isin(np.arange(k), part))
            open_nodes.append(part)
    return np.array(nodes).reshape(-1, k)


def _normalized_cut(affinity: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Split a graph in two (Shi and Malik, 2000): return which nodes are on the side of the first, (k,).

    Of all cuts along the second eigenvector of the normalised Laplacian, take the one of least normalised cost.
    """
    W = affinity + _MIN_AFFINITY
    np.fill_diagonal(W, 0)
    degrees = W.sum(axis=1)
    scale = 1 / np.sqrt(degrees)
    _, vectors = eigh(-W * scale[:, None] * scale, subset_by_index=[0, 1])
    position = vectors[:, 1] * scale
    order = np.argsort(position, kind="stable")
    within = np.tril(W[np.ix_(order, order)])  # each pair once
    size = np.cumsum(degrees[order])[:-1]  # of the first side, for every cut
    cost = size - 2 * np.cumsum(within.sum(axis=1))[:-1]
    cut = int(np.argmin(cost / size + cost / (degrees.sum() - size))) + 1
    side = np.zeros(len(W), dtype=bool)
    side[order[:cut]] = True
    return side if side[0] else ~side  # an eigenvector's sign is arbitrary
