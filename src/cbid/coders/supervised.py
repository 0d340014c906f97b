"""What all supervised coders share: labels of any kind, at least two classes, a target that is required."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from cbid.labels import encode_labels, is_list_of_objects
from cbid.learning.variation import check_varies

__all__ = ["SupervisedMixin"]


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
