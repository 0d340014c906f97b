"""Codes in parts, such as the classes of their images: how far is the nearest code of each part?"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_codes, check_n_bits, check_weights, n_bytes
from cbid.search.blocks import BLOCK, to_blocks
from cbid.search.buckets import LONGEST, Buckets, as_words
from cbid.search.kernels.compile import simd_wanted
from cbid.search.queries import Queries
from cbid.search.scan import _edges, _in_threads, _read_only, _thread_count, topk

__all__ = ["Partition"]

Codes = NDArray[np.uint8]
Distances = NDArray[np.float32]

_PADDING = 4 * BLOCK  # codes that the widest kernel takes at a time
_LONG = 384  # bits above which 8-bit sums, all that the kernel for parts has, let too many codes pass


class Partition:
    """The nearest code of each part, exactly, under plain or weighted Hamming distance.

    parts: packed codes (n_i, bytes) of each part; a part may be empty. Equal codes of a part are kept once.
    weights: None for plain Hamming, (t,), or (t, n_parts) for a metric of each part's own.

    Codes of up to 32 bits are found in buckets (`_buckets`), longer ones by scans with tables that all queries share
    (`_nearest`), those of more than 384 bits by the scans of the index.

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
        self._buckets: list[Buckets] = []
        if n_bits <= LONGEST:
            self._buckets = [Buckets(part, self._weights_of(i)) for i, part in enumerate(checked)]
            checked = []
        blocks = [_distinct_blocks(part) for part in checked]
        self._edges = np.cumsum([0, *map(len, blocks)])
        self._blocks = np.concatenate([*blocks, np.empty((0, n_bytes(n_bits), BLOCK), np.uint8)])

    @property
    def nbytes(self) -> int:
        """Bytes that the codes, and tables for them, take here."""
        return self._blocks.nbytes + sum(buckets.nbytes for buckets in self._buckets)

    def nearest(self, codes: Codes, *, n_threads: int | None = None) -> Distances:
        """Distances (q, n_parts) from packed codes (q, bytes) to the nearest code of each part; inf for an empty one.

        Fastest where codes that follow each other are alike, as those of neighbouring patches of an image are.
        ``n_threads=None`` takes all processors.
        """
        codes = np.ascontiguousarray(check_codes(codes, self.n_bits))
        if self.n_bits > _LONG:
            return self._by_index_scans(codes, n_threads)
        find = self._by_buckets if self._buckets else self._by_part_scans
        out = np.empty((len(codes), len(self._buckets) or len(self._edges) - 1), np.float32)

        def scan(begin: int, end: int, first: int, last: int) -> None:
            out[first:last] = find(codes[first:last])

        shares = _edges(0, len(codes), _thread_count(n_threads), 8)
        _in_threads(scan, [(0, 0, first, last) for first, last in itertools.pairwise(shares)])
        return out

    def _weights_of(self, part: int) -> NDArray[np.float64]:
        return self._weights[part % len(self._weights)]

    def _by_buckets(self, codes: Codes) -> Distances:
        words = as_words(codes)
        return np.stack([buckets.nearest(words) for buckets in self._buckets], axis=1)

    def _by_part_scans(self, codes: Codes) -> Distances:
        from cbid.search.kernels.nearest import nearest_of_parts  # compiled code, loaded when first needed

        out = np.empty((len(codes), len(self._edges) - 1), np.float32)
        portable = not simd_wanted() or None
        nearest_of_parts(_read_only(self._blocks), self._edges, self._weights, _read_only(codes), portable, out)
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
    """The distinct codes in blocks, the last of them repeated until whole steps of the kernels are full.

    Shuffled, so that the first ones are near enough to anything to be a good bound.
    """
    if not len(codes):
        return np.empty((0, codes.shape[1], BLOCK), np.uint8)
    as_items = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1])))[:, 0]
    distinct = np.unique(as_items).view(np.uint8).reshape(-1, codes.shape[1])
    order = np.random.default_rng(0).permutation(len(distinct))
    padded = np.pad(order, (0, -len(order) % _PADDING), mode="edge")
    return to_blocks(distinct[padded])
