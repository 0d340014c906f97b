"""Base classes of descriptors: stateless scikit-learn transformers from images to float32 values."""

import json
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from cbid.bags import Bags
from cbid.checks import check_pair
from cbid.data.image_sets import as_image_set
from cbid.data.images import Size, check_image, check_least, resized_float
from cbid.descriptors.describing import describe
from cbid.params import check_params, estimator
from cbid.storage.digests import digest_text

Image = NDArray[Any]


@estimator
class _Describer(TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Transformer of images given as paths or arrays: (h, w) gray or (h, w, 3) RGB, uint8 or floats in 0..1."""

    n_jobs: int | None = None
    verbose: int = 0
    # Increase it if the values for the same settings change by more than rounding: cached values are then not used.
    version: ClassVar[int] = 1
    # Whether threads share the work (the code releases the GIL); else processes do.
    _threads: ClassVar[bool] = False
    # Parameters that do not change the values.
    _NOT_SETTINGS: ClassVar[frozenset[str]] = frozenset({"n_jobs", "verbose"})

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters; nothing is learned from X."""
        self._check_params()
        return self

    def _check_params(self) -> None:
        """Raise a ValueError that names an invalid parameter."""
        check_params(self)

    def settings(self) -> dict[str, Any]:
        """Return the parameters that the values depend on, as JSON values."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in self._NOT_SETTINGS}
        return {"descriptor": type(self).__name__, "version": self.version, **params}

    def fingerprint(self) -> str:
        """Return a digest of ``settings``, the key of cached values."""
        text = json.dumps(self.settings(), sort_keys=True, default=np.generic.item)  # numpy scalars as Python numbers
        return digest_text(text)

    def _describe_all(self, X: Iterable[Any]) -> Any:
        return describe(as_image_set(X), self, n_jobs=self.n_jobs, verbose=self.verbose).values

    @abstractmethod
    def describe(self, image: Image) -> Any:
        """Return the values of one image."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True


class Descriptor(_Describer):
    """Base class of descriptors with one vector per image.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads or processes; None means 1, -1 one per core.
    verbose : int, default=0
        1 shows progress.
    """

    def transform(self, X: Iterable[Any]) -> NDArray[np.float32]:
        """Return values (n, d) float32 of images given as arrays or paths."""
        values: NDArray[np.float32] = self._describe_all(X)
        return values

    @abstractmethod
    def describe(self, image: Image) -> NDArray[np.float32]:
        """Return the values (d,) float32 of one image."""


@estimator
class SizedDescriptor(Descriptor):
    """Base class of descriptors of images with a least side, which can be resized first.

    Parameters
    ----------
    size : (height, width) or None, default=None
        The image is resized to this first; None keeps its size.
    """

    _threads: ClassVar[bool] = True

    size: Size | None = None

    @abstractmethod
    def _least(self) -> int:
        """Return the least height and width of an image."""

    def _check_params(self) -> None:
        super()._check_params()
        if self.size is not None:
            check_pair("size", self.size, self._least())

    def _sized(self, image: Image) -> Image:
        """Return the checked image at its size."""
        image = check_image(image)
        if self.size is not None and image.shape[:2] != tuple(self.size):
            image = resized_float(image, self.size)
        check_least(image, self._least(), self._least())
        return image


class LocalDescriptor(_Describer):
    """Base class of descriptors with many rows per image; parameters as in ``Descriptor``."""

    def transform(self, X: Iterable[Any]) -> Bags:
        """Return the bags of images given as arrays or paths."""
        bags: Bags = self._describe_all(X)
        return bags

    @abstractmethod
    def describe(self, image: Image) -> tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, int]]:
        """Return values (m, d), frames (m, 3) of x, y and side, and height and width of the image as described."""
