"""Checks of what callers hand to the index: messages name the argument, what came and what is accepted."""

import operator
from collections.abc import Set

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_weights, n_bytes
from cbid.search.errors import UnknownIdError

__all__ = [
    "LARGEST_ID",
    "as_codes",
    "as_count",
    "as_ids",
    "as_radius",
    "as_weights",
    "check_known",
    "sorted_distinct",
]

LARGEST_ID = np.iinfo(np.int64).max


def as_count(value: object, name: str, *, at_least: int = 1, at_most: int | None = None) -> int:
    """An integer in a range; a float or bool is an error even when it holds a whole number."""
    accepted = f"an integer >= {at_least}" if at_most is None else f"an integer from {at_least} to {at_most}"
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {value!r}; {accepted} is accepted") from None
    if count < at_least or (at_most is not None and count > at_most):
        raise ValueError(f"{name} is {count}; {accepted} is accepted")
    return count


def as_codes(codes: ArrayLike, n_bits: int) -> NDArray[np.uint8]:
    """Packed codes (n, ceil(t/8)); one code may come as (ceil(t/8),), none as []."""
    array = np.asarray(codes)
    if array.size == 0 and not isinstance(codes, np.ndarray):
        array = np.empty((0, n_bytes(n_bits)), dtype=np.uint8)  # an empty list has no type or width of its own
    return np.ascontiguousarray(check_codes(array, n_bits))


def as_ids(ids: ArrayLike, name: str = "ids") -> NDArray[np.int64]:
    """Ids (n,) as int64; one id may come as a scalar, several also as a set."""
    array = np.asarray(list(ids) if isinstance(ids, Set) else ids)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; integers from 0 to 2**63 - 1 are accepted")
    if array.ndim > 1:
        raise ValueError(f"{name} has shape {array.shape}; one id a code, (n,), is accepted")
    array = np.atleast_1d(array)
    if len(array):
        least, largest = int(array.min()), int(array.max())
        if least < 0 or largest > LARGEST_ID:
            raise ValueError(
                f"{name} holds {least if least < 0 else largest}; integers from 0 to 2**63 - 1 are accepted "
                "(-1 stands for a missing match)"
            )
    return np.ascontiguousarray(array, dtype=np.int64)


def sorted_distinct(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids ascending and without repetition; what is so already is not sorted again."""
    if np.all(ids[1:] > ids[:-1]):
        return ids
    ids = np.sort(ids)
    return ids[np.concatenate([[True], ids[1:] != ids[:-1]])]


def check_known(ids: NDArray[np.int64], known: NDArray[np.bool_], where: str = "the index") -> None:
    """An error that names the first of the ids that are not ``known``."""
    if not known.all():
        unknown = ids[~known]
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise UnknownIdError(f"ids holds {unknown[0]}{more}, which {where} does not store")


def as_weights(weights: ArrayLike, n_bits: int) -> NDArray[np.float64]:
    """The index's own weights: (t,), or (t, n_classes) for one vector per class of the stored item."""
    array = np.asarray(weights)
    if array.ndim not in (1, 2) or array.shape[0] != n_bits or 0 in array.shape:
        raise ValueError(f"weights has shape {array.shape}; ({n_bits},) or ({n_bits}, n_classes) is accepted")
    if array.ndim == 1:
        return np.array(check_weights(array, n_bits))
    return np.array(check_weights(array.T, n_bits, n_rows=array.shape[1]).T, order="C")


def as_radius(radius: object) -> np.float32:
    """A distance >= 0, in float32 as all distances are: 0.3 then includes what lies at float32(0.3)."""
    try:
        value = float(radius)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"radius is {radius!r}; a number >= 0 is accepted") from None
    if not value >= 0:
        raise ValueError(f"radius is {value}; a number >= 0 is accepted")
    with np.errstate(over="ignore"):
        return np.float32(value)
