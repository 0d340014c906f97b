"""The margin of every row as a linear map of the weights (docs/method.md, section 3).

rho_q = <C_q, W>. The four kinds of margin differ only in whose weights measure the row's two distances, so one
table describes them all and one solver serves them all.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from cbid.learning.rows import Rows
from cbid.learning.sides import Sides, Store
from cbid.threads import blocks_of, each

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

    Only the sides' distances are stored, never a row-by-row copy, however many triplets share a side. Weight vectors
    are gone through one at a time, over the sides that they measure: nothing has the size of sides times classes.
    """

    def __init__(self, rows: Rows, margin: str, capacity: int) -> None:
        self.rows = rows
        self.n_weights = 1 if margin == "shared" else rows.n_classes  # weight vectors
        self.n_bits = 0
        self.margin = margin
        self._blocks: list[_Block] | None = None
        self._totals: dict[int, tuple[int, NDArray[np.float64]]] = {}
        miss_terms, hit_terms = MARGINS[margin]
        miss = [(sign, whose, rows.miss) for sign, whose in miss_terms]
        hit = [(sign, whose, rows.hit) for sign, whose in hit_terms]
        if rows.hits is rows.misses:
            self._groups = [self._group(rows.misses, capacity, miss + hit)]
        else:
            self._groups = [self._group(rows.misses, capacity, miss), self._group(rows.hits, capacity, hit)]

    def _group(self, sides: Sides, capacity: int, terms: list[tuple[int, str | None, NDArray[np.int32]]]) -> "_Group":
        if self.n_weights == 1:
            everywhere = [_Term(sign, None, side) for sign, _, side in terms]
            return _Group(len(sides), sides.store(capacity), [_Part(None, everywhere)])
        parts = []
        by_class = [_by_class(getattr(self.rows, str(whose)), self.n_weights) for _, whose, _ in terms]
        for c in range(self.n_weights):
            of_class = [(sign, rows[c], side[rows[c]]) for (sign, _, side), rows in zip(terms, by_class)]
            used, place = np.unique(np.concatenate([side for *_, side in of_class]), return_inverse=True)
            cuts = np.cumsum([len(side) for *_, side in of_class])[:-1]
            placed = zip(of_class, np.split(place, cuts))
            parts.append(_Part(used, [_Term(sign, rows, at) for (sign, rows, _), at in placed]))
        return _Group(len(sides), sides.store(capacity), parts)

    def append(self, h: NDArray[np.float32]) -> None:
        """Add the bit whose values on the training samples are h (n,), in -1/+1."""
        for group in self._groups:
            group.store.append(h)
        self.n_bits += 1

    def margins(self, W: NDArray[np.floating], *, precise: bool = False, n_threads: int = 1) -> NDArray[np.floating]:
        """rho (R,) under weights W (t, n_weights); in float32, or ``precise`` in float64."""
        weights: NDArray[np.floating] = W.T.astype(np.float64 if precise else np.float32, order="C")
        rho = np.zeros(len(self.rows), dtype=weights.dtype)
        if self.n_bits:
            for group in self._groups:
                for w, part in zip(weights, group.parts):
                    distances = group.store.weighted(w, part.sides, n_threads=n_threads)
                    for term in part.terms:
                        term.add(rho, distances, n_threads)
        return rho

    def total(self, bits: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return rho (R,) if ``bits`` have weight one and all others zero; one weight vector.

        The sum is kept for the bits that begin with the same one: those that join them later are added.
        """
        first, count = int(bits[0]), len(bits)
        known, rho = self._totals.get(first, (0, np.empty(0)))
        if not 0 < known <= count:
            known, rho = 0, np.zeros(len(self.rows))
        for bit in bits[known:].tolist():
            for group in self._groups:
                distances = group.store.of_bit(bit)
                for term in group.parts[0].terms:
                    term.add(rho, distances, 1)
        self._totals[first] = count, rho
        return rho

    def side_weights(self, u: NDArray[np.floating]) -> Iterator[list[NDArray[np.float64]]]:
        """How much each side's distance counts in (1/R) sum_q u_q rho_q, for one weight vector after the other.

        An array (sides,) for each kind of side: misses and hits, or both in one. They turn a sum over rows into a sum
        over pairs: every row that shares a pair has been added up.
        """
        for c in range(self.n_weights):
            per_kind = []
            for group in self._groups:
                part = group.parts[c]
                sums = self._summed_up(part, group, u)
                if part.sides is not None:
                    everywhere = np.zeros(group.n_sides)
                    everywhere[part.sides] = sums
                    sums = everywhere
                per_kind.append(sums)
            yield per_kind

    def _summed_up(
        self, part: "_Part", group: "_Group", u: NDArray[np.floating], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """u of the rows, added up over the sides of a part."""
        size = group.n_sides if part.sides is None else len(part.sides)
        totals = each(lambda term: term.added_up(size, u), part.terms, n_threads)
        total = totals[0]
        for other in totals[1:]:
            total += other
        total /= len(self.rows)
        return total

    def correlations(
        self, u: NDArray[np.floating], *, precise: bool = False, n_threads: int = 1
    ) -> NDArray[np.float64]:
        """G(u) = (1/R) sum_q u_q C_q, (t, n_weights)."""
        dtype = np.float64 if precise else np.float32
        threads = n_threads if len(self.rows) > _FEW_ROWS else 1

        def of_part(task: tuple[_Group, _Part]) -> NDArray[np.floating]:
            group, part = task
            per_side: NDArray[np.floating] = self._summed_up(part, group, u, threads).astype(dtype, copy=False)
            return group.store.summed(per_side, part.sides, n_threads=n_threads)

        tasks = [(group, part) for group in self._groups for part in group.parts]
        found = each(of_part, tasks, threads)
        return np.sum(np.reshape(found, (len(self._groups), self.n_weights, self.n_bits)), axis=0).T

    @property
    def compares(self) -> bool:
        """Whether every weight vector measures hits as it measures misses, so that C_q is made of a_q alone."""
        miss_terms, hit_terms = MARGINS[self.margin]
        return hit_terms == [(-sign, whose) for sign, whose in miss_terms]

    def curvature(self, v: NDArray[np.floating]) -> NDArray[np.float64]:
        """(1/R) sum_q v_q C_q C_q', (t * n_weights, t * n_weights), in the order of ``dense``; margins that compare.

        Rows of one pair of classes have the same weight vectors, so sum_q v_q a_q a_q' over them is all that is
        needed. It is D' L D, with the distances D of their sides, and L the Laplacian of the graph that joins the hit
        and the miss of every row. Products are in float32.
        """
        assert self.compares
        if self._blocks is None:
            self._blocks = list(self._make_blocks())
        terms = MARGINS[self.margin][0]
        misses, hits = self._groups[0].store, self._groups[-1].store
        t, k = self.n_bits, self.n_weights
        total = np.zeros((k, k, t, t), dtype=np.float32)
        for block in self._blocks:
            D = np.vstack([misses.distances(block.misses), hits.distances(block.hits)])
            LD = np.zeros_like(D)
            _laplacian_of_rows(block.rows, block.first, block.second, v, D, LD)
            product = D.T @ LD
            whose = {None: 0, "own": block.own, "other": block.other}
            for sign, left in terms:
                for other_sign, right in terms:
                    total[whose[left], whose[right]] += np.float32(sign * other_sign) * product
        return total.transpose(2, 0, 3, 1).reshape(t * k, t * k).astype(np.float64) / len(self.rows)

    def _make_blocks(self) -> "Iterator[_Block]":
        """Yield blocks of rows that have the same weight vectors, none of them large."""
        rows = self.rows
        if self.n_weights == 1:
            order, ends = np.arange(len(rows)), np.array([], dtype=np.intp)
        else:
            classes = rows.own.astype(np.int64) * self.n_weights + rows.other
            order = np.argsort(classes, kind="stable")
            ends = np.flatnonzero(np.diff(classes[order])) + 1
        for same in np.split(order, ends):
            for start in range(0, len(same), _MOST_IN_BLOCK):
                part = same[start : start + _MOST_IN_BLOCK]
                own, other = (0, 0) if self.n_weights == 1 else (int(rows.own[part[0]]), int(rows.other[part[0]]))
                yield _Block.of(part, rows, own, other)

    def dense(self) -> NDArray[np.float64]:
        """C as a matrix (R, t * n_weights) for solvers that want one; column s * n_weights + c is W[s, c]."""
        size = self.n_bits * self.n_weights
        C = np.empty((len(self.rows), size))
        for column in range(size):
            unit = np.zeros((self.n_bits, self.n_weights))
            unit.flat[column] = 1
            C[:, column] = self.margins(unit, precise=True)
        return C


# Rows of which margins are added at a time; below so many, threads cost more than they give.
_ROWS_IN_BLOCK = _FEW_ROWS = 65_536


@numba.njit(nogil=True, cache=True)
def _add(rho, rows, sign, distances, place):  # type: ignore[no-untyped-def]
    for q in range(len(rows)):
        rho[rows[q]] += sign * distances[place[q]]


@numba.njit(nogil=True, cache=True)
def _add_all(rho, sign, distances, place):  # type: ignore[no-untyped-def]
    for q in range(len(rho)):
        rho[q] += sign * distances[place[q]]


@numba.njit(nogil=True, cache=True)
def _add_up(total, place, sign, u, rows):  # type: ignore[no-untyped-def]
    for q in range(len(rows)):
        total[place[q]] += sign * u[rows[q]]


@numba.njit(nogil=True, cache=True)
def _add_all_up(total, place, sign, u):  # type: ignore[no-untyped-def]
    for q in range(len(u)):
        total[place[q]] += sign * u[q]


def _by_class(numbers: NDArray[np.integer], n_classes: int) -> list[NDArray[np.intp]]:
    """The rows of each class."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, n_classes)))


_MOST_IN_BLOCK = 16_384  # rows whose distances are held unpacked at a time


@dataclass(frozen=True)
class _Block:
    """Rows of one pair of classes.

    rows : the numbers of the rows
    misses, hits : the sides that they compare
    first, second : the two sides of each row, by their places in ``misses`` followed by ``hits``
    """

    own: int
    other: int
    rows: NDArray[np.intp]
    misses: NDArray[np.integer]
    hits: NDArray[np.integer]
    first: NDArray[np.intp]
    second: NDArray[np.intp]

    @classmethod
    def of(cls, rows: NDArray[np.intp], every: Rows, own: int, other: int) -> "_Block":
        misses, miss = np.unique(every.miss[rows], return_inverse=True)
        hits, hit = np.unique(every.hit[rows], return_inverse=True)
        return cls(own, other, rows, misses, hits, miss, len(misses) + hit)


@numba.njit(nogil=True, cache=True, fastmath=True)
def _laplacian_of_rows(rows, first, second, v, D, out):  # type: ignore[no-untyped-def]
    for q in range(len(rows)):
        i, j, value = first[q], second[q], np.float32(v[rows[q]])
        for s in range(D.shape[1]):
            change = value * (D[i, s] - D[j, s])
            out[i, s] += change
            out[j, s] -= change


@dataclass(frozen=True)
class _Term:
    """A signed distance in the margins of some rows; place: where among the sides of the part each row finds it."""

    sign: int
    rows: NDArray[np.intp] | None  # None: all
    place: NDArray[np.integer]

    def add(self, rho: NDArray[np.floating], distances: NDArray[np.floating], n_threads: int) -> None:
        """Add the signed distances (sides,) to the margins of the rows."""
        rows, place, sign = self.rows, self.place, rho.dtype.type(self.sign)

        def of_block(block: slice) -> None:
            if rows is None:
                _add_all(rho[block], sign, distances, place[block])
            else:
                _add(rho, rows[block], sign, distances, place[block])

        each(of_block, blocks_of(len(place), _ROWS_IN_BLOCK), n_threads)

    def added_up(self, n_sides: int, u: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the signed u of the rows, added up over the sides (n_sides,)."""
        total = np.zeros(n_sides)
        if self.rows is None:
            _add_all_up(total, self.place, self.sign, u)
        else:
            _add_up(total, self.place, self.sign, u, self.rows)
        return total


@dataclass(frozen=True)
class _Part:
    """What one weight vector measures: the numbers of its sides (None: all), and the terms over them."""

    sides: NDArray[np.integer] | None
    terms: list[_Term]


@dataclass(frozen=True)
class _Group:
    """One kind of side, the store of its distances, and the part of every weight vector."""

    n_sides: int
    store: Store
    parts: list[_Part]
