"""What is kept of a patch: its descriptor, with its place, in fewer dimensions, or as a code."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from cbid.bags import Bags, positions
from cbid.learning.neighbourhoods import of_unit_size

__all__ = ["PatchRows", "is_fitted", "takes_bags"]


@dataclass(frozen=True)
class PatchRows:
    """Rows from bags: descriptors float32, or codes uint8 where there is a coder.

    location: what x over the width and y over the height are multiplied by before they join the descriptor; 0: none.
    mean, components: (d,), (n, d) of the principal axes that descriptors are projected to, or None.
    coder: fitted, or None.
    """

    location: float = 0.0
    mean: NDArray[np.float32] | None = None
    components: NDArray[np.float32] | None = None
    coder: Any = None

    @classmethod
    def fit(
        cls,
        bags: Bags,
        labels: NDArray[Any],
        *,
        location: float | None,
        n_components: int | None,
        coder: Any,
        max_patches: int,
        rng: np.random.Generator,
    ) -> Self:
        """Learn from the bags of images with labels (n,): a coder of bags from all of them, what else there is to
        learn from ``max_patches`` of their patches. A coder that is fitted stays as it is."""
        sample = bags.sample(max(1, max_patches // len(bags)), rng)
        scale = 0.0
        if location:
            squares = np.einsum("ij,ij->i", sample.values, sample.values, dtype=np.float64)
            scale = float(location * np.sqrt(squares.mean()))
        if coder is not None and not is_fitted(coder):
            coder = clone(coder)
            if takes_bags(coder):
                coder.fit(bags, labels)
            else:
                coder.fit(_with_location(sample, scale), labels[sample.owners])
        if n_components is None:
            return cls(scale, coder=coder)
        X = _with_location(sample, scale)
        if n_components > min(X.shape):
            raise ValueError(
                f"n_components={n_components}: {len(X)} patches of {X.shape[1]} values have at most {min(X.shape)}"
            )
        # Around the mean, where float32 has its digits.
        pca = PCA(n_components, svd_solver="covariance_eigh").fit(of_unit_size(X))
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls(scale, mean, pca.components_.astype(np.float32))

    def __call__(self, bags: Bags) -> NDArray[Any]:
        """The rows of all images, one after the other."""
        if self.coder is not None:
            codes = self.coder.encode(bags if takes_bags(self.coder) else _with_location(bags, self.location))
            return np.asarray(codes)
        X = _with_location(bags, self.location)
        if self.mean is None or self.components is None:
            return X
        return (X - self.mean) @ self.components.T


def takes_bags(coder: Any) -> bool:
    """Whether a coder learns from bags, not from an array of descriptors."""
    return not get_tags(coder).input_tags.two_d_array


def is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _with_location(bags: Bags, scale: float) -> NDArray[np.float32]:
    values = np.ascontiguousarray(bags.values, dtype=np.float32)
    return np.hstack([values, np.float32(scale) * positions(bags)]) if scale else values
