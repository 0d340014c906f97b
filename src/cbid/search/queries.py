"""The query side of a scan: what each stored bit costs.

Every distance here has one form: d(q, h) = sum_s cost[q, s, h_s], with cost[q, s, b] >= 0 what it costs query
q that bit s of the stored code is b. Weighted Hamming is cost = w_s [b differs from the query's bit]; the
asymmetric distance, where the query stays real-valued, fits the same form, so the kernels know only costs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_n_bits, check_weights

__all__ = ["Queries"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Queries:
    """A batch of queries against codes of ``n_bits``; made by `from_codes` or `from_projections`.

    It keeps the codes (or soft values) and the weights as given; the costs, 16 bytes per bit and query, are
    made for the few queries that a kernel works on at a time.
    """

    n_bits: int
    codes: NDArray[np.uint8] | None  # (q, ceil(t/8)), or None when `values` holds the query side
    values: NDArray[np.float32] | None  # (q, t) in [-1, 1]
    weights: Floats | None  # None, (t,) or (q, t)

    @classmethod
    def from_codes(cls, codes: NDArray[np.uint8], n_bits: int, weights: ArrayLike | None = None) -> "Queries":
        """Packed codes (q, ceil(t/8)) under plain Hamming (``weights=None``), one weight vector (t,) or one
        per query (q, t)."""
        n_bits = check_n_bits(n_bits)
        codes = check_codes(codes, n_bits)
        return cls(n_bits, codes, None, _check(weights, n_bits, len(codes)))

    @classmethod
    def from_projections(
        cls, projections: ArrayLike, weights: ArrayLike | None = None, *, scale: ArrayLike | None = None
    ) -> "Queries":
        """Real-valued projections z (q, t), whose signs would be the bits: the asymmetric distance.

        The soft bit is v_s = tanh(2 z_s / scale) in [-1, 1]; a stored bit h_s in {-1, +1} costs w_s |v_s -
        h_s| / 2. Far from the threshold (v = -1 or +1) this is weighted Hamming; a projection near it costs
        about half a weight whichever bit is stored. ``scale`` is a number or (t,), by default the mean of |z|
        over the bits of each query, which makes the distance independent of the units of z.
        """
        z = np.asarray(projections)
        if z.dtype.kind not in "fiu":
            raise TypeError(f"projections has dtype {z.dtype}; real numbers are accepted")
        if z.ndim not in (1, 2) or z.shape[-1] == 0:
            raise ValueError(f"projections has shape {z.shape}; (q, t) or one query (t,) is accepted")
        z = np.atleast_2d(z)
        if not np.all(np.isfinite(z)):
            raise ValueError("projections has NaN or infinite entries; finite numbers are accepted")
        n_bits = z.shape[1]
        z = z.astype(np.float64, copy=False)
        if scale is None:
            mean = np.abs(z).mean(axis=1, keepdims=True)
            divisor = np.where(mean > 0, mean, 1.0)  # all projections zero: every soft bit is zero
        else:
            divisor = np.asarray(scale, np.float64)
            if divisor.shape not in ((), (n_bits,)) or not np.all(np.isfinite(divisor) & (divisor > 0)):
                raise ValueError(
                    f"scale has shape {divisor.shape} and least value {divisor.min(initial=np.inf):g}; "
                    f"a positive number or ({n_bits},) positive numbers are accepted"
                )
        # A projection far above a tiny scale is simply far: it may overflow, tanh takes it to 1.
        with np.errstate(over="ignore"):
            values = np.tanh(2 * (z / divisor)).astype(np.float32)
        return cls(n_bits, None, values, _check(weights, n_bits, len(values)))

    def __len__(self) -> int:
        held = self.codes if self.codes is not None else self.values
        assert held is not None
        return len(held)

    def costs(self, start: int, stop: int) -> tuple[Floats, Floats]:
        """Costs of a stored 0 and of a stored 1 for queries start <= q < stop, each (stop - start, t)."""
        if self.codes is not None:
            bits = np.unpackbits(self.codes[start:stop], axis=1, count=self.n_bits)
            if_zero, if_one = bits.astype(np.float64), (1 - bits).astype(np.float64)
        else:
            assert self.values is not None
            soft = self.values[start:stop].astype(np.float64)
            if_zero, if_one = (1 + soft) / 2, (1 - soft) / 2
        if self.weights is not None:
            w = self.weights if self.weights.ndim == 1 else self.weights[start:stop]
            if_zero *= w
            if_one *= w
        return if_zero, if_one


def _check(weights: ArrayLike | None, n_bits: int, n_queries: int) -> Floats | None:
    return None if weights is None else check_weights(weights, n_bits, n_rows=n_queries)
