"""Images as bags, with names for messages."""

import warnings
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.bags import Bags, check_bags

__all__ = ["Images", "named_bags", "runs", "with_descriptors"]

Images = Bags | Sequence[Any]


def named_bags(X: Images, descriptor: Any, n_features: int | None, n_jobs: int | None) -> tuple[Bags, list[str]]:
    """X as checked bags, described first where there is a descriptor, and what to call each image in a message."""
    if descriptor is None or isinstance(X, Bags):
        bags = check_bags(X, n_features=n_features)
        return bags, [f"image {i}" for i in range(len(bags))]
    from cbid.descriptors import describe

    described = describe(X, descriptor, n_jobs=n_jobs)
    return check_bags(described.values, n_features=n_features), list(described.names)


def with_descriptors(
    bags: Bags, numbers: NDArray[np.int64], ids: list[Hashable], names: list[str]
) -> tuple[Bags, NDArray[np.int64], list[Hashable]]:
    """What images that have a descriptor are about; a warning names the others."""
    empty = np.flatnonzero(bags.sizes == 0)
    if not len(empty):
        return bags, numbers, ids
    told = ", ".join(names[i] for i in empty[:5]) + (", ..." if len(empty) > 5 else "")
    warnings.warn(f"images without descriptors are not stored: {told}", stacklevel=4)
    kept = np.flatnonzero(bags.sizes > 0)
    return bags.take(kept), numbers[kept], [ids[i] for i in kept]


def runs(bags: Bags, most: int) -> Iterator[NDArray[np.int64]]:
    """Images in runs of about ``most`` patches."""
    run = (bags.offsets[:-1] // most).astype(np.int64)
    return iter(np.split(np.arange(len(bags)), np.flatnonzero(np.diff(run)) + 1))
