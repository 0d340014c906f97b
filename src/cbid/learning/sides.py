"""Sides: a sample against a set of samples, and the store of their distances under every bit.

Three kinds. ``PairSides`` lists the members of each set, for nearest or drawn neighbours. ``BagSides`` averages such
sides over the patches of a bag, so that a whole image is compared at once. ``WholeClassSides`` compares every sample
with every whole class: its distances follow from class means, 1 - h_i mean_r(h), so that nothing of the size of the
pairs is ever stored.
"""

from typing import Any, Protocol

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cbid.threads import blocks_of, each

__all__ = ["BagSides", "ListedSides", "PairSides", "Sides", "Store", "WholeClassSides", "single_sides"]

Indices = NDArray[np.int32]
Bits = NDArray[np.float32]  # (n,) in -1/+1
Array = NDArray[np.floating]


class Store(Protocol):
    """Distances of S sides under t bits, D (t, S), in whatever form is compact."""

    def append(self, h: Bits) -> None:
        """Take in one more bit."""

    def weighted(self, weights: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        """weights (t,) @ D, (S,), or (m,) of the m ``sides`` alone, in the precision of ``weights``."""

    def summed(self, per_side: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        """D @ per_side, (t,), for per_side (S,), or (m,) over the m ``sides`` alone, in its precision."""

    def distances(self, sides: NDArray[np.integer]) -> NDArray[np.float32]:
        """Distances of m ``sides`` under every bit, (m, t)."""

    def of_bit(self, bit: int) -> NDArray[np.float64]:
        """Distances of all sides under one bit, (S,)."""


class Sides(Protocol):
    """S comparisons of a sample with a set."""

    def __len__(self) -> int: ...

    def store(self, capacity: int) -> Store:
        """An empty store for up to ``capacity`` bits."""


class ListedSides(Sides, Protocol):
    """Sides whose distance is a weighted sum over listed pairs of samples."""

    def distances(self, h: Bits) -> Bits:
        """The distance of every side under one bit, (S,)."""

    def pairs(self) -> tuple[Indices, Indices, Indices, NDArray[np.float32]]:
        """All pairs: sample, other sample, the side they belong to, and their share in its distance."""


class PairSides:
    """Sides with listed members.

    anchor : (S,) sample numbers
    mean : (S, n) sparse; mean[s] averages over the members of side s
    """

    def __init__(self, anchor: Indices, members: Indices, n: int) -> None:
        """``members`` (S, m), where -1 is no member."""
        there = members >= 0
        count = there.sum(axis=1)
        indptr = np.concatenate([[0], np.cumsum(count)])
        data = np.repeat((1 / np.maximum(count, 1)).astype(np.float32), count)
        self.anchor = anchor
        self.mean = csr_matrix((data, members[there], indptr), shape=(len(anchor), n))

    @classmethod
    def ragged(
        cls, anchor: NDArray[np.integer], members: NDArray[np.integer], indptr: NDArray[np.integer], n: int
    ) -> "PairSides":
        """Sides whose members are ``members[indptr[s]:indptr[s + 1]]``; one that comes twice counts twice."""
        sides = cls.__new__(cls)
        count = np.diff(indptr)
        data = np.repeat((1 / count).astype(np.float32), count)
        sides.anchor = anchor.astype(np.int32)
        sides.mean = csr_matrix((data, members.astype(np.int32), indptr), shape=(len(anchor), n))
        return sides

    def __len__(self) -> int:
        return len(self.anchor)

    def distances(self, h: Bits) -> Bits:
        """Mean |h_i - h_j| per side, (S,), for one bit, where |h_i - h_j| = 1 - h_i h_j."""
        return 1 - h[self.anchor] * (self.mean @ h)

    def pairs(self) -> tuple[Indices, Indices, Indices, NDArray[np.float32]]:
        side = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.mean.indptr))
        return self.anchor[side], self.mean.indices, side, self.mean.data

    def store(self, capacity: int) -> "_DenseStore | _PairStore":
        if len(self) and (np.diff(self.mean.indptr) == 1).all():
            return _PairStore(self.anchor, self.mean.indices, capacity)
        return _DenseStore(self, capacity)


