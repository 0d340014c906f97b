"""The margin of every row as a linear map of the weights (docs/method.md, section 3).

rho_q = <C_q, W>. The four kinds of margin differ only in whose weights measure the row's two distances, so one
table describes them all and one solver serves them all.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbid.learning.rows import Rows
from cbid.learning.sides import Sides, Store

__all__ = ["MARGINS", "Columns"]

# kind -> (terms of the miss distance, terms of the hit distance); a term is a sign and the class whose weights
# measure it: "own" the anchor's (y), "other" the misses' (r), None the single shared vector.
MARGINS: dict[str, tuple[list[tuple[int, str | None]], list[tuple[int, str | None]]]] = {
    "shared": ([(+1, None)], [(-1, None)]),
    "class": ([(+1, "own")], [(-1, "own")]),
    "paper": ([(+1, "own"), (-1, "other")], [(-1, "own"), (+1, "other")]),
    "database": ([(+1, "other")], [(-1, "own")]),
}


class Columns:
    """The coefficients C of all rows, one column per bit, added one at a time.

    Only the sides' distances are stored, never a row-by-row copy, however many triplets share a side.
    """

    def __init__(self, rows: Rows, margin: str, capacity: int) -> None:
        self.rows = rows
        self.n_weights = 1 if margin == "shared" else rows.n_classes  # weight vectors
        self.n_bits = 0
        miss_terms, hit_terms = MARGINS[margin]
        miss = [(sign, self._place(whose, rows.miss, len(rows.misses))) for sign, whose in miss_terms]
        hit = [(sign, self._place(whose, rows.hit, len(rows.hits))) for sign, whose in hit_terms]
        if rows.hits is rows.misses:
            self._groups = [_Group(rows.misses, rows.misses.store(capacity), miss + hit)]
        else:
            self._groups = [
                _Group(rows.misses, rows.misses.store(capacity), miss),
                _Group(rows.hits, rows.hits.store(capacity), hit),
            ]

    def _place(self, whose: str | None, side: NDArray[np.int32], n_sides: int) -> NDArray[np.intp]:
        """Where in a flattened (n_weights, n_sides) table each row finds its term."""
        if whose is None:
            return side.astype(np.intp)
        return getattr(self.rows, whose).astype(np.intp) * n_sides + side

    def append(self, h: NDArray[np.float32]) -> None:
        """Add the bit whose values on the training samples are h (n,), in -1/+1."""
        for group in self._groups:
            group.store.append(h)
        self.n_bits += 1

    def margins(self, W: NDArray[np.floating], *, precise: bool = False) -> NDArray[np.floating]:
        """rho (R,) under weights W (t, n_weights); in float32, or ``precise`` in float64."""
        weights: NDArray[np.floating] = W.T.astype(np.float64 if precise else np.float32, order="C")
        rho = np.zeros(len(self.rows), dtype=weights.dtype)
        if self.n_bits:
            for group in self._groups:
                table = group.store.weighted(weights).ravel()
                for sign, place in group.terms:
                    rho += sign * table[place]
        return rho

    def side_weights(self, u: NDArray[np.floating]) -> list[NDArray[np.float64]]:
        """How much each side's distance counts in (1/R) sum_q u_q rho_q, per weight vector.

        An array (n_weights, sides) for each kind of side: misses and hits, or both in one. They turn a sum over rows
        into a sum over pairs: every row that shares a pair has been added up.
        """
        sums = []
        for group in self._groups:
            total = np.zeros(self.n_weights * len(group.sides))
            for sign, place in group.terms:
                total += sign * np.bincount(place, weights=u, minlength=len(total))
            sums.append((total / len(self.rows)).reshape(self.n_weights, len(group.sides)))
        return sums

    def correlations(self, u: NDArray[np.floating], *, precise: bool = False) -> NDArray[np.float64]:
        """G(u) = (1/R) sum_q u_q C_q, (t, n_weights)."""
        dtype = np.float64 if precise else np.float32
        G = np.zeros((self.n_bits, self.n_weights))
        for group, per_side in zip(self._groups, self.side_weights(u)):
            G += group.store.summed(per_side.astype(dtype, copy=False))
        return G

    def dense(self) -> NDArray[np.float64]:
        """C as a matrix (R, t * n_weights) for solvers that want one; column s * n_weights + c is W[s, c]."""
        size = self.n_bits * self.n_weights
        C = np.empty((len(self.rows), size))
        for column in range(size):
            unit = np.zeros((self.n_bits, self.n_weights))
            unit.flat[column] = 1
            C[:, column] = self.margins(unit, precise=True)
        return C


@dataclass(frozen=True)
class _Group:
    """One kind of side, the store of its distances, and the margin's terms over it."""

    sides: Sides
    store: Store
    terms: list[tuple[int, NDArray[np.intp]]]
