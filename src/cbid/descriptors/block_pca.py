"""PCA shared by the blocks of a descriptor."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.checks import check_integer
from cbid.params import check_params, estimator, integer, param

__all__ = ["BlockPCA"]


@estimator
class BlockPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Project all blocks of a vector on the same principal components, fitted to all blocks of all samples.

    Parameters
    ----------
    n_components : int
        Components kept of each block.
    n_blocks : int
        Number of equal blocks of a vector.
    n_kept : int
        Number of values at the end of each block that are not projected.
    random_state : int
        Seed, used if PCA uses random projections.

    Attributes
    ----------
    pca_ : PCA
        Fitted on (n n_blocks, d / n_blocks - n_kept) values.
    """

    n_components: int = 40
    n_blocks: int = param(1, integer(1))
    n_kept: int = param(0, integer(0))
    random_state: int = 0

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit the components; y is ignored."""
        check_params(self)
        checked: NDArray[Any] = validate_data(self, X, dtype=[np.float64, np.float32])
        width = checked.shape[1] // self.n_blocks - self.n_kept
        if checked.shape[1] % self.n_blocks or width < 1:
            raise ValueError(
                f"n_blocks={self.n_blocks}, n_kept={self.n_kept}: expected equal blocks of {checked.shape[1]} values"
            )
        check_integer("n_components", self.n_components, 1, min(width, len(checked) * self.n_blocks))
        blocks, _ = self._cut(checked)
        self.pca_ = PCA(self.n_components, random_state=self.random_state).fit(blocks)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return values (n, n_blocks (n_components + n_kept)), block by block."""
        check_is_fitted(self)
        blocks, kept = self._cut(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))
        rows = np.hstack([self.pca_.transform(blocks), kept])
        return np.asarray(rows.reshape(-1, self._n_features_out))

    def _cut(self, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        rows = X.reshape(len(X) * self.n_blocks, -1)
        cut = rows.shape[1] - self.n_kept
        return rows[:, :cut], rows[:, cut:]

    @property
    def _n_features_out(self) -> int:
        return self.n_blocks * (self.n_components + self.n_kept)