class BagSides:
    """Sides of bags: side b is the mean, or the sum, over the sides of its patches (docs/method.md, section 8).

    patches : P sides, one for each patch
    mean : (S, P) sparse; mean[b] averages (or adds up) the patches of side b
    """

    def __init__(self, patches: PairSides, bag: Indices, *, total: bool = False) -> None:
        """``bag`` (P,), numbers 0..S-1, each used: the side that the patch's side goes into; ``total``: sums."""
        count = np.bincount(bag)
        share = np.ones(len(bag), np.float32) if total else (1 / count[bag]).astype(np.float32)
        self.patches = patches
        self.mean = csr_matrix((share, (bag, np.arange(len(bag)))), shape=(len(count), len(bag)))

    def __len__(self) -> int:
        return int(self.mean.shape[0])

    def distances(self, h: Bits) -> Bits:
        """Mean over the patches of their mean distances, (S,)."""
        return self.mean @ self.patches.distances(h)

    def pairs(self) -> tuple[Indices, Indices, Indices, NDArray[np.float32]]:
        i, j, patch, share = self.patches.pairs()
        by_patch = self.mean.tocsc()  # each patch is in one bag, so its column has one entry
        return i, j, by_patch.indices[patch], share * by_patch.data[patch]

    def store(self, capacity: int) -> "_DenseStore":
        return _DenseStore(self, capacity)


def single_sides(anchor: Indices, members: Indices, n: int) -> tuple[PairSides, Indices]:
    """One side per pair, and the side's number for every place of ``members`` (-1 where there is none)."""
    there = members >= 0
    number = np.full(members.shape, -1, dtype=np.int32)
    number[there] = np.arange(there.sum(), dtype=np.int32)
    return PairSides(np.repeat(anchor, there.sum(axis=1)), members[there][:, None], n), number


