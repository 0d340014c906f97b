"""Eigenfunctions of a Gaussian affinity along single axes, found on a grid, and the best of their products.

For samples of density p along one axis, the operator (K g)(x) = sum_y W(x, y) p(y) g(y) / sum_y W(x, y) p(y) with
W(x, y) = exp(-(x - y)^2 / 2 sigma^2) has the constant as its first eigenfunction, with eigenvalue 1; the others are
smoother the larger their eigenvalues (Fergus, Weiss and Torralba, NIPS 2009). Over independent axes the
eigenfunctions are products of these, and so are the eigenvalues.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_products", "grid_eigenfunctions", "histograms", "interpolate"]

Array = NDArray[np.float64]
BINS = 50
_PSEUDO = 0.1  # share of the mass spread evenly, so that no part of the grid is empty


def histograms(P: Array, low: Array, high: Array) -> Array:
    """Density (c, BINS) of the columns of P (n, c) between low and high; what lies outside falls in the end bins."""
    n, c = P.shape
    bins = np.clip(((P - low) / (high - low) * BINS).astype(np.int64), 0, BINS - 1)
    counts = np.bincount((bins + np.arange(c) * BINS).ravel(), minlength=c * BINS).reshape(c, BINS)
    return (1 - _PSEUDO) * counts / n + _PSEUDO / BINS


def grid_eigenfunctions(density: Array, step: Array, sigma: float) -> tuple[Array, Array]:
    """Eigenvalues (c, BINS - 1), descending, and eigenfunctions (c, BINS - 1, BINS) without the constant.

    density : (c, BINS). ``step`` (c,) is the width of a bin. Eigenfunctions have mean square 1 under the operator's
    own measure, p(x) sum_y W(x, y) p(y).
    """
    place = np.arange(BINS)
    W = np.exp(-0.5 * ((place[:, None] - place) * (step / sigma)[:, None, None]) ** 2)  # (c, BINS, BINS)
    degree = np.einsum("cij,cj->ci", W, density)
    root = np.sqrt(density / degree)
    values, vectors = np.linalg.eigh(root[:, :, None] * W * root[:, None, :])
    measure = density * degree
    functions = np.swapaxes(vectors, 1, 2) / np.sqrt(measure / measure.sum(axis=1, keepdims=True))[:, None, :]
    # Ascending, the constant last. Rounding may leave the smallest below 0.
    return np.clip(values[:, -2::-1], 0, 1), functions[:, -2::-1]


def interpolate(x: Array, low: Array, high: Array, functions: Array) -> Array:
    """Values (n, m) of function j (a row of ``functions``, on the bins between low_j and high_j) at x (n, m)."""
    place = np.clip((x - low) / (high - low) * BINS - 0.5, 0, BINS - 1)
    left = np.minimum(place.astype(np.int64), BINS - 2)
    share = place - left
    column = np.arange(len(functions))
    return functions[column, left] * (1 - share) + functions[column, left + 1] * share


def best_products(values: Array, count: int) -> tuple[NDArray[np.int64], Array]:
    """The ``count`` largest products of eigenvalues of different axes, as functions chosen and their products.

    values : (c, k) in [0, 1], descending. Returns (count, order), each row the numbers axis * k + j of the functions
    that make up a product, padded with -1, and the products (count,), descending. All of a product's factors but one
    are a product themselves that is no smaller, so that going axis by axis and keeping the best loses none.
    """
    k = values.shape[1]
    products, chosen = np.ones(1), np.zeros((1, 0), dtype=np.int64)
    for axis in np.argsort(-values[:, 0], kind="stable"):
        if len(products) > count and values[axis, 0] <= products[-1]:
            break  # no later axis has a product to add
        grown = np.concatenate([products, np.outer(products, values[axis]).ravel()])
        order = np.argsort(-grown, kind="stable")[: count + 1]
        new = order >= len(products)
        before = np.where(new, (order - len(products)) // k, order)
        factor = np.where(new, axis * k + (order - len(products)) % k, -1)
        products, chosen = grown[order], np.hstack([chosen[before], factor[:, None]])
    chosen = -np.sort(-chosen[1:], axis=1)  # without the constant; padding last
    return chosen[:, : max(1, int((chosen >= 0).sum(axis=1).max(initial=1)))], products[1:]
