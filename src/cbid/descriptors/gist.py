"""GIST, the spatial envelope of a scene (Oliva and Torralba, 2001), with the parameters of their published program.

The image is cropped to a square, resized, scaled to values from 0 to 255, and whitened: its logarithm loses structure
coarser than ``fc`` cycles per image and is divided by its local contrast. Gabor filters at several scales and
orientations are then applied in the Fourier domain, and the lengths of their complex responses are averaged over the
cells of a grid.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from cbid.checks import check_integer
from cbid.data.images import crop_to_fill, resize, to_float
from cbid.descriptors.base import Descriptor
from cbid.params import estimator, flag, integer, param, positive

Floats = NDArray[np.float32]
_WHITENING_BORDER = 5


@estimator
class GIST(Descriptor):
    """Mean responses of Gabor filters over the cells of a grid; 4 scales x 8 orientations x 4 x 4 cells = 512 values.

    Parameters
    ----------
    size : int
        Side of the square that images are resized to.
    orientations : sequence of int
        Number of orientations of each scale, from fine to coarse.
    cells : int
        Side of the grid of cells.
    fc : float
        Cut-off of the whitening in cycles per image; finer structure passes.
    border : int
        Pixels of mirrored border that are added before filtering.
    crop : bool
        Whether to crop the largest centred square; otherwise the whole image is stretched to a square.
    n_jobs, verbose
        As in ``Descriptor``.

    >>> GIST().transform([np.eye(100)]).shape
    (1, 512)
    """

    _threads = True

    size: int = 256
    orientations: Sequence[int] = (8, 8, 8, 8)
    cells: int = param(4, integer(1))
    fc: float = param(4.0, positive)
    border: int = 32
    crop: bool = param(True, flag)

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("size", self.size, max(2, self.cells))
        if not (isinstance(self.orientations, (tuple, list)) and self.orientations):
            raise ValueError(f"orientations={self.orientations!r}: expected a sequence, one number for each scale")
        for i, count in enumerate(self.orientations):
            check_integer(f"orientations[{i}]", count, 1)
        check_integer("border", self.border, 0, self.size)

    def describe(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return mean responses by scale, orientation, and cell (row by row)."""
        gray = to_float(image)
        if gray.ndim == 3:
            gray = gray.mean(axis=2)
        square = (self.size, self.size)
        gray = crop_to_fill(gray, square) if self.crop else resize(gray, square)
        edges = np.linspace(0, self.size, self.cells + 1).astype(int)
        low, high = gray.min(), gray.max()
        if high - low < 1e-6:  # constant up to rounding
            return np.zeros(sum(self.orientations) * self.cells**2, dtype=np.float32)
        white = whiten((gray - low) * (255 / (high - low)), self.fc)

        padded = np.pad(white, self.border, mode="symmetric")
        spectrum = fft.fft2(padded)
        inside = slice(self.border, self.border + self.size)
        areas = np.outer(np.diff(edges), np.diff(edges)).astype(np.float32)
        values = []
        for filters in gabor_filters(len(padded), tuple(self.orientations)):
            # The border is dropped between the two passes.
            responses = fft.ifft(spectrum * filters, axis=1, overwrite_x=True)[:, inside]
            lengths = np.abs(fft.ifft(responses, axis=2, overwrite_x=True)[:, :, inside])
            sums = np.add.reduceat(np.add.reduceat(lengths, edges[:-1], axis=1), edges[:-1], axis=2)
            values.append((sums / areas).ravel())
        return np.concatenate(values)


def whiten(image: Floats, fc: float) -> Floats:
    """Normalise the local contrast of a square image of values 0..255.

    With x = log(1 + image) and a Gaussian low-pass L whose gain falls to one half at fc cycles an image:
    y = x - L x, and y / (0.2 + sqrt(L y^2)). The image gets a mirrored border of a few pixels for this.
    """
    border = _WHITENING_BORDER
    padded = np.pad(np.log1p(image), border, mode="symmetric")
    even = len(padded) % 2
    padded = np.pad(padded, (0, even), mode="symmetric")
    n = len(padded)
    gain = _low_pass(n, fc)
    high = padded - fft.irfft2(fft.rfft2(padded) * gain, s=(n, n))
    contrast = np.sqrt(np.abs(fft.irfft2(fft.rfft2(high * high) * gain, s=(n, n))))
    inside = slice(border, border + len(image))
    return np.asarray((high / (np.float32(0.2) + contrast))[inside, inside], dtype=np.float32)


@lru_cache(maxsize=4)
def _low_pass(n: int, fc: float) -> Floats:
    """Return exp(-f^2 log 2 / fc^2) at the frequencies of a real transform, (n, n // 2 + 1)."""
    y, x = fft.fftfreq(n, 1 / n)[:, None], fft.rfftfreq(n, 1 / n)[None, :]
    return np.exp(-(x**2 + y**2) * (math.log(2) / fc**2)).astype(np.float32)


@lru_cache(maxsize=4)
def gabor_filters(n: int, orientations: tuple[int, ...]) -> list[Floats]:
    """Return for each scale the transfer functions (orientations, n, n) of its filters in the order of ``scipy.fft``.

    Scale s is centred at f_s = 0.3 / 1.85^s cycles a pixel; orientation j of m at the angle -j pi / m:
    G = exp(-3.5 (f / f_s - 1)^2 - 2 pi (m^2 / 64) a^2), with the frequency's distance f from 0 and its angle a from
    the centre.
    """
    y, x = fft.fftfreq(n)[:, None], fft.fftfreq(n)[None, :]
    f, angle = np.hypot(x, y), np.arctan2(y, x)
    scales = []
    for s, m in enumerate(orientations):
        radial = np.exp(-3.5 * (f * 1.85**s / 0.3 - 1) ** 2)
        away = angle + math.pi * np.arange(m)[:, None, None] / m
        away = np.where(away > math.pi, away - 2 * math.pi, away)
        scales.append((radial * np.exp(-2 * math.pi * m**2 / 64 * away**2)).astype(np.float32))
    return scales
