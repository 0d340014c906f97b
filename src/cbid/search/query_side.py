"""The query side of one search: queries for the kernels, by class of the stored item."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import unpack
from cbid.search.queries import Queries
from cbid.search.segments import ANY

__all__ = ["QuerySide"]


class QuerySide:
    """Queries under one weight vector, one per query, or one per class of the stored item (``by_class``)."""

    def __init__(self, queries: Queries, by_class: NDArray[np.float64] | None) -> None:
        self._queries = queries
        self._by_class = by_class
        self._made: dict[int, Queries] = {}

    @classmethod
    def hard(
        cls, codes: NDArray[np.uint8], n_bits: int, own: NDArray[np.float64] | None, given: ArrayLike | None
    ) -> "QuerySide":
        """Packed codes, checked; ``own``: the weights of the index, ``given``: those of this search."""
        shared, by_class = _shared_or_by_class(own)
        if given is None:
            return cls(Queries(n_bits, codes, None, shared), by_class)  # nothing to check a second time
        return cls(Queries.from_codes(codes, n_bits, given), by_class)

    @classmethod
    def soft(
        cls, projections: ArrayLike, n_bits: int, own: NDArray[np.float64] | None, given: ArrayLike | None
    ) -> "QuerySide":
        """Real-valued projections, one a bit."""
        shape = np.shape(projections)
        if len(shape) not in (1, 2) or shape[-1] != n_bits:
            raise ValueError(f"projections has shape {shape}; (q, {n_bits}), one real number a bit, is accepted")
        shared, by_class = _shared_or_by_class(own)
        return cls(Queries.from_projections(projections, shared if given is None else given), by_class)

    def __len__(self) -> int:
        return len(self._queries)

    def queries_of(self, label: int) -> Queries:
        """The queries against stored items of class ``label`` (ANY: of any)."""
        if self._by_class is None or label == ANY:
            return self._queries
        if label not in self._made:
            self._made[label] = dataclasses.replace(self._queries, weights=np.array(self._by_class[:, label]))
        return self._made[label]

    def values(self) -> NDArray[np.floating] | NDArray[np.int8]:
        """Bits in -1/+1, or soft bits between: (q, t)."""
        if self._queries.values is not None:
            return self._queries.values
        assert self._queries.codes is not None
        return unpack(self._queries.codes, self._queries.n_bits)

    def mean_weights(self) -> NDArray[np.float64] | None:
        """Weights None, (t,) or (q, t); the mean over the classes where each has its own."""
        return self._queries.weights if self._by_class is None else self._by_class.mean(axis=1)


def _shared_or_by_class(
    own: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    return (None, own) if own is not None and own.ndim == 2 else (own, None)
