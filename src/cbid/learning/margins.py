"""The margin of every row as a linear map of the weights (METHOD section 3).

rho_q = <C_q, W>. The four kinds of margin differ only in whose weights measure the row's two distances, so one
table describes them all and one solver serves them all.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.learning.rows import Rows

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

    Distances are stored per side, t x (miss sides) and t x (hit sides) float32: with ``triplets="mean"`` that is
    4 t n k bytes, and no row-by-row copy is made however many triplets share a side.
    """

    def __init__(self, rows: Rows, margin: str, capacity: int) -> None:
        self.rows = rows
        self.n_weights = 1 if margin == "shared" else rows.n_classes  # weight vectors
        self.n_bits = 0
        self._miss = np.empty((capacity, len(rows.misses)), dtype=np.float32)
        self._hit = np.empty((capacity, len(rows.hits)), dtype=np.float32)
        miss_terms, hit_terms = MARGINS[margin]
        self._miss_terms = [(sign, self._place(c, rows.miss, len(rows.misses))) for sign, c in miss_terms]
        self._hit_terms = [(sign, self._place(c, rows.hit, len(rows.hits))) for sign, c in hit_terms]

    def _place(self, whose: str | None, side: NDArray[np.int32], n_sides: int) -> NDArray[np.intp]:
        """Where in a flattened (n_weights, n_sides) table each row finds its term."""
        if whose is None:
            return side.astype(np.intp)
        return getattr(self.rows, whose).astype(np.intp) * n_sides + side

    def append(self, h: NDArray[np.float32]) -> None:
        """Add the bit whose values on the training samples are h (n,), in -1/+1."""
        self._miss[self.n_bits] = self.rows.misses.distances(h)
        self._hit[self.n_bits] = self.rows.hits.distances(h)
        self.n_bits += 1

    def margins(self, W: NDArray[np.floating]) -> NDArray[np.float32]:
        """rho (R,) under weights W (t, n_weights)."""
        weights = W.T.astype(np.float32, order="C")
        by_miss = (weights @ self._miss[: self.n_bits]).ravel()
        by_hit = (weights @ self._hit[: self.n_bits]).ravel()
        rho = np.zeros(len(self.rows), dtype=np.float32)
        for table, terms in ((by_miss, self._miss_terms), (by_hit, self._hit_terms)):
            for sign, place in terms:
                rho += sign * table[place]
        return rho

    def side_weights(self, u: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """How much each side's distance counts in (1/R) sum_q u_q rho_q, per weight vector.

        Two arrays, (n_weights, miss sides) and (n_weights, hit sides). They turn a sum over rows into a sum over
        pairs: every row that shares a pair has been added up.
        """
        sums = []
        for terms, n_sides in (
            (self._miss_terms, len(self.rows.misses)),
            (self._hit_terms, len(self.rows.hits)),
        ):
            total = np.zeros(self.n_weights * n_sides)
            for sign, place in terms:
                total += sign * np.bincount(place, weights=u, minlength=len(total))
            sums.append((total / len(self.rows)).astype(np.float32).reshape(self.n_weights, n_sides))
        return sums[0], sums[1]

    def correlations(self, u: NDArray[np.floating]) -> NDArray[np.float64]:
        """G(u) = (1/R) sum_q u_q C_q, (t, n_weights)."""
        miss, hit = self.side_weights(u)
        G = self._miss[: self.n_bits] @ miss.T + self._hit[: self.n_bits] @ hit.T
        return G.astype(np.float64)

    def dense(self) -> NDArray[np.float64]:
        """C as a matrix (R, t * n_weights) for solvers that want one; column s * n_weights + c is W[s, c]."""
        R, c = len(self.rows), self.n_weights
        C = np.zeros((R, self.n_bits, c))
        rows = np.arange(R)
        for table, terms in ((self._miss, self._miss_terms), (self._hit, self._hit_terms)):
            for sign, place in terms:
                whose, side = np.divmod(place, table.shape[1])
                C[rows, :, whose] += sign * table[: self.n_bits, side].T
        return C.reshape(R, self.n_bits * c)
