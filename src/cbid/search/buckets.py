"""Codes of at most 32 bits in buckets: how the tables of `_buckets` are made."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["LONGEST", "Buckets", "as_words"]

LONGEST = 32  # bits: codes are words
_KEY_BITS = 16  # most bits of a table's key
_SHARE = 8  # a search gives up on buckets after one for every so many codes

Floats = NDArray[np.float64]


class Buckets:
    """Packed codes (n, bytes), without repetition, for the nearest under weights (t,).

    Distances are float64 sums, rounded once to float32; where they tie but for the rounding of these sums, either
    may be found.
    """

    def __init__(self, codes: NDArray[np.uint8], weights: Floats) -> None:
        words = np.unique(as_words(codes))
        n_bits = len(weights)
        self._unit = 1.0
        if (weights == weights[0]).all():
            # Differing bits are counted: numbers that tie exactly, so that a bound which is reached ends a search.
            self._unit, weights = float(weights[0]), np.ones(n_bits)
        n_tables = 1 if n_bits <= _KEY_BITS else 2
        # No more keys than codes. Bits that are in no key count in distances, but not in bounds.
        size = min(n_bits // n_tables, max(len(words) - 1, 1).bit_length(), _KEY_BITS)
        ends = [size, n_bits][:n_tables]  # of the keys: the first bits of a code, and the last
        self._shifts = np.array([LONGEST - end for end in ends])
        self._stored = np.empty((n_tables, len(words)), np.uint32)
        self._starts = np.empty((n_tables, 2**size + 1), np.int32)
        for table, shift in enumerate(self._shifts.tolist()):
            keys = words >> np.uint32(shift) & np.uint32(2**size - 1)
            order = np.argsort(keys, kind="stable")
            self._stored[table] = words[order]
            self._starts[table] = np.searchsorted(keys[order], np.arange(2**size + 1))
        self._tables, self._masks, self._bounds = _order([weights[end - size : end] for end in ends], len(words))
        by_byte = np.pad(weights, (0, LONGEST - n_bits)).reshape(4, 8)[::-1]  # the lowest byte first
        self._costs = _sums_of_subsets(by_byte)

    @property
    def nbytes(self) -> int:
        """Bytes that codes and tables take."""
        arrays = (self._stored, self._starts, self._tables, self._masks, self._bounds)
        return sum(array.nbytes for array in arrays)

    def nearest(self, words: NDArray[np.uint32]) -> NDArray[np.float32]:
        """The least distance (q,) of each query, given as a word."""
        from cbid.search.kernels.buckets import nearest_in_buckets  # compiled code, loaded when first needed

        out = np.full(len(words), np.inf, np.float32)
        if self._stored.size:
            nearest_in_buckets(
                self._stored, self._starts, self._shifts, self._tables, self._masks, self._bounds, self._costs,
                self._unit, words, out,
            )  # fmt: skip
        return out


def as_words(codes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Packed codes (n, up to 4) as words, bit 0 of the code the highest."""
    padded = np.zeros((len(codes), 4), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(">u4")[:, 0].astype(np.uint32)


def _order(weights: list[Floats], n: int) -> tuple[NDArray[np.uint8], NDArray[np.uint32], Floats]:
    """Tables and differences in order of cost, as far as they are looked at, and the bound before each."""
    costs = np.stack([_sums_of_subsets(w) for w in weights])  # (tables, keys)
    masks = np.argsort(costs, axis=1, kind="stable")
    costs = np.take_along_axis(costs, masks, axis=1)
    order = np.argsort(costs, axis=None, kind="stable")[: n // _SHARE + len(costs)]
    # After a bucket its table's share of the bound is the cost of the table's next one.
    rises = np.diff(costs, axis=1, append=np.inf).ravel()[order]
    bounds = np.cumsum([0.0, *rises[:-1]])
    return (order // costs.shape[1]).astype(np.uint8), masks.ravel()[order].astype(np.uint32), bounds


def _sums_of_subsets(weights: Floats) -> Floats:
    """Weights (..., b) to the sums (..., 2^b) over the bits set in each value, bit 0 the highest."""
    sums = np.zeros((*weights.shape[:-1], 1))
    for s in range(weights.shape[-1]):
        sums = np.stack([sums, sums + weights[..., s, None]], axis=-1).reshape(*weights.shape[:-1], -1)
    return sums
