"""Exceptions of the index, and checks of its arguments. Messages name the argument, the value and the expected."""

import operator
from collections.abc import Set

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_weights, n_bytes
from cbid.storage.atomic import DirectoryLockedError

LARGEST_ID = np.iinfo(np.int64).max
_LEAST_NORMAL = float(np.finfo(np.float32).tiny)

IndexLockedError = DirectoryLockedError
"""Another process, or another open index, holds the writer lock."""


class UnknownIdError(KeyError, ValueError):
    """The index does not store this id."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr of the message


class IndexCorruptError(ValueError):
    """The directory is not an index, or its files differ from what was committed."""


class IndexConflictError(OSError):
    """Another writer committed after this index was opened."""


def as_count(value: object, name: str, *, at_least: int = 1, at_most: int | None = None) -> int:
    """Return an integer in a range; floats and bools raise TypeError, even with a whole value."""
    count = None
    if not isinstance(value, (bool, np.bool_)):  # not a union, which would be built at every search
        try:  # noqa: SIM105  a context manager takes five times as long
            count = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    if count is not None and at_least <= count and (at_most is None or count <= at_most):
        return count
    expected = f"an integer of at least {at_least}"
    if at_most is not None:
        expected = f"an integer from {at_least} to {at_most:,}"
    if count is None:
        raise TypeError(f"{name}={value!r}: expected {expected}")
    raise ValueError(f"{name}={count}: expected {expected}")


def as_cells(cells: object, probes: object, *, at_most: int | None = None) -> tuple[int | None, int | None]:
    """Return the number of IVF cells and of those that a search scans, by default 1/32; both None without IVF."""
    if cells is None:
        if probes is not None:
            raise ValueError(f"probes={probes}: expected None without cells")
        return None, None
    n_cells = as_count(cells, "cells", at_least=2, at_most=at_most)
    return n_cells, max(n_cells // 32, 1) if probes is None else as_count(probes, "probes", at_most=n_cells)


def unmasked(values: ArrayLike, name: str) -> ArrayLike:
    """Return ``values``; raise if a masked array hides some of them: numpy would use what is below the mask."""
    if isinstance(values, np.ma.MaskedArray):
        n_masked = int(np.count_nonzero(np.ma.getmaskarray(values)))
        if n_masked:
            raise ValueError(f"{name} has {n_masked} masked values; expected none")
    return values


def as_codes(codes: ArrayLike, n_bits: int) -> NDArray[np.uint8]:
    """Return packed codes (n, ceil(t/8)), also from one code (ceil(t/8),) and from an empty list."""
    array = np.asarray(unmasked(codes, "codes"))
    if array.size == 0 and not isinstance(codes, np.ndarray):
        array = np.empty((0, n_bytes(n_bits)), dtype=np.uint8)  # an empty list has no dtype or width
    return np.ascontiguousarray(check_codes(array, n_bits))


def as_float32(values: ArrayLike, name: str) -> NDArray[np.float32]:
    """Return real numbers as float32; those that are too large become inf."""
    array = np.asarray(unmasked(values, name))
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; expected real numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def as_ids(ids: ArrayLike, name: str = "ids") -> NDArray[np.int64]:
    """Return ids (n,) as int64, also from one id and from a set."""
    array = np.asarray(list(ids) if isinstance(ids, Set) else unmasked(ids, name))
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; expected integers from 0 to 2**63 - 1")
    if array.ndim > 1:
        raise ValueError(f"{name} has shape {array.shape}; expected (n,)")
    array = np.atleast_1d(array)
    if len(array):
        smallest, largest = int(array.min()), int(array.max())
        if smallest < 0 or largest > LARGEST_ID:
            raise ValueError(
                f"{name} holds {smallest if smallest < 0 else largest}; expected integers from 0 to 2**63 - 1 "
                "(-1 marks a missing match)"
            )
    return np.ascontiguousarray(array, dtype=np.int64)


def sorted_distinct(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ids ascending and distinct; sorts only if needed."""
    if np.all(ids[1:] > ids[:-1]):
        return ids
    ids = np.sort(ids)
    return ids[np.concatenate([[True], ids[1:] != ids[:-1]])]


def check_known(ids: NDArray[np.int64], known: NDArray[np.bool_], where: str = "the index") -> None:
    """Raise `UnknownIdError` with the first of the ids that are not ``known``."""
    if not known.all():
        unknown = ids[~known]
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise UnknownIdError(f"ids holds {unknown[0]}{more}, not stored in {where}")


def as_weights(weights: ArrayLike, n_bits: int) -> NDArray[np.float64]:
    """Return the weights of an index: (t,), or (t, n_classes) with one column per class of the stored code."""
    array = np.asarray(unmasked(weights, "weights"))
    if array.ndim not in (1, 2) or array.shape[0] != n_bits or 0 in array.shape:
        raise ValueError(f"weights has shape {array.shape}; expected ({n_bits},) or ({n_bits}, n_classes)")
    if array.ndim == 1:
        return np.array(check_weights(array, n_bits))
    return np.array(check_weights(array.T, n_bits, n_rows=array.shape[1]).T, order="C")


def float32_scale(weights: NDArray[np.float64] | None) -> float:
    """Return a power of two: weights times it add up to normal float32 numbers, so distances keep their order.

    It is 1 unless some weights are too small for float32, the type of distances. Weights 1e70 times smaller than the
    largest still count as 0.
    """
    normal = _LEAST_NORMAL
    if weights is None or weights.min(initial=1.0) >= normal:
        return 1.0
    positive = weights[weights > 0]
    smallest = positive.min(initial=1.0)
    if smallest >= normal:
        return 1.0
    needed = np.ceil(np.log2(normal) - np.log2(smallest))
    possible = np.floor(126 - np.log2(positive.max()) - np.log2(len(positive)))  # the sum must not overflow
    return float(2.0 ** max(min(needed, possible), 0))


def as_radius(radius: object) -> np.float32:
    """Return a distance >= 0 as float32, the type of all distances: 0.3 then includes float32(0.3)."""
    try:
        value = float(radius)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"radius={radius!r}: expected a number of at least 0") from None
    if not value >= 0:
        raise ValueError(f"radius={value}: expected a number of at least 0")
    with np.errstate(over="ignore"):
        return np.float32(value)
