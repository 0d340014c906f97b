"""Labels as small integers: an index stores one label code per code, and one vocabulary."""

import itertools
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_matrix, csr_matrix, issparse, vstack

from cbid.checks import check_choice
from cbid.labels import are_label_sets, encode_label_sets, label_sets
from cbid.search.checks import IndexCorruptError

SEPARATOR = "/"  # between the parts of a path label

_KINDS = {"int": np.dtype(np.int64), "str": np.dtype(str), "bool": np.dtype(bool)}


def narrow(codes: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Convert label codes (>= 0) to the smallest unsigned type that holds them."""
    largest = int(codes.max()) if len(codes) else 0
    return codes.astype(np.min_scalar_type(largest), copy=False)


class Vocabulary:
    """The distinct labels of an index; the code of a label is its place in ``values``.

    Labels are integers, strings or bools, all of one kind. If codes may have several labels, each distinct set of
    labels has a code, its row in ``sets``, so that a filter by labels is a filter by codes as before.
    """

    def __init__(self, kind: str, values: list[Any], *, closed: bool = False, sets: csr_matrix | None = None) -> None:
        self.kind = kind
        self.values = values
        self.closed = closed  # with weights per class, no other label can be added
        self.sets = sets  # (n_sets, n_labels), 1 where a set has a label; None with one label per code
        self._place = {value: place for place, value in enumerate(values)}
        self._set_place: dict[bytes, int] | None = None  # made when sets are added
        self._with_label: csc_matrix | None = None  # the sets by label, made when a filter needs them

    @classmethod
    def of_classes(cls, classes: ArrayLike) -> "Vocabulary":
        """Make a closed vocabulary of the classes of the weights, in their order."""
        array, kind = as_labels(classes, "classes")
        values = array.tolist()
        if len(set(values)) != len(values):
            raise ValueError("classes holds a name twice; expected distinct names, one per column of weights")
        return cls(kind, values, closed=True)

    @classmethod
    def for_labels(cls, labels: Any) -> "Vocabulary":
        """Make an empty vocabulary for labels of this kind."""
        if are_label_sets(labels):
            return cls("int", [], sets=csr_matrix((0, 0), dtype=np.uint8))  # the first label decides the kind
        return cls(as_labels(labels, "labels")[1], [])

    def __len__(self) -> int:
        return len(self.values)

    def extended(self, labels: Any) -> tuple["Vocabulary", NDArray[np.int64]]:
        """Return a vocabulary that also has ``labels``, and the codes of ``labels``."""
        if are_label_sets(labels):
            return self._extended_by_sets(*encode_label_sets(labels, name="labels"))
        array = self._same_kind(labels)
        distinct, inverse = _distinct(array)
        if self.sets is not None:
            return self._extended_by_sets(distinct, _rows(inverse, np.arange(len(array) + 1), len(distinct)))
        grown = self._with_values(distinct)
        codes = np.array([grown._place[value] for value in distinct.tolist()], dtype=np.int64)
        return grown, codes[inverse]

    def _with_values(self, values: NDArray[Any]) -> "Vocabulary":
        new = [value for value in values.tolist() if value not in self._place]
        if new and self.closed:
            raise ValueError(
                f"labels holds {new[0]!r}; expected one of the classes of the weights, {_shown(self.values)} "
                "(see classes=)"
            )
        return Vocabulary(self.kind, [*self.values, *new], closed=self.closed, sets=self.sets) if new else self

    def _extended_by_sets(self, classes: NDArray[Any], matrix: csr_matrix) -> tuple["Vocabulary", NDArray[np.int64]]:
        if self.closed:
            raise ValueError("labels holds sets; expected one label per code, because weights are given per class")
        names = self._same_kind(classes)
        kind = self.kind if self.values or not len(names) else as_labels(names, "labels")[1]
        grown = self._with_values(names)
        # The label at place i is the set {i} with code i, so codes that are stored stay valid.
        n_labels = len(self.values)
        known = _rows(np.arange(n_labels), np.arange(n_labels + 1), n_labels) if self.sets is None else self.sets
        if self._set_place is None:
            self._set_place = {key: place for place, key in enumerate(_row_keys(known))}
        places = np.array([grown._place[value] for value in names.tolist()], dtype=np.int64)
        named = _rows(places[matrix.indices] if len(places) else matrix.indices, matrix.indptr, len(grown.values))
        named.sort_indices()
        set_place, codes = self._set_place.copy(), np.empty(matrix.shape[0], dtype=np.int64)
        new: list[int] = []
        for row, key in enumerate(_row_keys(named)):
            code = set_place.setdefault(key, len(set_place))
            if code == known.shape[0] + len(new):
                new.append(row)
            codes[row] = code
        if not new and grown is self and self.sets is not None:
            return self, codes
        known = _rows(known.indices, known.indptr, len(grown.values))
        found = Vocabulary(kind, grown.values, sets=csr_matrix(vstack([known, named[new]])))
        found._set_place = set_place
        return found, codes

    def packed_sets(self) -> NDArray[np.int64]:
        """Return the sets as one array for a file: the start of each in the second part, and their labels."""
        assert self.sets is not None
        return np.concatenate([self.sets.indptr, self.sets.indices]).astype(np.int64)

    @classmethod
    def from_packed(cls, kind: str, values: list[Any], packed: NDArray[np.int64], n_sets: int) -> "Vocabulary":
        """Return the vocabulary whose sets `packed_sets` has packed; raise IndexCorruptError if they cannot be."""
        starts, places = packed[: n_sets + 1], packed[n_sets + 1 :]
        sound = len(starts) == n_sets + 1 and starts[0] == 0 and starts[-1] == len(places)
        if not sound or np.any(np.diff(starts) < 0) or not np.all((places >= 0) & (places < len(values))):
            raise IndexCorruptError(f"the label sets of the index do not fit its {len(values)} labels")
        return cls(kind, values, sets=_rows(places, starts, len(values)))

    def codes_of(self, labels: ArrayLike, match: str = "any") -> NDArray[np.int64]:
        """Return the codes that a filter by labels keeps; unknown labels match nothing.

        match : {"any", "all", "branch"}, default="any"
            Codes with one of the labels, with all of them, or with one of them or a path below it.
        """
        check_choice("match", match, ("any", "all", "branch"))
        wanted = list(dict.fromkeys(self._same_kind(labels).tolist()))
        if match == "branch":
            if self.kind != "str":
                raise ValueError(f"match='branch': expected labels of kind str in the index; it has kind {self.kind}")
            starts = tuple(f"{label}{SEPARATOR}" for label in wanted)
            wanted = [value for value in self.values if value in wanted or value.startswith(starts)]
        found = [self._place.get(value) for value in wanted]
        if match == "all":
            if not found:
                raise ValueError("labels has no label; expected at least one with match='all'")
            if None in found or (self.sets is None and len(found) > 1):
                return np.empty(0, dtype=np.int64)
        places = np.array([place for place in found if place is not None], dtype=np.int64)
        if self.sets is None:
            return places
        if self._with_label is None:
            self._with_label = self.sets.tocsc()
        cuts, sets = self._with_label.indptr, self._with_label.indices
        having = [sets[cuts[place] : cuts[place + 1]] for place in places.tolist()]
        codes, counts = np.unique(np.concatenate([sets[:0], *having]), return_counts=True)
        return (codes[counts == len(places)] if match == "all" else codes).astype(np.int64)

    def decode(self, codes: NDArray[np.integer]) -> NDArray[Any]:
        """Return the labels of codes of any shape; code -1 (a missing match) gives -1, "" or False, by kind.

        With several labels per code, these are sets; a missing match has an empty one.
        """
        n_codes = len(self.values) if self.sets is None else self.sets.shape[0]
        if codes.size and not -1 <= codes.min() <= codes.max() < n_codes:
            raise IndexCorruptError(
                f"label codes range from {codes.min()} to {codes.max()}, but the index has {n_codes} "
                "labels; its files are damaged, call verify() to find which"
            )
        if self.sets is not None:
            distinct, inverse = np.unique(codes, return_inverse=True)
            table = np.empty(len(distinct), dtype=object)
            cuts = self.sets.indptr
            for i, code in enumerate(distinct.tolist()):
                row = [] if code < 0 else self.sets.indices[cuts[code] : cuts[code + 1]]
                table[i] = {self.values[place] for place in row}
            return table[inverse.reshape(codes.shape)]
        missing = {"int": -1, "str": "", "bool": False}[self.kind]
        return np.array([*self.values, missing], dtype=_KINDS[self.kind])[codes]

    def _same_kind(self, labels: ArrayLike) -> NDArray[Any]:
        array, kind = as_labels(labels, "labels")
        if kind != self.kind and len(array) and (self.values or self.sets is None):
            hint = "" if not self.closed else (
                f", the classes of the weights, {_shown(self.values)} (see classes=)"
            )  # fmt: skip
            raise TypeError(f"labels has values of kind {kind}; expected kind {self.kind}{hint}")
        return array


def _rows(places: NDArray[np.integer], starts: NDArray[np.integer], n_labels: int) -> csr_matrix:
    """Return sets as a matrix: set i has the labels at places[starts[i]:starts[i + 1]]."""
    return csr_matrix((np.ones(len(places), dtype=np.uint8), places, starts), shape=(len(starts) - 1, n_labels))


def _row_keys(sets: csr_matrix) -> Iterator[bytes]:
    """Yield a key of each set: the places of its labels, ascending."""
    places = sets.indices.astype(np.int32)
    return (places[start:stop].tobytes() for start, stop in itertools.pairwise(sets.indptr.tolist()))


def named_columns(labels: Any, names: ArrayLike) -> list[list[Any]]:
    """Return the label sets of a 0/1 matrix whose columns have these names."""
    columns, _ = as_labels(names, "label_names")
    n_columns = labels.shape[1] if issparse(labels) or getattr(labels, "ndim", 0) == 2 else None
    if n_columns is None:
        raise ValueError("label_names is given, but labels is not a 0/1 matrix; expected None")
    if len(columns) != n_columns or len(set(columns.tolist())) != n_columns:
        raise ValueError(f"label_names has {len(columns)} names; expected {n_columns}, distinct, one per column")
    places, matrix = encode_label_sets(labels, name="labels")
    return label_sets(columns[places.astype(np.int64)], matrix)


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
    if are_label_sets(given):
        raise ValueError(f"{name} holds several labels for each; expected one, of shape (n,)")
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
