"""Dense SIFT: upright SIFT descriptors on a grid, at several scales."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.data.images import as_gray, opencv, resize_longest, to_float
from cbid.descriptors._grid import Grid, check_sides, frames_of, grids, pool
from cbid.descriptors._oriented import orientation_maps
from cbid.descriptors.base import Image, LocalDescriptor
from cbid.params import choice, estimator, flag, integer, param, positive, real

BINS = 4  # along each side of a patch
ORIENTATIONS = 8
REACH = (BINS + 1) / 2  # the last bin's triangle ends this many bins from the centre
CAMERA_BLUR = 0.5  # the assumed blur of the input in pixels, as in Lowe's SIFT
CLIP = 0.2
DIMENSIONS = BINS * BINS * ORIENTATIONS


@estimator
class DenseSIFT(LocalDescriptor):
    """Lowe's SIFT descriptor without rotation, 128 values of unit length, at every point of a grid.

    Each patch has 4 x 4 bins of 8 orientations, with bilinear shares between bins and a Gaussian window; values
    are clipped at 0.2. Each scale uses the image blurred in proportion to its patch. The values equal
    OpenCV's SIFT at the same points, scale and blur, which are 512 times ours and rounded.

    Parameters
    ----------
    step : int
        Pixels between neighbouring points of the grid.
    sides : sequence of float
        Sides in pixels of the patches at each scale (four bins; bilinear shares reach half a bin further).
    longest : int or None
        Larger images are first shrunk to this longest side in pixels; None keeps their size.
    border : {"inside", "zero", "mirror"}
        The grid holds the points whose patch lies in the image ("inside"), or covers the whole image; beyond its
        edges there is then no gradient ("zero") or the image's mirror ("mirror").
    magnification : float or None
        Width of a bin over the deviation of the blur: 3 is Lowe's, 6 VLFeat's for dense grids; None does not blur.
    window : float or None
        Deviation of the Gaussian window over the patch, in bins; None means equal weights.
    root : bool
        RootSIFT (Arandjelovic and Zisserman, 2012): the square root of the values over their sum.
    low_contrast : {"keep", "zero", "drop"}
        Patches with less contrast than ``contrast`` are kept, set to zero, or dropped. A patch without any
        gradient is zero unless dropped.
    contrast : float
        The least length of the histogram over the weight of the window, in intensities from 0 to 1 a pixel.
    n_jobs, verbose
        As in ``LocalDescriptor``.
    """

    _threads: ClassVar[bool] = True

    step: int = param(2, integer(1))
    sides: Sequence[float] = param((16, 24, 32, 40), check_sides)
    longest: int | None = param(150, integer(1), or_none=True)
    border: str = param("inside", choice("inside", "zero", "mirror"))
    magnification: float | None = param(12.0, positive, or_none=True)
    window: float | None = param(2.0, positive, or_none=True)
    root: bool = param(False, flag)
    low_contrast: str = param("keep", choice("keep", "zero", "drop"))
    contrast: float = param(0.005, real(0))

    def settings(self) -> dict[str, Any]:
        """Return the settings, with the sides of the patches in pixels."""
        return {**super().settings(), "sides": [float(side) for side in self.sides]}

    def describe(self, image: Image) -> tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, int]]:
        """Return values (m, 128), frames (m, 3) of x, y and side, and height and width of the resized image."""
        gray = as_gray(to_float(image))
        if self.longest is not None:
            gray = resize_longest(gray, self.longest)
        scales = list(grids(gray.shape, self.sides, self.step, inside=self.border == "inside"))
        frames = frames_of(scales)
        values = np.empty((len(frames), DIMENSIONS), np.float32)
        enough = np.empty(len(frames), bool)  # contrast
        for grid in scales:
            if grid.size:
                enough[grid.rows] = self._one_scale(gray, grid, values[grid.rows])
        if self.low_contrast == "zero":
            values[~enough] = 0
        elif self.low_contrast == "drop":
            values, frames = values[enough], frames[enough]
        return values, frames, (gray.shape[0], gray.shape[1])

    def _one_scale(self, gray: NDArray[np.float32], grid: Grid, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Fill the values of the patches of one scale; return which have enough contrast, (m,)."""
        width = grid.side / BINS
        blurred, pad = self._blurred(gray, width)
        weights = bin_weights(width, self.window)
        pool(orientation_maps(blurred, ORIENTATIONS), grid.ys + pad, grid.xs + pad, weights, values)
        lengths = finish(values, CLIP, self.root)
        return np.asarray(lengths >= self.contrast * weights.sum(dtype=np.float64) ** 2)

    def _blurred(self, gray: NDArray[np.float32], width: float) -> tuple[NDArray[np.float32], int]:
        """Return the image blurred for bins of this width, and the number of pixels added around it."""
        cv2 = opencv()
        if self.magnification is not None:
            variance = (width / self.magnification) ** 2 - CAMERA_BLUR**2
            if variance > 0.01:  # a narrower blur has no effect
                gray = np.asarray(cv2.GaussianBlur(gray, (0, 0), math.sqrt(variance)), np.float32)
        if self.border != "mirror":
            return gray, 0
        pad = math.ceil(REACH * width) + 1
        return np.asarray(cv2.copyMakeBorder(gray, pad, pad, pad, pad, cv2.BORDER_REFLECT_101), np.float32), pad


def bin_weights(width: float, window: float | None) -> NDArray[np.float32]:
    """Return weights (4, 2 r + 1) of gradients at -r to r pixels from the centre, for the four bins of a line.

    The triangle of bilinear interpolation and the Gaussian window are separable, so the bins are separable sums.

    width: of a bin, in pixels. window: deviation of the Gaussian over the patch in bins; None for none.
    """
    reach = math.ceil(REACH * width)
    at = np.arange(-reach, reach + 1) / width  # in bins
    centres = np.arange(BINS) - (BINS - 1) / 2
    triangles = np.maximum(0, 1 - np.abs(at - centres[:, None]))
    gaussian = 1 if window is None else np.exp(-0.5 * (at / window) ** 2)
    return np.asarray(triangles * gaussian, dtype=np.float32)


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})  # lets the sums use SIMD
def finish(histograms: NDArray[np.float32], clip: float, root: bool) -> Any:
    """Scale to unit length, clip at ``clip``, scale again, all in place; return the first lengths, (m,).

    With ``root`` the result is the square root of values / sum, also of unit length. Zero stays zero.
    """
    lengths = np.empty(len(histograms), np.float32)
    for m in range(len(histograms)):
        row = histograms[m]
        total = np.float32(0)
        for k in range(len(row)):
            total += row[k] * row[k]
        lengths[m] = math.sqrt(total)
        if total == 0:
            continue
        most = np.float32(clip) * lengths[m]
        squares = np.float32(0)
        plain = np.float32(0)
        for k in range(len(row)):
            row[k] = min(row[k], most)
            squares += row[k] * row[k]
            plain += row[k]
        if root:
            for k in range(len(row)):
                row[k] = math.sqrt(row[k] / plain)
        else:
            scale = np.float32(1) / np.float32(math.sqrt(squares))
            for k in range(len(row)):
                row[k] *= scale
    return lengths
