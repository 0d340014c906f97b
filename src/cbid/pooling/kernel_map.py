"""Additive kernels as explicit features for linear models (Vedaldi and Zisserman, 2012).

A homogeneous kernel is k(x, y) = sqrt(x y) K(log y - log x). Its signature K(w) is sampled in frequency: with the
spectrum s and the interval L,

    K(w) ~ L s(0) + 2 sum_(j=1..n-1) L s(j L) cos(j L w),

so each value x becomes sqrt(x L s(0)) and, for each j, sqrt(2 x L s(j L)) times cos(j L log x) and sin(j L log x).
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid.params import check_params, choice, estimator, integer, param, positive

__all__ = ["AdditiveKernelMap"]

# The spectra of K(w) = 1 / cosh(w / 2) and K(w) = exp(-|w| / 2)
_SPECTRA: dict[str, Callable[[float], float]] = {
    "chi2": lambda frequency: float(1 / np.cosh(np.pi * frequency)),
    "intersection": lambda frequency: 2 / (np.pi * (1 + 4 * frequency**2)),
}
# For 1, 2, ... steps, the intervals with the smallest worst error over x, y in 0..1
_INTERVALS = {
    "chi2": (0.896, 0.625, 0.511, 0.447, 0.406),
    "intersection": (1.302, 1.011, 0.895, 0.827, 0.781),
}


@estimator
class AdditiveKernelMap(TransformerMixin, BaseEstimator):
    """Features whose inner products approximate the chi-squared or the intersection kernel of non-negative vectors.

    With "chi2" and the same interval, the values equal ``sklearn.kernel_approximation.AdditiveChi2Sampler``.

    Parameters
    ----------
    kernel : {"chi2", "intersection"}, default="chi2"
        sum 2 x y / (x + y), or sum min(x, y).
    sample_steps : int, default=2
        Number n of frequencies; a value becomes 2 n - 1 features. For 1, 2 and 3 steps the worst errors of a pair of
        values in 0..1 are 0.11, 0.03 and 0.013 with chi2, and 0.17, 0.10 and 0.08 with intersection.
    sample_interval : float > 0 or None, default=None
        Interval between frequencies. None: the one with the smallest error, known for up to 5 steps.

    Attributes
    ----------
    n_features_in_ : int

    Examples
    --------
    >>> x, y = [[0.2, 0.8]], [[0.5, 0.5]]
    >>> features = AdditiveKernelMap(kernel="chi2", sample_steps=3)
    >>> (features.transform(x) @ features.transform(y).T).round(2)  # 0.2 / 0.7 + 0.8 / 1.3 = 0.90
    array([[0.9]])
    """

    kernel: str = param("chi2", choice(*_SPECTRA))
    sample_steps: int = param(2, integer(1))
    sample_interval: float | None = param(None, positive)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check the settings and X; nothing is learned."""
        self._interval()
        self._checked(X, reset=True)
        return self

    def transform(self, X: Any) -> Any:
        """Return features (n, d (2 sample_steps - 1)), grouped by kind, sparse if X is sparse."""
        X = self._checked(X, reset=False)
        if not issparse(X):
            return np.hstack(self._features(X))
        X = csr_array(X)
        X.eliminate_zeros()
        return hstack(
            [csr_array((values, X.indices, X.indptr), shape=X.shape) for values in self._features(X.data)],
            format="csr",
        )

    def _features(self, x: NDArray[np.floating]) -> list[NDArray[np.floating]]:
        """Return the features of every value, each of the shape of x."""
        L, spectrum = self._interval(), _SPECTRA[self.kernel]
        features = [np.sqrt(x * x.dtype.type(L * spectrum(0)))]
        logs = np.log(np.where(x > 0, x, 1))  # the features of 0 are 0 in any case
        for j in range(1, self.sample_steps):
            size = np.sqrt(x * x.dtype.type(2 * L * spectrum(j * L)))
            angle = logs * x.dtype.type(j * L)
            features += [size * np.cos(angle), size * np.sin(angle)]
        return features

    def _interval(self) -> float:
        check_params(self)
        if self.sample_interval is not None:
            return float(self.sample_interval)
        known = _INTERVALS[self.kernel]
        if self.sample_steps > len(known):
            raise ValueError(
                f"sample_interval=None with sample_steps={self.sample_steps}: expected a number, or at most "
                f"{len(known)} steps"
            )
        return known[self.sample_steps - 1]

    def _checked(self, X: Any, reset: bool) -> Any:
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_non_negative=True
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names such as ``x0_sqrt``, ``x0_cos1`` and ``x0_sin1``, in the order of the features."""
        check_is_fitted(self, "n_features_in_")
        names = getattr(self, "feature_names_in_", None) if input_features is None else np.asarray(input_features)
        if names is None:
            names = np.array([f"x{i}" for i in range(self.n_features_in_)])
        kinds = ["sqrt", *(f"{part}{j}" for j in range(1, self.sample_steps) for part in ("cos", "sin"))]
        return np.array([f"{name}_{kind}" for kind in kinds for name in names], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
