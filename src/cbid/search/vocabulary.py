"""Labels as small integers: an index stores one label code per code, and one vocabulary."""

from collections.abc import Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.search.checks import IndexCorruptError

__all__ = ["Vocabulary", "as_labels", "narrow"]

_KINDS = {"int": np.dtype(np.int64), "str": np.dtype(str), "bool": np.dtype(bool)}


def narrow(codes: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Convert label codes (>= 0) to the smallest unsigned type that holds them."""
    largest = int(codes.max()) if len(codes) else 0
    return codes.astype(np.min_scalar_type(largest), copy=False)


class Vocabulary:
    """The distinct labels of an index; the code of a label is its place in ``values``.

    Labels are integers, strings or bools, all of one kind.
    """

    def __init__(self, kind: str, values: list[Any], *, closed: bool = False) -> None:
        self.kind = kind
        self.values = values
        self.closed = closed  # with weights per class, no other label can be added
        self._place = {value: place for place, value in enumerate(values)}

    @classmethod
    def of_classes(cls, classes: ArrayLike) -> "Vocabulary":
        """Make a closed vocabulary of the classes of the weights, in their order."""
        array, kind = as_labels(classes, "classes")
        values = array.tolist()
        if len(set(values)) != len(values):
            raise ValueError("classes holds a name twice; expected distinct names, one per column of weights")
        return cls(kind, values, closed=True)

    @classmethod
    def for_labels(cls, labels: ArrayLike) -> "Vocabulary":
        """Make an empty vocabulary for labels of this kind."""
        return cls(as_labels(labels, "labels")[1], [])

    def __len__(self) -> int:
        return len(self.values)

    def extended(self, labels: ArrayLike) -> tuple["Vocabulary", NDArray[np.int64]]:
        """Return a vocabulary that also has ``labels``, and the codes of ``labels``."""
        array, kind = self._same_kind(labels)
        distinct, inverse = _distinct(array)
        new = [value for value in distinct.tolist() if value not in self._place]
        if new and self.closed:
            raise ValueError(
                f"labels holds {new[0]!r}; expected one of the classes of the weights, {_shown(self.values)} "
                "(see classes=)"
            )
        grown = Vocabulary(kind, [*self.values, *new], closed=self.closed) if new else self
        codes = np.array([grown._place[value] for value in distinct.tolist()], dtype=np.int64)
        return grown, codes[inverse]

    def codes_of(self, labels: ArrayLike) -> NDArray[np.int64]:
        """Return the codes of the labels of a filter; unknown labels are skipped."""
        array, _ = self._same_kind(labels)
        places = (self._place.get(value) for value in dict.fromkeys(array.tolist()))
        return np.array([place for place in places if place is not None], dtype=np.int64)

    def decode(self, codes: NDArray[np.integer]) -> NDArray[Any]:
        """Return the labels of codes of any shape; code -1 (a missing match) gives -1, "" or False, by kind."""
        missing = {"int": -1, "str": "", "bool": False}[self.kind]
        table = np.array([*self.values, missing], dtype=_KINDS[self.kind])
        if codes.size and not -1 <= codes.min() <= codes.max() < len(self.values):
            raise IndexCorruptError(
                f"label codes range from {codes.min()} to {codes.max()}, but the index has {len(self.values)} "
                "labels; its files are damaged, call verify() to find which"
            )
        return table[codes]

    def _same_kind(self, labels: ArrayLike) -> tuple[NDArray[Any], str]:
        array, kind = as_labels(labels, "labels")
        if kind != self.kind and len(array):
            hint = "" if not self.closed else (
                f", the classes of the weights, {_shown(self.values)} (see classes=)"
            )  # fmt: skip
            raise TypeError(f"labels has values of kind {kind}; expected kind {self.kind}{hint}")
        return array, self.kind


def _distinct(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct values, sorted, and the place of each entry among them."""
    if array.dtype == np.int64 and len(array):
        least, largest = int(array.min()), int(array.max())
        if largest - least < max(len(array), 1 << 16):  # usual for classes: counting is faster than sorting
            present = np.zeros(largest - least + 1, dtype=bool)
            present[array - least] = True
            return np.flatnonzero(present) + least, (np.cumsum(present) - 1)[array - least]
    distinct, inverse = np.unique(array, return_inverse=True)
    return distinct, inverse.reshape(-1)


def as_labels(labels: ArrayLike, name: str) -> tuple[NDArray[Any], str]:
    """Return labels (n,) and their kind: "int" (int64, also from whole floats), "str" or "bool"."""
    given = list(labels) if isinstance(labels, Set) else labels
    if isinstance(given, (list, tuple)) and len(kinds := _kinds(given)) > 1:  # numpy would convert them to one kind
        raise TypeError(
            f"{name} has values of kinds {' and '.join(kinds)}; expected integers, strings or bools, all of one kind"
        )
    array = np.atleast_1d(np.asarray(given))
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected (n,)")
    if len(array) == 0:
        return array.astype(np.int64), "int"
    if array.dtype.kind == "b":
        return array, "bool"
    if array.dtype.kind == "f" and (np.abs(array) < 2**53).all() and (array == np.trunc(array)).all():
        return array.astype(np.int64), "int"
    if array.dtype.kind in "iu":
        if int(array.max()) > np.iinfo(np.int64).max:
            raise ValueError(f"{name} holds {int(array.max())}; expected integers below 2**63")
        return array.astype(np.int64), "int"
    if array.dtype.kind in "UT" or (array.dtype.kind == "O" and all(isinstance(v, str) for v in array)):
        return array.astype(str), "str"
    raise TypeError(f"{name} has dtype {array.dtype}; expected integers, strings or bools, all of one kind")


def _kinds(values: Sequence[Any]) -> list[str]:
    known: dict[str, Any] = {"str": str, "bool": (bool, np.bool_), "int": (int, np.integer)}
    types = set(map(type, values))
    return sorted({next((k for k, of in known.items() if issubclass(t, of)), t.__name__) for t in types})


def _shown(values: list[Any]) -> str:
    return ", ".join(map(repr, values[:5])) + (f" and {len(values) - 5} more" if len(values) > 5 else "")
