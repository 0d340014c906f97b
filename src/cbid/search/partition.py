"""Codes in parts, such as the classes of their images: the distance to the nearest code of each part."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_n_bits, check_weights, n_bytes
from cbid.search.blocks import BLOCK, read_only, to_blocks
from cbid.search.buckets import sums_of_subsets
from cbid.search.kernels.compile import simd_wanted
from cbid.search.queries import Queries
from cbid.search.scan import even_edges, run_in_threads, thread_count, topk

Codes = NDArray[np.uint8]
Distances = NDArray[np.float32]
Floats = NDArray[np.float64]

BUCKETS_UP_TO = 32  # bits: buckets store codes as 32-bit words
_PADDING = 4 * BLOCK  # codes that the widest kernel scans at a time
_LONG = 384  # bits above which 8-bit sums, all that the kernel for parts has, let too many codes pass
_KEY_BITS = 16  # most bits of the key of a bucket table
_CODES_PER_BUCKET = 8  # a search gives up on buckets after one bucket per this many codes


class Partition:
    """The distance to the nearest code of each part, exactly, under plain or weighted Hamming distance.

    Codes of up to 32 bits are found in buckets, longer ones by scans with tables that all queries share
    (`kernels.partition`), and those of more than 384 bits by the scans of the index.

    Parameters
    ----------
    parts : sequence of uint8 arrays of shape (n_i, bytes)
        Packed codes of each part; a part may be empty. Equal codes in a part are stored once.
    n_bits : int
        Length t of the codes.
    weights : array-like of shape (n_bits,) or (n_bits, n_parts), default=None
        None is plain Hamming distance; two-dimensional weights have one column per part.

    Examples
    --------
    >>> zeros, ones = np.zeros((5, 2), np.uint8), np.full((5, 2), 255, np.uint8)
    >>> Partition([zeros, ones], 16).nearest(np.array([[0, 7]], np.uint8))
    array([[ 3., 13.]], dtype=float32)
    """

    def __init__(self, parts: Sequence[Codes], n_bits: int, weights: ArrayLike | None = None) -> None:
        self.n_bits = check_n_bits(n_bits)
        if weights is None:
            self._weights = np.ones((1, n_bits))
        elif np.ndim(weights) == 1:
            self._weights = check_weights(weights, n_bits)[None]
        else:
            per_part = np.ascontiguousarray(np.transpose(weights))
            self._weights = check_weights(per_part, n_bits, n_rows=len(parts))
        checked = [check_codes(part, n_bits, name=f"part {i}") for i, part in enumerate(parts)]
        self._buckets: list[_Buckets] = []
        if n_bits <= BUCKETS_UP_TO:
            self._buckets = [_Buckets(part, self._weights_of(i)) for i, part in enumerate(checked)]
            checked = []
        blocks = [_distinct_blocks(part) for part in checked]
        self._edges = np.cumsum([0, *map(len, blocks)])
        self._blocks = np.concatenate([*blocks, np.empty((0, n_bytes(n_bits), BLOCK), np.uint8)])

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and their tables."""
        return self._blocks.nbytes + sum(buckets.nbytes for buckets in self._buckets)

    def nearest(self, codes: Codes, *, n_threads: int | None = None) -> Distances:
        """Return the distances (q, n_parts) of packed codes (q, bytes) to the nearest code of each part.

        The distance to an empty part is inf. It is fastest if consecutive codes are similar, such as those of
        neighbouring patches of an image. ``n_threads=None`` uses all processors.
        """
        codes = np.ascontiguousarray(check_codes(codes, self.n_bits))
        if self.n_bits > _LONG:
            return self._by_index_scans(codes, n_threads)
        find = self._by_buckets if self._buckets else self._by_part_scans
        out = np.empty((len(codes), len(self._buckets) or len(self._edges) - 1), np.float32)

        def scan(begin: int, end: int, first: int, last: int) -> None:
            out[first:last] = find(codes[first:last])

        shares = even_edges(0, len(codes), thread_count(n_threads), 8)
        run_in_threads(scan, [(0, 0, first, last) for first, last in itertools.pairwise(shares)])
        return out

    def _weights_of(self, part: int) -> Floats:
        return self._weights[part % len(self._weights)]

    def _by_buckets(self, codes: Codes) -> Distances:
        # Neighbouring patches often have equal codes.
        words, of_query = np.unique(_as_words(codes), return_inverse=True)
        return np.stack([buckets.nearest(words) for buckets in self._buckets], axis=1)[of_query]

    def _by_part_scans(self, codes: Codes) -> Distances:
        from cbid.search.kernels.partition import nearest_of_parts  # compiled code, loaded when first needed

        out = np.empty((len(codes), len(self._edges) - 1), np.float32)
        portable = not simd_wanted() or None
        nearest_of_parts(read_only(self._blocks), self._edges, self._weights, read_only(codes), portable, out)
        return out

    def _by_index_scans(self, codes: Codes, n_threads: int | None) -> Distances:
        out = np.full((len(codes), len(self._edges) - 1), np.inf, np.float32)
        for part, (begin, end) in enumerate(itertools.pairwise(self._edges.tolist())):
            if begin < end:
                queries = Queries.from_codes(codes, self.n_bits, self._weights_of(part))
                found = topk(self._blocks[begin:end], BLOCK * (end - begin), queries, 1, n_threads=n_threads)
                out[:, part] = found[1][:, 0]
        return out


