"""What belongs to a collection: code length, weights, kind of labels. Kept in its description, as JSON."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_n_bits, n_bytes
from cbid.search.checks import as_count, as_weights
from cbid.search.vocabulary import as_labels

__all__ = ["Settings"]

_FORMAT = 1
_KINDS = (None, "int", "str", "bool")
_MOST_BYTES = 1_000_000  # of a description; Milvus keeps it in etcd, which takes 1.5 MB
_MISSING = {None: 0, "int": -1, "str": "", "bool": False}
LONGEST_LABEL = 1024  # bytes of UTF-8


@dataclass(frozen=True, eq=False)
class Settings:
    """Fixed when a collection is created.

    weights: None, (n_bits,) or (n_bits, n_classes), then with ``classes``, the label of each column.
    labels: the kind of the labels, "int", "str" or "bool"; None without labels.
    cells: of Milvus's BIN_IVF_FLAT, of which a search scans ``probes``; None for BIN_FLAT.
    made_by: any text, such as a digest of the coder.
    """

    n_bits: int
    weights: NDArray[np.float64] | None = None
    classes: NDArray[Any] | None = None
    labels: str | None = None
    cells: int | None = None
    probes: int | None = None
    made_by: str = ""

    @classmethod
    def checked(
        cls,
        n_bits: int,
        weights: ArrayLike | None,
        classes: ArrayLike | None,
        labels: str | None,
        cells: int | None,
        probes: int | None,
        made_by: str,
    ) -> "Settings":
        n_bits = check_n_bits(n_bits)
        if labels not in _KINDS:
            raise ValueError(f"labels={labels!r}: expected the kind of labels: 'int', 'str', 'bool' or None")
        own = None if weights is None else as_weights(weights, n_bits)
        names = None
        if own is not None and own.ndim == 2:
            names, kind = as_labels(np.arange(own.shape[1]) if classes is None else classes, "classes")
            if len(names) != own.shape[1] or len(np.unique(names)) != len(names):
                found, wanted = len(np.unique(names)), own.shape[1]
                raise ValueError(f"classes has {found} distinct names; weights has {wanted} columns, one each")
            if labels is not None and labels != kind:
                raise ValueError(f"labels={labels!r}, but classes are of kind {kind!r}; they must be the same")
            labels = kind
        elif classes is not None:
            raise ValueError(
                "classes is given, but weights is not (n_bits, n_classes); it names the columns of these"
            )
        n_cells = None if cells is None else as_count(cells, "cells", at_least=2, at_most=65_536)
        if n_cells is None and probes is not None:
            raise ValueError(f"probes is {probes}, but cells is None; probes belongs to cells")
        n_probes = None
        if n_cells is not None:
            n_probes = max(n_cells // 32, 1) if probes is None else as_count(probes, "probes", at_most=n_cells)
        return cls(n_bits, own, names, labels, n_cells, n_probes, made_by)

    @property
    def n_dims(self) -> int:
        """Bits of a vector in Milvus: whole bytes, those past ``n_bits`` zero."""
        return 8 * n_bytes(self.n_bits)

    def to_json(self) -> str:
        text = json.dumps(
            {
                "cbid": _FORMAT,
                "n_bits": self.n_bits,
                "weights": None if self.weights is None else self.weights.tolist(),
                "classes": None if self.classes is None else self.classes.tolist(),
                "labels": self.labels,
                "cells": self.cells,
                "probes": self.probes,
                "made_by": self.made_by,
            }
        )
        if len(text) > _MOST_BYTES:
            raise ValueError(
                f"weights and classes take {len(text):,} bytes as text; the description of a collection takes "
                f"{_MOST_BYTES:,}"
            )
        return text

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """A ValueError for any other text."""
        try:
            told = json.loads(text)
            if told["cbid"] != _FORMAT:
                raise ValueError(f"it was made by another version of cbid (format {told['cbid']})")
            names = ("n_bits", "weights", "classes", "labels", "cells", "probes", "made_by")
            return cls.checked(*(told[name] for name in names))
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError("its description was not written by cbid") from error
        except json.JSONDecodeError as error:
            raise ValueError("its description was not written by cbid") from error

    def other(self, found: "Settings") -> str:
        """In which of them that change the answers another's settings differ, in words; empty if in none.

        Cells that are not asked for may be there or not.
        """
        if self.n_bits != found.n_bits:
            return f"codes of {found.n_bits} bits, not {self.n_bits}"
        if self.labels != found.labels:
            return f"labels of kind {found.labels}, not {self.labels}"
        if not (_equal(self.weights, found.weights) and _equal(self.classes, found.classes)):
            return "other weights"
        if self.cells is not None and (self.cells, self.probes) != (found.cells, found.probes):
            there = "no cells" if found.cells is None else f"{found.probes} of {found.cells} cells probed"
            return f"{there}, not {self.probes} of {self.cells}"
        return "" if self.made_by == found.made_by else "codes of another coder"

    # Labels

    def as_labels(self, labels: ArrayLike | None, n: int | None = None) -> NDArray[Any]:
        """Labels (n,) as Milvus stores them: int64 or str; zeros where the collection has none."""
        if self.labels is None:
            if labels is not None:
                raise ValueError("labels is given, but this collection was created without labels")
            return np.zeros(n or 0, dtype=np.int64)
        if labels is None:
            raise ValueError(f"labels is None; this collection holds labels of kind {self.labels}, one a code")
        array, kind = as_labels(labels, "labels")
        if n is not None and len(array) != n:
            raise ValueError(f"labels has {len(array)} entries; {n} codes were given, and each takes one")
        if len(array) and kind != self.labels:
            raise TypeError(f"labels has values of kind {kind}; this collection holds labels of kind {self.labels}")
        if n is not None and self.classes is not None and not np.isin(array, self.classes).all():
            other = array[~np.isin(array, self.classes)][0]
            raise ValueError(f"labels holds {other.item()!r}; weights were given per class, and none for it")
        if kind == "str":
            distinct = set(array.tolist())
            longest = max((len(label.encode()) for label in distinct), default=0)
            if longest > LONGEST_LABEL:
                raise ValueError(f"labels holds one of {longest} bytes; at most {LONGEST_LABEL} are accepted")
            if any("\n" in label or "\r" in label for label in distinct):
                raise ValueError("labels holds one of several lines; Milvus could not filter by it")
            return array
        return array.astype(np.int64)

    def decoded(self, stored: list[Any]) -> NDArray[Any]:
        """Labels as they were given, from what Milvus stores; without labels, zeros."""
        return np.array(stored, dtype={"str": str, "bool": bool}.get(self.labels or "int", np.int64))

    @property
    def missing(self) -> Any:
        """The label in the place of a match that is missing."""
        return _MISSING[self.labels]

    def weights_of(self, label: Any) -> NDArray[np.float64]:
        """The column of weights of one class."""
        assert self.weights is not None
        assert self.classes is not None
        return self.weights[:, np.flatnonzero(self.classes == label)[0]]


def _equal(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return (a is None) == (b is None) and (a is None or b is None or np.array_equal(a, b))
