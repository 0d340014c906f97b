"""Kernel descriptors (Bo, Ren and Fox, 2010): vectors whose inner products are match kernels of patches.

A match kernel compares two patches by all pairs of their pixels, with a product of Gaussian kernels: one for what
the pixel shows, one for where it lies. Its features are found by kernel PCA over *basis points*, a grid over the
region of pixel attributes (section 4 of the paper). A kernel over several attributes is here a product of kernels
over one attribute each, so the Gram matrix of the joint grid is a Kronecker product, and its eigenvectors are
products of those of the factors: small matrices take the place of one of thousands of rows. The Gram matrix is not
centred, so that inner products of features approximate the kernel itself.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.data.images import as_gray, as_rgb, opencv, resize_longest, to_float
from cbid.descriptors._grid import Grid, check_sides, frames_of, grids, pool
from cbid.descriptors.base import Image, LocalDescriptor
from cbid.params import choice, estimator, integer, param, positive

_LEAST = 1e-9  # relative size below which eigenvalues are noise


class Factor(NamedTuple):
    """A Gaussian kernel exp(-gamma |a - b|^2) over one attribute, and its principal components over basis points.

    Component t of a value x is sum_i k(x, points_i) projection_(i, t); over all t these approximate the kernel by
    their inner products, exactly at the basis points. Ordered by eigenvalue, largest first.
    """

    points: NDArray[np.float64]  # (n, p): basis points; an angle has p = 2, its cosine and sine
    gamma: float
    eigenvalues: NDArray[np.float64]  # (r,)
    projection: NDArray[np.float64]  # (n, r)

    def components(self, x: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the chosen components (m, len(chosen)) of values (m, p)."""
        points = self.points.astype(np.float32)
        squares = (x**2).sum(1)[:, None] - 2 * x @ points.T + (points**2).sum(1)
        similarities = np.exp(np.float32(-self.gamma) * np.maximum(squares, 0))
        return np.asarray(similarities @ self.projection[:, chosen].astype(np.float32))


@lru_cache
def over_line(n_points: int, gamma: float) -> Factor:
    """Return the kernel over numbers from 0 to 1, with equally spaced basis points."""
    points = np.linspace(0, 1, n_points)[:, None]
    eigenvalues, vectors = np.linalg.eigh(np.exp(-gamma * (points - points.T) ** 2))
    vectors *= np.where(vectors[0] < 0, -1, 1)  # fix the free sign
    return _factor(points, gamma, eigenvalues, vectors)


@lru_cache
def over_angles(n_points: int, gamma: float) -> Factor:
    """Return the kernel over directions as points of the unit circle, with basis points around it.

    The Gram matrix is circulant: its eigenvectors are cosines and sines, its eigenvalues the Fourier transform of
    a row. They come in equal pairs, for which a general solver gives an arbitrary rotation.
    """
    steps = np.arange(n_points)
    angles = 2 * np.pi * steps / n_points
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    row = np.exp(-gamma * (2 - 2 * np.cos(angles)))
    frequencies = (steps + 1) // 2  # 0, 1, 1, 2, 2, ...
    waves = np.where(steps % 2 == 1, np.cos(np.outer(angles, frequencies)), np.sin(np.outer(angles, frequencies)))
    waves[:, 0] = 1
    vectors = waves / np.linalg.norm(waves, axis=0)
    return _factor(points, gamma, row @ np.cos(np.outer(angles, frequencies)), vectors)


def _factor(
    points: NDArray[np.float64], gamma: float, values: NDArray[np.float64], vectors: NDArray[np.float64]
) -> Factor:
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > _LEAST * values.max()]
    return Factor(points, gamma, values[order], vectors[:, order] / np.sqrt(values[order]))


def joint_components(factors: Sequence[Factor], most: int) -> NDArray[np.int64]:
    """Return the factors' components of the ``most`` largest components of their product, (t, factors).

    The eigenvalue of a joint component is the product of those of its parts; ties keep the order of the grid.
    """
    joint = np.zeros(())
    for factor in factors:
        joint = np.add.outer(joint, np.log(factor.eigenvalues))
    order = np.argsort(-np.round(joint.ravel(), 9), kind="stable")[:most]  # rounded, so that equal ones are ties
    return np.stack(np.unravel_index(order, joint.shape), axis=1)


BLUR = 0.8  # deviation in pixels before gradients are taken
# The eight neighbours of a pixel, around it.
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))
PATCH = 16  # pixels along a patch when it is described
_PIXELS = 2**17  # processed at a time, to bound memory


