"""Training windows as a scan will see them: an object is never met exactly where and as large as it was annotated."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.data.images import check_image
from cbid.data.opencv import opencv
from cbid.detection.layout import WindowLayout

__all__ = ["jittered_windows"]


def jittered_windows(
    layout: WindowLayout, image: NDArray[Any], n: int, rng: np.random.Generator, *, shift: float, octaves: float
) -> NDArray[np.float32]:
    """HOG vectors (n, d) of a training picture, each time moved and resized at random.

    shift: most pixels of the window that it is moved by, along each axis. octaves: it is resized by 2^u, u at random
    up to as much to either side. Outside the picture its last pixels are repeated.
    """
    cv2 = opencv()
    image = np.ascontiguousarray(check_image(image))
    height, width = (side + 2 * layout.margin for side in layout.window)
    # A picture with borders shows the window in its middle, at its size; any other one is the window itself.
    extra = [side - wanted for side, wanted in zip(image.shape, layout.window)]
    is_window = extra[0] == extra[1] and extra[0] >= 0
    ratios = [1.0, 1.0] if is_window else [side / wanted for side, wanted in zip(image.shape, layout.window)]
    values = np.empty((n, layout.n_features), np.float32)
    for k in range(n):
        size = 2 ** rng.uniform(-octaves, octaves)
        moved = rng.uniform(-shift, shift, 2)
        zoom = [size * ratio for ratio in ratios]
        # Pixel p of the window is pixel zoom (p - its middle + moved) + the middle of the picture.
        corner = [
            z * (m - (side - 1) / 2) + (whole - 1) / 2
            for z, m, side, whole in zip(zoom, moved, (height, width), image.shape)
        ]
        matrix = np.array([[zoom[1], 0, corner[1]], [0, zoom[0], corner[0]]])
        cut = cv2.warpAffine(
            image,
            matrix,
            (width, height),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        values[k] = layout.descriptor().describe(np.asarray(cut))
    return values
