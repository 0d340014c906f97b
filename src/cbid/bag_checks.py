"""Bags as they are given, checked: errors name the image."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.bags import Bags

__all__ = ["are_bags", "check_bags", "positions"]

# Of the values of a descriptor: the squared distance of two, at most four times as much, then fits into float32.
_MOST_SQUARES = float(np.finfo(np.float32).max) / 4


def are_bags(X: Any) -> bool:
    """Whether X is a set of bags, not one array of descriptors: Bags, or a sequence of two-dimensional arrays."""
    if isinstance(X, Bags):
        return True
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    return isinstance(X, (list, tuple, np.ndarray)) and len(X) > 0 and all(np.ndim(bag) == 2 for bag in X)


def check_bags(X: Any, *, n_features: int | None = None, first: int = 0) -> Bags:
    """X, Bags or one (m_i, d) array for each image, as Bags of finite values with ``n_features`` columns.

    first: the number of the first image in errors, where X is a part of more.
    """
    if not isinstance(X, Bags):
        if not isinstance(X, (list, tuple, np.ndarray)) or (isinstance(X, np.ndarray) and X.ndim == 2):
            shape = f" of shape {X.shape}" if hasattr(X, "shape") else ""
            raise ValueError(f"bags is a {type(X).__name__}{shape}; give Bags, or one (m_i, d) array for each image")
        X = Bags.from_list(list(X))
    d = X.values.shape[1]
    if d == 0:
        raise ValueError("bags have descriptors of no column")
    if n_features is not None and d != n_features:
        raise ValueError(f"bags have descriptors of {d} columns; {n_features} are expected")
    squares = np.einsum("ij,ij->i", X.values, X.values, dtype=np.float64)
    good = squares <= _MOST_SQUARES
    if not good.all():
        row = int(good.argmin())
        i = int(np.searchsorted(X.offsets, row, side="right")) - 1
        where = f"row {row - X.offsets[i]} of its bag"
        if not np.isfinite(X.values[row]).all():
            raise ValueError(f"image {first + i} has a descriptor with NaN or infinity: {where}")
        raise ValueError(
            f"image {first + i} has a descriptor of length {np.sqrt(squares[row]):.3g}: {where}; distances are "
            f"float32, and lengths up to {np.sqrt(_MOST_SQUARES):.3g} are accepted"
        )
    return X


def positions(bags: Bags) -> NDArray[np.float32]:
    """Where in its image each patch was taken, (m, 2): x over the width, y over the height."""
    if bags.frames is None or bags.shapes is None:
        lacking = " and ".join(name for name in ("frames", "shapes") if getattr(bags, name) is None)
        raise ValueError(
            f"bags have no {lacking}, which say where in the image a patch was taken; location needs them"
        )
    empty = np.flatnonzero((bags.shapes <= 0).any(axis=1) & (bags.sizes > 0))
    if len(empty):
        raise ValueError(f"image {empty[0]} has descriptors but shape {bags.shapes[empty[0]].tolist()}")
    where = bags.frames[:, :2] / bags.shapes[bags.owners][:, ::-1]
    finite = np.isfinite(where).all(axis=1)
    if not finite.all():
        raise ValueError(f"image {bags.owners[finite.argmin()]} has a frame with NaN or infinity")
    return where.astype(np.float32)
