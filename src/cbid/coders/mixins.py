"""Parts that many coders share: labels, prefixes, and checks of arrays from model files."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_integer
from cbid.labels import encode_labels, is_list_of_objects
from cbid.learning.scaling import check_varies

__all__ = ["PrefixMixin", "SupervisedMixin", "check_arrays", "check_indices"]


class SupervisedMixin:
    """Stands left of ``Coder`` among the bases of a coder that learns from labels.

    Attributes
    ----------
    classes_ : (n_classes,)
    """

    classes_: NDArray[Any]

    def _labelled(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """X, checked, and the class number of every sample; sets ``classes_``."""
        classes = None
        if is_list_of_objects(y):  # which numpy would take for a matrix, or turn into text
            classes, y = encode_labels(y)
        samples, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        found, numbers = encode_labels(y)
        classes = found if classes is None else classes
        if len(classes) < 2:
            raise ValueError(f"y has one class ({classes.tolist()[0]!r}); learning needs at least two")
        check_varies(samples)
        self.classes_ = classes
        return samples, numbers

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        return tags


class PrefixMixin:
    """Stands left of ``Coder`` among the bases of a coder whose bits do not depend on those after them."""

    _BY_BIT: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")  # arrays with one row for each bit
    n_bits_: int

    def truncate(self, n_bits: int) -> Self:
        """A coder of the first ``n_bits`` bits."""
        check_is_fitted(self)
        check_integer("n_bits", n_bits, 1, self.n_bits_)
        cut: dict[str, Any] = self._first_bits(n_bits)
        return self._cut(n_bits, cut)  # type: ignore[attr-defined]

    def _first_bits(self, n_bits: int) -> dict[str, Any]:
        return {name: getattr(self, name)[:n_bits] for name in self._BY_BIT}


def check_arrays(coder: Any, expected: dict[str, tuple[int, ...]]) -> None:
    """Raise a ValueError unless every array is real and of the expected shape."""
    for name, shape in expected.items():
        array = getattr(coder, name)
        if array.shape != shape or array.dtype.kind != "f":
            raise ValueError(f"{name} is {array.dtype} {array.shape}; it must be real, {shape}")


def check_indices(coder: Any, name: str, shape: tuple[int, ...], below: int, least: int = 0) -> None:
    """Raise a ValueError unless an array is of integers from ``least`` to ``below`` - 1, of the expected shape."""
    array = getattr(coder, name)
    good = array.shape == shape and array.dtype.kind == "i"
    if not good or (array.size and not least <= array.min() <= array.max() < below):
        raise ValueError(f"{name} is {array.dtype} {array.shape}; it must be integers below {below}, {shape}")