class _DenseStore:
    """D' (S, capacity) itself, float32: what a side has under all bits lies together."""

    def __init__(self, sides: ListedSides, capacity: int) -> None:
        self.sides = sides
        self.n_bits = 0
        self._D = np.empty((len(sides), capacity), dtype=np.float32)

    def append(self, h: Bits) -> None:
        self._D[:, self.n_bits] = self.sides.distances(h)
        self.n_bits += 1

    def weighted(self, weights: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        if sides is not None:
            out = np.empty(len(sides), dtype=weights.dtype)
            _weighted_rows(self._D, sides, np.ascontiguousarray(weights), out)
            return out
        out = np.empty(len(self._D), dtype=weights.dtype)

        def of_block(block: slice) -> None:
            out[block] = self._of(block, weights.dtype) @ weights

        each(of_block, blocks_of(len(out), _BLOCK), n_threads)
        return out

    def summed(self, per_side: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        total = np.zeros(self.n_bits)
        if sides is not None:
            _summed_rows(self._D, sides, np.ascontiguousarray(per_side), np.zeros(self.n_bits, per_side.dtype), total)
            return total
        blocks = blocks_of(len(self._D), _BLOCK)
        for part in each(lambda block: per_side[block] @ self._of(block, per_side.dtype), blocks, n_threads):
            total += part
        return total

    def distances(self, sides: NDArray[np.integer]) -> NDArray[np.float32]:
        return self._D[sides, : self.n_bits]

    def of_bit(self, bit: int) -> NDArray[np.float64]:
        return self._D[:, bit].astype(np.float64)

    def _of(self, block: slice, dtype: np.dtype[Any]) -> Array:
        """Some rows of D' in a type; no second copy of the whole is ever held."""
        return self._D[block, : self.n_bits].astype(dtype, copy=False)


_BLOCK = 4096  # sides, or samples, that are summed in their own precision before they join a sum in float64


@numba.njit(nogil=True, cache=True, fastmath=True)
def _weighted_rows(D, sides, weights, out):  # type: ignore[no-untyped-def]
    for p in range(len(sides)):
        side = sides[p]
        total = weights[0] * D[side, 0]
        for s in range(1, len(weights)):
            total += weights[s] * D[side, s]
        out[p] = total


@numba.njit(nogil=True, cache=True, fastmath=True)
def _summed_rows(D, sides, per_side, block, total):  # type: ignore[no-untyped-def]
    for start in range(0, len(sides), _BLOCK):
        block[:] = 0
        for p in range(start, min(start + _BLOCK, len(sides))):
            side, value = sides[p], per_side[p]
            for s in range(len(block)):
                block[s] += value * D[side, s]
        for s in range(len(block)):
            total[s] += block[s]


class _PairStore:
    """Sides of one pair each: whether its samples differ under each bit, packed; D is 2 or 0.

    A byte holds eight bits, so eight products are one look into a table of 256 sums.
    """

    def __init__(self, first: Indices, second: Indices, capacity: int) -> None:
        self.first, self.second = first, second
        self.n_bits = 0
        self._packed = np.zeros((len(first), (capacity + 7) // 8), dtype=np.uint8)  # bit s in byte s // 8, low first

    def append(self, h: Bits) -> None:
        differ = h[self.first] != h[self.second]
        self._packed[:, self.n_bits // 8] |= differ.astype(np.uint8) << (self.n_bits % 8)
        self.n_bits += 1

    def weighted(self, weights: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        by_byte = np.zeros((self._n_bytes, 8), dtype=weights.dtype)
        by_byte.ravel()[: self.n_bits] = 2 * weights
        table = by_byte @ _BITS_OF_BYTE.T.astype(weights.dtype)  # (bytes, 256)
        out = np.empty(len(self.first) if sides is None else len(sides), dtype=weights.dtype)

        def of_block(block: slice) -> None:
            if sides is None:
                _look_up(self._packed[block], table, out[block])
            else:
                _look_up_some(self._packed, sides[block], table, out[block])

        each(of_block, blocks_of(len(out), 16 * _BLOCK), n_threads)
        return out

    def summed(self, per_side: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        table = np.zeros((self._n_bytes, 256))
        if sides is None:
            _gather(self._packed, per_side, table)
        else:
            _gather_some(self._packed, sides, per_side, table)
        return 2 * (table @ _BITS_OF_BYTE).ravel()[: self.n_bits]

    def distances(self, sides: NDArray[np.integer]) -> NDArray[np.float32]:
        differ = np.unpackbits(self._packed[sides], axis=1, count=self.n_bits, bitorder="little")
        return np.multiply(differ, np.float32(2), dtype=np.float32)

    def of_bit(self, bit: int) -> NDArray[np.float64]:
        differ = self._packed[:, bit // 8] >> (bit % 8) & 1
        return np.multiply(differ, 2.0, dtype=np.float64)

    @property
    def _n_bytes(self) -> int:
        return (self.n_bits + 7) // 8


_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.float64)


@numba.njit(nogil=True, cache=True)
def _look_up(packed, table, out):  # type: ignore[no-untyped-def]
    for side in range(len(out)):
        total = table[0, packed[side, 0]]
        for b in range(1, len(table)):
            total += table[b, packed[side, b]]
        out[side] = total


@numba.njit(nogil=True, cache=True)
def _look_up_some(packed, sides, table, out):  # type: ignore[no-untyped-def]
    for p in range(len(sides)):
        total = table[0, packed[sides[p], 0]]
        for b in range(1, len(table)):
            total += table[b, packed[sides[p], b]]
        out[p] = total


@numba.njit(nogil=True, cache=True)
def _gather(packed, per_side, table):  # type: ignore[no-untyped-def]
    for side in range(len(per_side)):
        value = np.float64(per_side[side])
        for b in range(len(table)):
            table[b, packed[side, b]] += value


@numba.njit(nogil=True, cache=True)
def _gather_some(packed, sides, per_side, table):  # type: ignore[no-untyped-def]
    for p in range(len(sides)):
        value = np.float64(per_side[p])
        for b in range(len(table)):
            table[b, packed[sides[p], b]] += value


class WholeClassSides:
    """Side i k + r compares sample i with all of class r; with all others of it when r is its own class.

    Its distance is 1 - h_i mean_r(h). In its own class the sample meets itself at distance zero, so the mean over the
    m - 1 others is m / (m - 1) times that.
    """

    def __init__(self, y: NDArray[np.integer], n_classes: int) -> None:
        self.y = y
        self.n_classes = n_classes
        self.sizes = np.bincount(y, minlength=n_classes).astype(np.float32)
        self.member = csr_matrix(
            (1 / self.sizes[y], (y, np.arange(len(y)))), shape=(n_classes, len(y)), dtype=np.float32
        )
        self.factor = np.ones((len(y), n_classes), dtype=np.float32)
        self.factor[np.arange(len(y)), y] = (self.sizes / np.maximum(self.sizes - 1, 1))[y]

    def __len__(self) -> int:
        return self.factor.size

    def means(self, h: Array) -> Array:
        """Mean of h over each class, (k,) or (k, ...)."""
        return self.member @ h

    def store(self, capacity: int) -> "_MeansStore":
        return _MeansStore(self, capacity)


class _MeansStore:
    """The bits and their class means: D[s, (i, r)] = factor_ir (1 - h_si mean_sr)."""

    def __init__(self, sides: WholeClassSides, capacity: int) -> None:
        self.sides = sides
        self.n_bits = 0
        self._H = np.empty((capacity, len(sides.y)), dtype=np.float32)
        self._means = np.empty((capacity, sides.n_classes), dtype=np.float32)

    def append(self, h: Bits) -> None:
        self._H[self.n_bits] = h
        self._means[self.n_bits] = self.sides.means(h)
        self.n_bits += 1

    def weighted(self, weights: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        samples, place = self._samples_of(sides)
        H, factor = self._H[: self.n_bits, samples], self.sides.factor[samples]
        distances = np.empty(factor.shape, dtype=weights.dtype)  # (samples, k)
        signed = -weights[:, None] * self._means[: self.n_bits]
        total = weights.sum()

        def of_block(block: slice) -> None:
            np.matmul(H[:, block].T.astype(weights.dtype, copy=False), signed, out=distances[block])
            distances[block] += total
            distances[block] *= factor[block]

        each(of_block, blocks_of(len(distances), _BLOCK), n_threads)
        return distances.ravel() if place is None else distances.ravel()[place]

    def summed(self, per_side: Array, sides: NDArray[np.integer] | None = None, *, n_threads: int = 1) -> Array:
        samples, place = self._samples_of(sides)
        factor = self.sides.factor[samples].astype(per_side.dtype, copy=False)
        V = np.zeros(factor.shape, dtype=per_side.dtype)
        V.ravel()[slice(None) if place is None else place] = per_side
        H = self._H[: self.n_bits, samples]

        def of_block(block: slice) -> tuple[Array, float]:
            V[block] *= factor[block]
            products = H[:, block].astype(per_side.dtype, copy=False) @ V[block]
            inner = np.einsum("tk,tk->t", products, self._means[: self.n_bits], dtype=np.float64)
            return inner, float(V[block].sum(dtype=np.float64))

        found = each(of_block, blocks_of(len(V), _BLOCK), n_threads)
        return sum(total for _, total in found) - np.sum([inner for inner, _ in found], axis=0)

    def distances(self, sides: NDArray[np.integer]) -> NDArray[np.float32]:
        samples, classes = np.divmod(sides, self.sides.n_classes)
        products = self._H[: self.n_bits, samples].T * self._means[: self.n_bits, classes].T
        return self.sides.factor[samples, classes][:, None] * (1 - products)

    def of_bit(self, bit: int) -> NDArray[np.float64]:
        distances = np.multiply.outer(-self._H[bit].astype(np.float64), self._means[bit].astype(np.float64))
        distances += 1
        distances *= self.sides.factor
        return distances.ravel()

    def _samples_of(
        self, sides: NDArray[np.integer] | None
    ) -> tuple[NDArray[np.integer] | slice, NDArray[np.integer] | None]:
        """The samples that sides are of, and the place of each side in the table (samples, k)."""
        if sides is None:
            return slice(None), None
        k = self.sides.n_classes
        samples, row = np.unique(sides // k, return_inverse=True)
        return samples, row * k + sides % k
