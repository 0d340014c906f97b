"""The window of a detector: its size, its cells and blocks, and the HOG vector of what is seen in it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_choice, check_integer
from cbid.data.images import check_image
from cbid.descriptors.gradients import VOTING, check_orientations
from cbid.descriptors.hog import HOG, NORMS
from cbid.descriptors.sizes import check_size, resize

__all__ = ["WindowLayout"]


@dataclass(frozen=True)
class WindowLayout:
    """Window of (height, width) pixels in square cells; the other values are those of ``HOG``."""

    window: tuple[int, int] = (128, 64)
    cell: int = 8
    block: int = 2
    orientations: int = 9
    signed: bool = False
    voting: str = "trilinear"
    norm: str = "l2-hys"
    sqrt: bool = False

    def check(self) -> None:
        """A ValueError names the first setting that is not accepted."""
        check_integer("cell", self.cell, 1)
        check_integer("block", self.block, 1)
        check_size("window", self.window, self.cell * self.block)
        for side in self.window:
            if side % self.cell:
                raise ValueError(f"window={self.window!r} is not accepted; give multiples of cell={self.cell}")
        check_orientations(self.orientations, self.signed)
        check_choice("voting", self.voting, VOTING)
        check_choice("norm", self.norm, NORMS)
        check_choice("sqrt", self.sqrt, (True, False))

    @property
    def margin(self) -> int:
        """Pixels around a window that reach into its histograms: votes shared by cells come from half a cell away."""
        return self.cell // 2 + 1 if self.voting == "trilinear" else 1

    @property
    def blocks(self) -> tuple[int, int]:
        """Rows and columns of blocks in a window."""
        height, width = (side // self.cell - self.block + 1 for side in self.window)
        return height, width

    @property
    def block_values(self) -> int:
        return self.block**2 * self.orientations

    @property
    def n_features(self) -> int:
        return self.blocks[0] * self.blocks[1] * self.block_values

    def descriptor(self) -> HOG:
        """The descriptor of a window that was cut out with ``margin`` pixels around it."""
        return HOG(
            cell=self.cell,
            block=self.block,
            orientations=self.orientations,
            signed=self.signed,
            voting=self.voting,
            norm=self.norm,
            sqrt=self.sqrt,
            margin=self.margin,
        )

    def describe(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """HOG vector of a training window: a picture of the window, or of the window with equal borders around it.

        A larger picture gives its middle, so that the pixels around lend their votes. Where there are none, the
        border is continued by its last pixels. A picture of another shape is brought to the window's size first.
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
    """The image with its outermost pixels repeated ``border`` times on every side."""
    return np.pad(image, ((border, border), (border, border)) + ((0, 0),) * (image.ndim - 2), mode="edge")
