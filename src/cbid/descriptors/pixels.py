"""Raw pixels as a descriptor."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_pair
from cbid.data.images import Size, as_gray, as_rgb, resize, to_float
from cbid.descriptors.base import Descriptor
from cbid.params import choice, estimator, flag, param

NORMS = (None, "contrast", "l2")


@estimator
class RawPixels(Descriptor):
    """The values of the pixels, row by row, in 0..1.

    Parameters
    ----------
    size : (height, width) or None
        The image is resized to this first; None keeps its size.
    color : bool
        Whether to use red, green and blue of each pixel instead of its gray value.
    norm : {None, "contrast", "l2"}
        "contrast": mean 0 and standard deviation 1. "l2": length 1. A constant image, or one of zeros, gives zeros.
    n_jobs, verbose
        As in ``Descriptor``.

    >>> RawPixels(size=(2, 2)).transform([np.eye(4)])
    array([[0.5, 0. , 0. , 0.5]], dtype=float32)
    """

    _threads = True

    size: Size | None = param(None, check_pair)
    color: bool = param(False, flag)
    norm: str | None = param(None, choice(*NORMS))

    def describe(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return the pixels row by row."""
        image = to_float(image)
        image = as_rgb(image) if self.color else as_gray(image)
        if self.size is not None:
            image = resize(image, self.size)
        values = image.ravel()
        return values.copy() if self.norm is None else normalise(values, self.norm)


def normalise(values: NDArray[np.float32], norm: str) -> NDArray[np.float32]:
    """Scale values (d,) to mean 0 and deviation 1 ("contrast") or length 1 ("l2"); constant input gives zeros."""
    exact = values.astype(np.float64)
    if norm == "contrast":
        exact -= exact.mean()
        scale = exact.std()
        # Smaller deviations are rounding errors of float32.
        flat = scale < 1e-6
    else:
        scale = np.linalg.norm(exact)
        flat = scale == 0
    return np.zeros_like(values) if flat else (exact / scale).astype(np.float32)