def _distinct_blocks(codes: Codes) -> Codes:
    """The distinct codes in blocks; the last code is repeated to fill whole steps of the kernels.

    They are shuffled, so that the first ones give every query a good bound.
    """
    if not len(codes):
        return np.empty((0, codes.shape[1], BLOCK), np.uint8)
    as_items = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1])))[:, 0]
    distinct = np.unique(as_items).view(np.uint8).reshape(-1, codes.shape[1])
    order = np.random.default_rng(0).permutation(len(distinct))
    padded = np.pad(order, (0, -len(order) % _PADDING), mode="edge")
    return to_blocks(distinct[padded])


# ---- buckets of short codes ----


class _Buckets:
    """Distinct packed codes (n, bytes) of up to 32 bits in buckets, for the nearest under weights (t,).

    The search is `kernels.partition.nearest_in_buckets`. Distances are float64 sums, rounded once to float32;
    distances that differ only by the rounding of these sums may be exchanged.
    """

    def __init__(self, codes: Codes, weights: Floats) -> None:
        words = np.unique(_as_words(codes))
        n_bits = len(weights)
        self._unit = 1.0
        if (weights == weights[0]).all():
            # Count the differing bits: whole numbers tie exactly, so a search ends as soon as the bound is reached.
            self._unit, weights = float(weights[0]), np.ones(n_bits)
        n_tables = 1 if n_bits <= _KEY_BITS else 2
        # No more keys than codes. Bits outside the keys count in distances, but not in bounds.
        size = min(n_bits // n_tables, max(len(words) - 1, 1).bit_length(), _KEY_BITS)
        ends = [size, n_bits][:n_tables]  # of the keys: the first bits of a code, and the last
        self._shifts = np.array([BUCKETS_UP_TO - end for end in ends])
        stored = np.empty((n_tables, len(words)), np.uint32)
        self._starts = np.empty((n_tables, 2**size + 1), np.int32)
        for table, shift in enumerate(self._shifts.tolist()):
            keys = words >> np.uint32(shift) & np.uint32(2**size - 1)
            order = np.argsort(keys, kind="stable")
            stored[table] = words[order]
            self._starts[table] = np.searchsorted(keys[order], np.arange(2**size + 1))
        self._stored = stored.ravel()
        self._tables, self._masks, self._bounds = _by_cost([weights[end - size : end] for end in ends], len(words))
        by_byte = np.pad(weights, (0, BUCKETS_UP_TO - n_bits)).reshape(4, 8)[::-1]  # the lowest byte first
        self._costs = sums_of_subsets(by_byte)

    @property
    def nbytes(self) -> int:
        arrays = (self._stored, self._starts, self._tables, self._masks, self._bounds)
        return sum(array.nbytes for array in arrays)

    def nearest(self, words: NDArray[np.uint32]) -> Distances:
        """The smallest distance (q,) of each query, given as a word."""
        from cbid.search.kernels.partition import nearest_in_buckets  # compiled code, loaded when first needed

        out = np.full(len(words), np.inf, np.float32)
        if self._stored.size:
            nearest_in_buckets(
                self._stored, self._starts, self._shifts, self._tables, self._masks, self._bounds, self._costs,
                self._unit, words, out,
            )  # fmt: skip
        return out


def _as_words(codes: Codes) -> NDArray[np.uint32]:
    """Packed codes (n, up to 4) as words; bit 0 of the code is the highest."""
    padded = np.zeros((len(codes), 4), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(">u4")[:, 0].astype(np.uint32)


def _by_cost(weights: list[Floats], n: int) -> tuple[NDArray[np.uint8], NDArray[np.uint32], Floats]:
    """Tables and differences in the order of their cost, as many as a search uses, and the bound before each."""
    costs = np.stack([sums_of_subsets(w) for w in weights])  # (tables, keys)
    masks = np.argsort(costs, axis=1, kind="stable")
    costs = np.take_along_axis(costs, masks, axis=1)
    order = np.argsort(costs, axis=None, kind="stable")[: n // _CODES_PER_BUCKET + len(costs)]
    # After a bucket, its table contributes the cost of its next bucket to the bound.
    rises = np.diff(costs, axis=1, append=np.inf).ravel()[order]
    bounds = np.cumsum([0.0, *rises[:-1]])
    return (order // costs.shape[1]).astype(np.uint8), masks.ravel()[order].astype(np.uint32), bounds
