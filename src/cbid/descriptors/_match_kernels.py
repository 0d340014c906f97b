"""Low-dimensional bases of match kernels: kernel principal components of Gaussian kernels over a grid.

A match kernel compares two patches by all pairs of their pixels, with a product of Gaussian kernels: one for what
the pixel shows, one for where it lies. Its features are found by kernel PCA over *basis points*, a grid over the
region of pixel attributes (Bo, Ren and Fox, 2010, section 4). A kernel over several attributes is here a product of
kernels over one attribute each, so the Gram matrix of the joint grid is a Kronecker product, and its eigenvectors
are products of those of the factors: small matrices take the place of one of thousands of rows.

The Gram matrix is not centred, so that inner products of features approximate the kernel itself.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Factor", "joint_components", "over_angles", "over_line"]

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
