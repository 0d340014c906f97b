"""The queries of a scan: what each stored bit costs.

All distances have one form: d(q, h) = sum_s cost[q, s, h_s], where cost[q, s, b] >= 0 is the cost for query q
of bit s being b in the stored code. Weighted Hamming distance is cost = w_s [b differs from the bit of the query].
The asymmetric distance, with real-valued queries, has the same form. So the kernels only deal with costs.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_n_bits, check_weights, unpack
from cbid.search.checks import float32_scale
from cbid.search.segments import ANY

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Queries:
    """Queries against codes of ``n_bits``, made by `from_codes` or `from_projections`.

    It stores the codes (or real values) and the weights. The costs take 16 bytes per bit and query, so `costs`
    computes them for the few queries that a kernel scans at a time.
    """

    n_bits: int
    codes: NDArray[np.uint8] | None  # (q, ceil(t/8)), or None if `values` holds the queries
    values: NDArray[np.float32] | None  # (q, t); their signs are the bits
    weights: Floats | None  # None, (t,) or (q, t)

    @classmethod
    def from_codes(cls, codes: NDArray[np.uint8], n_bits: int, weights: ArrayLike | None = None) -> "Queries":
        """Make queries from packed codes (q, ceil(t/8)).

        ``weights``: None for plain Hamming distance, one vector (t,) or one per query (q, t).
        """
        n_bits = check_n_bits(n_bits)
        codes = check_codes(codes, n_bits)
        return cls(n_bits, codes, None, _checked(weights, n_bits, len(codes)))

    @classmethod
    def from_projections(
        cls, projections: ArrayLike, weights: ArrayLike | None = None, *, scale: ArrayLike | None = None
    ) -> "Queries":
        """Make queries from real-valued projections z (q, t), whose signs are the bits: the asymmetric distance.

        A stored bit that differs from the sign of z_s costs w_s |z_s| / scale: the nearer the query is to the
        threshold of a bit, the less this bit counts. Without weights, the distance is a constant minus half the
        inner product of z and the stored signs. ``scale`` is a number or (t,). The default is the mean of |z| over
        the bits of each query, which makes the distance independent of the units of z; values of |z| / scale above
        t count as t.
        """
        z = np.asarray(projections)
        if z.dtype.kind not in "fiu":
            raise TypeError(f"projections has dtype {z.dtype}; expected real numbers")
        if z.ndim not in (1, 2) or z.shape[-1] == 0:
            raise ValueError(f"projections has shape {z.shape}; expected (q, t) or (t,)")
        z = np.atleast_2d(z)
        if not np.all(np.isfinite(z)):
            raise ValueError("projections has NaN or infinite entries; expected finite numbers")
        n_bits = z.shape[1]
        z = z.astype(np.float64, copy=False)
        if scale is None:
            mean = np.abs(z).mean(axis=1, keepdims=True)
            divisor = np.where(mean > 0, mean, 1.0)  # all projections zero: no bit costs anything
        else:
            divisor = np.asarray(scale, np.float64)
            if divisor.shape not in ((), (n_bits,)) or not np.all(np.isfinite(divisor) & (divisor > 0)):
                raise ValueError(
                    f"scale has shape {divisor.shape} and minimum {divisor.min(initial=np.inf):g}; "
                    f"expected a positive number or ({n_bits},) positive numbers"
                )
        with np.errstate(over="ignore"):  # a projection far above a tiny scale
            values = np.clip(z / divisor, -n_bits, n_bits).astype(np.float32)
        return cls(n_bits, None, values, _checked(weights, n_bits, len(values)))

    def __len__(self) -> int:
        held = self.codes if self.codes is not None else self.values
        assert held is not None
        return len(held)

    def costs(self, start: int, stop: int) -> tuple[Floats, Floats]:
        """Return the costs of a stored 0 and of a stored 1 for queries start <= q < stop, each (stop - start, t)."""
        if self.codes is not None:
            bits = np.unpackbits(self.codes[start:stop], axis=1, count=self.n_bits)
            if_zero, if_one = bits.astype(np.float64), (1 - bits).astype(np.float64)
        else:
            assert self.values is not None
            values = self.values[start:stop].astype(np.float64)
            if_zero, if_one = np.maximum(values, 0), np.maximum(-values, 0)
        if self.weights is not None:
            w = self.weights if self.weights.ndim == 1 else self.weights[start:stop]
            if_zero *= w
            if_one *= w
        return if_zero, if_one


class QueryBatch:
    """The queries of one search of an index, whose weights may depend on the class of the stored code.

    The weights are one vector, one per query, or one per class (``by_class``, (t, n_classes)). If they are too small
    for float32 they are multiplied by ``scale``, and so are the distances found.
    """

    def __init__(self, queries: Queries, by_class: Floats | None) -> None:
        self.scale = float32_scale(queries.weights if by_class is None else by_class)
        if self.scale != 1:
            if queries.weights is not None:
                queries = dataclasses.replace(queries, weights=queries.weights * self.scale)
            by_class = None if by_class is None else by_class * self.scale
        self._queries = queries
        self._by_class = by_class
        self._of_class: dict[int, Queries] = {}

    @classmethod
    def from_codes(
        cls, codes: NDArray[np.uint8], n_bits: int, own: Floats | None, given: ArrayLike | None
    ) -> "QueryBatch":
        """Use checked packed codes, with ``own`` weights of the index or those ``given`` for this search."""
        shared, by_class = _shared_or_by_class(own)
        if given is None:
            return cls(Queries(n_bits, codes, None, shared), by_class)  # all checked before
        return cls(Queries.from_codes(codes, n_bits, given), by_class)

    @classmethod
    def from_projections(
        cls, projections: ArrayLike, n_bits: int, own: Floats | None, given: ArrayLike | None
    ) -> "QueryBatch":
        """Use real-valued projections, one per bit."""
        shape = np.shape(projections)
        if len(shape) not in (1, 2) or shape[-1] != n_bits:
            raise ValueError(f"projections has shape {shape}; expected (q, {n_bits}) or ({n_bits},)")
        shared, by_class = _shared_or_by_class(own)
        return cls(Queries.from_projections(projections, shared if given is None else given), by_class)

    def __len__(self) -> int:
        return len(self._queries)

    def for_class(self, label: int) -> Queries:
        """Return the queries against stored codes of class ``label`` (ANY: of all classes)."""
        if self._by_class is None or label == ANY:
            return self._queries
        if label not in self._of_class:
            self._of_class[label] = dataclasses.replace(self._queries, weights=np.array(self._by_class[:, label]))
        return self._of_class[label]

    def values(self) -> NDArray[np.floating] | NDArray[np.int8]:
        """Return bits in -1/+1, or real values whose signs are the bits: (q, t)."""
        if self._queries.values is not None:
            return self._queries.values
        assert self._queries.codes is not None
        return unpack(self._queries.codes, self._queries.n_bits)

    def mean_weights(self) -> Floats | None:
        """Return the weights: None, (t,) or (q, t); the mean over the classes if they are per class."""
        return self._queries.weights if self._by_class is None else self._by_class.mean(axis=1)


def _shared_or_by_class(own: Floats | None) -> tuple[Floats | None, Floats | None]:
    return (None, own) if own is not None and own.ndim == 2 else (own, None)


def _checked(weights: ArrayLike | None, n_bits: int, n_queries: int) -> Floats | None:
    return None if weights is None else check_weights(weights, n_bits, n_rows=n_queries)
