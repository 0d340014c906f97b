"""The window of a detector: its cells and blocks, and the HOG vectors of training windows."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer, check_pair
from cbid.data.images import check_image, opencv, resize
from cbid.descriptors.hog import HOG


@dataclass(frozen=True)
class WindowLayout:
    """A window of (height, width) pixels in square cells; the other settings are those of ``HOG``."""

    window: tuple[int, int] = (128, 64)
    cell: int = 8
    block: int = 2
    orientations: int = 9
    signed: bool = False
    voting: str = "trilinear"
    norm: str = "l2-hys"
    sqrt: bool = False

    def check(self) -> None:
        """Raise a ValueError for the first invalid setting."""
        check_integer("cell", self.cell, 1)
        self.descriptor().fit(None)
        check_pair("window", self.window, self.cell * self.block)
        for side in self.window:
            if side % self.cell:
                raise ValueError(f"window={self.window!r}: expected multiples of cell={self.cell}")

    @property
    def margin(self) -> int:
        """Pixels around a window that contribute to its histograms: trilinear votes come from half a cell away."""
        return self.cell // 2 + 1 if self.voting == "trilinear" else 1

    @property
    def blocks(self) -> tuple[int, int]:
        """Rows and columns of blocks in a window."""
        height, width = (side // self.cell - self.block + 1 for side in self.window)
        return height, width

    @property
    def block_values(self) -> int:
        """Values of one block."""
        return self.block**2 * self.orientations

    @property
    def n_features(self) -> int:
        """Values of the HOG vector of a window."""
        return self.blocks[0] * self.blocks[1] * self.block_values

    def descriptor(self) -> HOG:
        """Return the descriptor of a window that is cut out with ``margin`` pixels around it."""
        shared = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "window"}
        return HOG(**shared, margin=self.margin)

    def describe(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return the HOG vector of a training window, given as a picture with equal borders on all sides, or none.

        The pixels of the border contribute votes; missing ones repeat the edge. A picture of another shape is resized
        to the window first.
        """
        image = check_image(image)
        extra = [side - wanted for side, wanted in zip(image.shape, self.window)]
        if extra[0] != extra[1] or extra[0] < 0 or extra[0] % 2:
            image, extra = resize(image, self.window), [0, 0]
        border = extra[0] // 2
        if border > self.margin:
            cut = border - self.margin
            image = image[cut:-cut, cut:-cut]
        elif border < self.margin:
            image = with_border(image, self.margin - border)
        return self.descriptor().describe(image)


def with_border(image: NDArray[Any], border: int) -> NDArray[Any]:
    """Return the image with its edge repeated ``border`` times on every side."""
    return np.pad(image, ((border, border), (border, border)) + ((0, 0),) * (image.ndim - 2), mode="edge")


def jittered_windows(
    layout: WindowLayout, image: NDArray[Any], n: int, rng: np.random.Generator, *, shift: float, octaves: float
) -> NDArray[np.float32]:
    """Return HOG vectors (n, d) of a training picture, each time shifted and resized at random, as a scan sees it.

    The shift is at most ``shift`` pixels of the window along each axis; the size changes by 2^u with u drawn from
    -octaves to octaves. Outside the picture its edge is repeated.
    """
    cv2 = opencv()
    image = np.ascontiguousarray(check_image(image))
    height, width = (side + 2 * layout.margin for side in layout.window)
    # A picture with equal borders shows the window in its middle; any other picture is the window itself.
    extra = [side - wanted for side, wanted in zip(image.shape, layout.window)]
    is_window = extra[0] == extra[1] and extra[0] >= 0
    ratios = [1.0, 1.0] if is_window else [side / wanted for side, wanted in zip(image.shape, layout.window)]
    values = np.empty((n, layout.n_features), np.float32)
    for k in range(n):
        size = 2 ** rng.uniform(-octaves, octaves)
        moved = rng.uniform(-shift, shift, 2)
        zoom = [size * ratio for ratio in ratios]
        # Pixel p of the window is pixel zoom (p - centre of the window + moved) + centre of the picture.
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
