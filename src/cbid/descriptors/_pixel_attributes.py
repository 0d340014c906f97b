"""What a pixel shows, to match kernels: a gradient, a shape, or a colour.

Each function gives the strength (h, w) with which a pixel counts, and its attribute.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.data.opencv import opencv

__all__ = ["all_shapes", "colours", "gradients", "shapes"]

Image = NDArray[np.float32]
BLUR = 0.8  # deviation in pixels before gradients are taken
# The eight neighbours of a pixel, around it.
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


def gradients(gray: Image) -> tuple[Image, Image]:
    """Length of the gradient, and its direction as cosine and sine, (h, w, 2); y upwards."""
    cv2 = opencv()
    blurred = np.asarray(cv2.GaussianBlur(gray, (0, 0), BLUR), np.float32)
    around = np.pad(blurred, 1, mode="edge")
    differences = np.stack(
        [around[1:-1, 2:] - around[1:-1, :-2], around[:-2, 1:-1] - around[2:, 1:-1]],
        axis=2,
    )
    lengths = np.sqrt((differences**2).sum(2))
    return lengths, differences / np.maximum(lengths, np.finfo(np.float32).tiny)[:, :, None]


def shapes(gray: Image) -> tuple[Image, NDArray[np.uint8]]:
    """Deviation of the 3 x 3 pixels around, and which of the eight neighbours are brighter, as a byte (h, w)."""
    h, w = gray.shape
    around = np.pad(gray, 1, mode="edge")
    moved = np.stack([around[1 + y : 1 + y + h, 1 + x : 1 + x + w] for y, x in NEIGHBOURS])
    bytes_ = np.packbits(moved > gray, axis=0)[0]
    return np.concatenate([moved, gray[None]]).std(axis=0), bytes_


def all_shapes() -> NDArray[np.float32]:
    """The eight comparisons (256, 8) of each byte of ``shapes``, 1 where the neighbour is brighter."""
    return np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)


def colours(rgb: Image) -> tuple[Image, Image]:
    """Every pixel counts alike; red, green and blue (h, w, 3)."""
    return np.ones(rgb.shape[:2], np.float32), rgb