class _Basis(NamedTuple):
    """The principal components of a match kernel that are kept: products of what a pixel shows and where it lies."""

    attribute: list[Factor]  # an angle; eight comparisons; three intensities
    shown: NDArray[np.int64]  # (u, factors): the different products of attribute components among those kept
    weights: NDArray[np.float32]  # (k, 2 r + 1): components of position along an axis, at the pixels of a patch
    entries: NDArray[np.int64]  # (t,): the place of each one in the sums of ``pool``


@estimator
class KernelDescriptors(LocalDescriptor):
    """Patches on a grid, described so that inner products approximate a match kernel between patches.

    The match kernel of two patches sums, over all pairs of their pixels z and z',

        s(z) s(z') k(a(z), a(z')) k_p(z, z'),   k(a, a') = exp(-gamma |a - a'|^2),

    where k_p compares positions in the patch (from 0 to 1, gamma 3), and attribute a and strength s are

    - "gradient": the direction as a point of the unit circle (gamma 5), and the length of the gradient;
    - "shape": which of the eight neighbours are brighter, a local binary pattern (gamma 2), and the deviation of
      the 3 x 3 pixels;
    - "colour": red, green and blue from 0 to 1 (gamma 4), and 1.

    Strengths are divided by the root of ``epsilon`` plus the sum of their squares over the patch. The features are
    the first ``n_components`` kernel principal components over a grid of basis points: 5 x 5 positions, with 25
    directions, all 256 patterns or 5 x 5 x 5 colours. They are computed from the kernels once in a process.

    Parameters
    ----------
    kernel : {"gradient", "shape", "colour"}
        The match kernel.
    n_components : int
        Values of a patch.
    sides : sequence of float
        Sides in pixels of the patches at each scale. The image is shrunk (or enlarged) so that a patch has 16 pixels.
    step : int
        Pixels between patches of side 16; it grows with the side.
    longest : int or None
        Larger images are first shrunk to this longest side in pixels; None keeps their size.
    epsilon : float
        Damps patches of low contrast.
    n_jobs, verbose
        As in ``LocalDescriptor``.
    """

    _threads: ClassVar[bool] = True

    kernel: str = param("gradient", choice("gradient", "shape", "colour"))
    n_components: int = param(200, integer(1, 625))  # 25 positions and 25 directions
    sides: Sequence[float] = param((16, 24, 32), check_sides)
    step: int = param(8, integer(1))
    longest: int | None = param(300, integer(1), or_none=True)
    epsilon: float = param(0.1, positive)

    def settings(self) -> dict[str, Any]:
        """Return the settings, with the sides of the patches in pixels."""
        return {**super().settings(), "sides": [float(side) for side in self.sides]}

    def describe(self, image: Image) -> tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, int]]:
        """Return values (m, n_components), frames (m, 3) of x, y and side, and the shape of the resized image."""
        pixels = to_float(image)
        pixels = as_rgb(pixels) if self.kernel == "colour" else as_gray(pixels)
        if self.longest is not None:
            pixels = resize_longest(pixels, self.longest)
        parts = [self._one_scale(pixels, float(side)) for side in self.sides]
        values, frames = (np.concatenate(part) for part in zip(*parts))
        return values, frames, (pixels.shape[0], pixels.shape[1])

    def _one_scale(self, pixels: NDArray[np.float32], side: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        scaled = _resized(pixels, PATCH / side)
        (grid,) = grids(scaled.shape, [PATCH], self.step, inside=True)
        # Pixel x covers x - 0.5 to x + 0.5, in both images.
        ratio = np.array([pixels.shape[1] / scaled.shape[1], pixels.shape[0] / scaled.shape[0]], np.float32)
        frames = frames_of([grid])
        frames[:, :2] = (frames[:, :2] + 0.5) * ratio - 0.5
        frames[:, 2] = side
        return self._patches(scaled, grid), frames

    def _patches(self, pixels: NDArray[np.float32], grid: Grid) -> NDArray[np.float32]:
        """Return values (m, n_components) of the patches of one grid."""
        basis = _basis(self.kernel, self.n_components)
        values = np.empty((grid.size, len(basis.entries)), np.float32)
        if not grid.size:
            return values
        strengths, attributes = _ATTRIBUTES[self.kernel](pixels)
        k, reach = len(basis.weights), basis.weights.shape[1] // 2
        at_once = max(1, _PIXELS // pixels.shape[1] // self.step)  # rows of the grid
        for first in range(0, len(grid.ys), at_once):
            ys = grid.ys[first : first + at_once]
            rows = slice(ys[0] - reach, ys[-1] + reach + 1)
            strength = strengths[rows]
            shown = _components(self.kernel, basis, attributes[rows])
            n = len(ys) * len(grid.xs)
            sums = np.empty((n, k * k * shown.shape[2]), np.float32)
            pool(strength[:, :, None] * shown, ys - ys[0] + reach, grid.xs, basis.weights, sums)
            squares = np.empty((n, 1), np.float32)
            flat = np.ones((1, basis.weights.shape[1]), np.float32)
            pool(strength[:, :, None] ** 2, ys - ys[0] + reach, grid.xs, flat, squares)
            start = first * len(grid.xs)
            values[start : start + n] = sums[:, basis.entries] / np.sqrt(squares + np.float32(self.epsilon))
        return values


def gradients(gray: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the length of gradients (h, w), and their direction as cosine and sine (h, w, 2); y points up."""
    cv2 = opencv()
    blurred = np.asarray(cv2.GaussianBlur(gray, (0, 0), BLUR), np.float32)
    around = np.pad(blurred, 1, mode="edge")
    differences = np.stack([around[1:-1, 2:] - around[1:-1, :-2], around[:-2, 1:-1] - around[2:, 1:-1]], axis=2)
    lengths = np.sqrt((differences**2).sum(2))
    return lengths, differences / np.maximum(lengths, np.finfo(np.float32).tiny)[:, :, None]


def shapes(gray: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return the deviation of the 3 x 3 pixels around each, and a byte (h, w): which neighbours are brighter."""
    h, w = gray.shape
    around = np.pad(gray, 1, mode="edge")
    moved = np.stack([around[1 + y : 1 + y + h, 1 + x : 1 + x + w] for y, x in NEIGHBOURS])
    bytes_ = np.packbits(moved > gray, axis=0)[0]
    return np.concatenate([moved, gray[None]]).std(axis=0), bytes_


def all_shapes() -> NDArray[np.float32]:
    """Return the eight comparisons (256, 8) of each byte of ``shapes``; 1 if the neighbour is brighter."""
    return np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)


def colours(rgb: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return equal strengths, and red, green and blue (h, w, 3)."""
    return np.ones(rgb.shape[:2], np.float32), rgb


_ATTRIBUTES: dict[str, Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[Any]]]] = {
    "gradient": gradients,
    "shape": shapes,
    "colour": colours,
}


@lru_cache
def _basis(kernel: str, n_components: int) -> _Basis:
    attribute = {
        "gradient": [over_angles(25, 5.0)],
        "shape": [over_line(2, 2.0)] * 8,
        "colour": [over_line(5, 4.0)] * 3,
    }[kernel]
    position = over_line(5, 3.0)
    joint = joint_components([position, position, *attribute], n_components)  # y, x, what is shown
    shown, which = np.unique(joint[:, 2:], axis=0, return_inverse=True)
    k = int(joint[:, :2].max()) + 1
    reach = PATCH // 2
    places = (np.arange(-reach, reach + 1) / PATCH + 0.5).astype(np.float32)[:, None]
    weights = np.ascontiguousarray(position.components(places, np.arange(k)).T)
    return _Basis(attribute, shown, weights, (joint[:, 0] * k + joint[:, 1]) * len(shown) + which.ravel())


def _components(kernel: str, basis: _Basis, attributes: NDArray[Any]) -> NDArray[np.float32]:
    """Return products of attribute components (h, w, u) of pixels in the order of ``basis.shown``."""
    if kernel == "shape":
        return _products(basis, all_shapes()[:, :, None])[attributes]
    flat = attributes.reshape(-1, len(basis.attribute), attributes.shape[2] // len(basis.attribute))
    return _products(basis, flat).reshape(*attributes.shape[:2], -1)


def _products(basis: _Basis, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products (m, u) for values (m, factors, p)."""
    parts = [factor.components(values[:, f], basis.shown[:, f]) for f, factor in enumerate(basis.attribute)]
    return reduce(np.multiply, parts)


def _resized(pixels: NDArray[np.float32], ratio: float) -> NDArray[np.float32]:
    if ratio == 1:
        return pixels
    cv2 = opencv()
    h, w = (max(1, round(length * ratio)) for length in pixels.shape[:2])
    method = cv2.INTER_AREA if ratio < 1 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, (w, h), interpolation=method), np.float32)
