"""Parts that many coders share: labels, prefixes, and checks of arrays from model files."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_arrays as check_arrays
from cbid.checks import check_integer
from cbid.labels import are_label_sets, encode_label_sets, encode_labels, is_list_of_objects, single_labels
from cbid.learning.scaling import check_varies


@dataclass(frozen=True)
class LabelKinds:
    """Labels for methods that learn from "similar" and "dissimilar": samples with the same labels are of one kind.

    numbers : (n,) the kind of each sample
    alike : (kinds, kinds) True for kinds that share a label; None: only a kind with itself, as with classes
    matrix : (n, k) of 0 and 1
    """

    numbers: NDArray[np.int64]
    alike: NDArray[np.bool_] | None
    matrix: csr_matrix

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""
        return int(self.numbers.max()) + 1


class SupervisedMixin:
    """Mixin of coders that learn from labels; it comes before ``Coder`` among the bases.

    Attributes
    ----------
    classes_ : (n_classes,)
    """

    classes_: NDArray[Any]

    def _labelled(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Return X, checked, and the class number of every sample; set ``classes_``."""
        classes = None
        if are_label_sets(y):
            kinds = self._label_kinds(X, y)[1]
            if kinds.alike is not None:
                raise ValueError(f"Y gives several labels per sample: {type(self).__name__} expects one label each")
            classes, y = self.classes_, kinds.numbers
        elif is_list_of_objects(y):  # numpy would make a matrix or text of it
            classes, y = encode_labels(y)
        samples, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        found, numbers = encode_labels(y)
        classes = found if classes is None else classes
        if len(classes) < 2:
            raise ValueError(f"y has one class ({classes.tolist()[0]!r}); learning needs at least two")
        check_varies(samples)
        self.classes_ = classes
        return samples, numbers

    def _label_kinds(self, X: ArrayLike, y: Any) -> tuple[NDArray[np.floating], LabelKinds]:
        """Return X, checked, and the labels of samples with one label or several each; set ``classes_``."""
        if not are_label_sets(y):
            samples, numbers = self._labelled(X, y)
            ones = np.ones(len(numbers), dtype=np.uint8)
            matrix = csr_matrix((ones, numbers, np.arange(len(numbers) + 1)), (len(numbers), len(self.classes_)))
            return samples, LabelKinds(numbers, None, matrix)
        samples = validate_data(self, X, dtype=[np.float64, np.float32])
        classes, matrix = encode_label_sets(y)
        if matrix.shape[0] != len(samples):
            raise ValueError(f"Y has {matrix.shape[0]:,} rows: expected {len(samples):,}, one for each sample of X")
        empty, name = int((np.diff(matrix.indptr) == 0).sum()), type(self).__name__
        if empty:
            raise ValueError(f"Y has {empty:,} samples without a label: {name} expects at least one each")
        check_varies(samples)
        self.classes_ = classes
        alone = single_labels(matrix)
        if alone is not None:
            return samples, LabelKinds(alone, None, matrix)
        _, first, numbers = np.unique(matrix.toarray(), axis=0, return_index=True, return_inverse=True)
        rows = matrix[first].astype(np.float32)
        alike = (rows @ rows.T).toarray() > 0
        return samples, LabelKinds(numbers.ravel().astype(np.int64), alike, matrix)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        return tags


class PrefixMixin:
    """Mixin of coders whose bits do not depend on later ones; it comes before ``Coder`` among the bases."""

    _BY_BIT: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")  # arrays with one row for each bit
    n_bits_: int

    def truncate(self, n_bits: int) -> Self:
        """Return a coder of the first ``n_bits`` bits."""
        check_is_fitted(self)
        check_integer("n_bits", n_bits, 1, self.n_bits_)
        cut: dict[str, Any] = self._first_bits(n_bits)
        return self._cut(n_bits, cut)  # type: ignore[attr-defined]

    def _first_bits(self, n_bits: int) -> dict[str, Any]:
        return {name: getattr(self, name)[:n_bits] for name in self._BY_BIT}


def check_indices(coder: Any, name: str, shape: tuple[int, ...], below: int, least: int = 0) -> None:
    """Raise a ValueError unless an array is of integers from ``least`` to ``below`` - 1, of the expected shape."""
    array = getattr(coder, name)
    good = array.shape == shape and array.dtype.kind == "i"
    if not good or (array.size and not least <= array.min() <= array.max() < below):
        raise ValueError(f"{name} is {array.dtype} {array.shape}: expected integers below {below}, {shape}")
