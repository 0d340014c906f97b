"""From images to bags of patches, and from patches to the rows that a classifier stores."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from cbid.bags import Bags, check_bags, positions
from cbid.learning.neighbourhoods import of_unit_size

__all__ = ["Images", "PatchRows", "drop_empty", "is_fitted", "named_bags", "takes_bags"]

Images = Bags | Sequence[Any]


def named_bags(X: Images, descriptor: Any, n_features: int | None, n_jobs: int | None) -> tuple[Bags, list[str]]:
    """Return X as checked bags, described first if there is a descriptor, and the names of the images."""
    if descriptor is None or isinstance(X, Bags):
        bags = check_bags(X, n_features=n_features)
        return bags, [f"image {i}" for i in range(len(bags))]
    from cbid.descriptors import describe

    described = describe(X, descriptor, n_jobs=n_jobs)
    return check_bags(described.values, n_features=n_features), list(described.names)


def drop_empty(
    bags: Bags, numbers: NDArray[np.int64], ids: list[Hashable], names: list[str]
) -> tuple[Bags, NDArray[np.int64], list[Hashable]]:
    """Drop images without descriptors and warn about them."""
    empty = np.flatnonzero(bags.sizes == 0)
    if not len(empty):
        return bags, numbers, ids
    shown = ", ".join(names[i] for i in empty[:5]) + (", ..." if len(empty) > 5 else "")
    warnings.warn(f"images without descriptors are skipped: {shown}", stacklevel=4)
    kept = np.flatnonzero(bags.sizes > 0)
    return bags.take(kept), numbers[kept], [ids[i] for i in kept]


@dataclass(frozen=True)
class PatchRows:
    """The map from bags to rows: descriptors float32, or codes uint8 with a coder.

    Attributes
    ----------
    location
        Factor of x / width and y / height, which are appended to the descriptor; 0 appends nothing.
    mean, components : (d,), (n, d) or None
        The principal axes that descriptors are projected to.
    coder
        Fitted, or None.
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
        """Fit on the bags of images with labels (n,).

        A coder that takes bags is fitted on all of them, everything else on a sample of ``max_patches`` patches. A
        fitted coder is used unchanged.
        """
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
                f"n_components={n_components}: expected at most {min(X.shape)} for {len(X)} patches of {X.shape[1]} "
                "values"
            )
        # Centred, to keep the digits of float32.
        pca = PCA(n_components, svd_solver="covariance_eigh").fit(of_unit_size(X))
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls(scale, mean, pca.components_.astype(np.float32))

    def __call__(self, bags: Bags) -> NDArray[Any]:
        """Return the rows of all images, concatenated."""
        if self.coder is not None:
            codes = self.coder.encode(bags if takes_bags(self.coder) else _with_location(bags, self.location))
            return np.asarray(codes)
        X = _with_location(bags, self.location)
        if self.mean is None or self.components is None:
            return X
        return (X - self.mean) @ self.components.T


def takes_bags(coder: Any) -> bool:
    """Return whether a coder takes bags, not an array of descriptors."""
    return not get_tags(coder).input_tags.two_d_array


def is_fitted(estimator: Any) -> bool:
    """Return whether an estimator is fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _with_location(bags: Bags, scale: float) -> NDArray[np.float32]:
    values = np.ascontiguousarray(bags.values, dtype=np.float32)
    return np.hstack([values, np.float32(scale) * positions(bags)]) if scale else values
