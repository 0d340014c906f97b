"""What every descriptor is: a stateless scikit-learn transformer from images to float32 values."""

import hashlib
import json
import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from cbid.bags import Bags
from cbid.data.images import ImageError, read_image
from cbid.progress import image_progress

__all__ = ["Descriptor", "LocalDescriptor"]

Image = NDArray[Any]
_CHUNK = 64  # images handed to a worker at a time


class _Describer(TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Over images given as arrays ((h, w) gray or (h, w, 3) RGB, uint8 or floats in 0..1) or as paths."""

    # Raised when the values change for the same settings, so that stored ones are not taken for new ones.
    version: ClassVar[int] = 1
    # Threads share the work when the library underneath lets go of Python's lock; processes otherwise.
    _threads: ClassVar[bool] = False
    # What does not change the values.
    _NOT_SETTINGS: ClassVar[frozenset[str]] = frozenset({"n_jobs", "verbose"})

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the settings; nothing is learned from X."""
        self._check_params()
        return self

    @abstractmethod
    def _check_params(self) -> None:
        """Raise a ValueError that names a setting that is not accepted."""

    def settings(self) -> dict[str, Any]:
        """What the values depend on besides the image, as JSON values."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in self._NOT_SETTINGS}
        return {"descriptor": type(self).__name__, "version": self.version, **params}

    def fingerprint(self) -> str:
        """A digest of ``settings``: equal only for equal values."""
        return hashlib.blake2b(json.dumps(self.settings(), sort_keys=True).encode(), digest_size=16).hexdigest()

    def _describe_all(self, X: Iterable[Any]) -> list[Any]:
        self._check_params()
        images = X if isinstance(X, (Sequence, np.ndarray)) else list(X)
        if isinstance(images, (str, os.PathLike)):
            raise ValueError(f"X={images!r} is one path; give a sequence of images or paths")
        chunks = [images[start : start + _CHUNK] for start in range(0, len(images), _CHUNK)]
        if not chunks:
            raise ValueError("X holds no images; give at least one")
        n_jobs = min(effective_n_jobs(getattr(self, "n_jobs", None)), len(chunks))
        prefer = "threads" if self._threads else "processes"
        parts = Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator")(
            delayed(_describe_chunk)(self, chunk, start * _CHUNK) for start, chunk in enumerate(chunks)
        )
        results = []
        with image_progress(len(images), type(self).__name__, shown=bool(getattr(self, "verbose", 0))) as progress:
            for part in parts:
                results.extend(part)
                progress(len(part))
        return results

    @abstractmethod
    def describe(self, image: Image) -> Any:
        """The values of one image."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True


class Descriptor(_Describer):
    """One vector for one image."""

    def transform(self, X: Iterable[Any]) -> NDArray[np.float32]:
        """Values (n, d) float32 of images given as arrays or paths, in their order."""
        rows = self._describe_all(X)
        widths = {len(row) for row in rows}
        if len(widths) > 1:
            raise ValueError(f"images of different sizes gave {sorted(widths)} values; set a size to bring them to")
        return np.stack(rows)

    @abstractmethod
    def describe(self, image: Image) -> NDArray[np.float32]:
        """The values (d,) float32 of one image."""


class LocalDescriptor(_Describer):
    """Many rows for one image."""

    def transform(self, X: Iterable[Any]) -> Bags:
        """The bags of images given as arrays or paths, in their order."""
        found = self._describe_all(X)
        values, frames, shapes = (list(part) for part in zip(*found))
        return Bags.from_list(values, frames, shapes)

    @abstractmethod
    def describe(self, image: Image) -> tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, int]]:
        """Values (m, d), frames (m, 3) as x, y, side, and the height and width of the image as described."""


def _describe_chunk(descriptor: _Describer, chunk: Sequence[Any], start: int) -> list[Any]:
    results = []
    for i, item in enumerate(chunk, start):
        image = read_image(item) if isinstance(item, (str, os.PathLike)) else np.asarray(item)
        try:
            results.append(descriptor.describe(image))
        except ImageError:
            raise
        except ValueError as error:
            name = os.fspath(item) if isinstance(item, (str, os.PathLike)) else f"image {i}"
            raise ImageError(f"{name}: {error}") from error
    return results
