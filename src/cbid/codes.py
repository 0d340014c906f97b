"""Packed binary codes: their layout, and (weighted) Hamming distances.

A code of t bits takes ceil(t / 8) bytes in the order of ``numpy.packbits`` ("big": bit 0 is the highest bit
of byte 0); the last byte is padded with zeros. Functions on codes take (n, ceil(t/8)) arrays of uint8, or one
code as a 1-D array.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Temporaries of distances take at most about 32 MB.
_PAIR_BYTES = 1 << 25


def n_bytes(n_bits: int) -> int:
    """Return the number of bytes of a code of ``n_bits``."""
    return (n_bits + 7) // 8


def pack(bits: ArrayLike) -> NDArray[np.uint8]:
    """Pack bits (n, t) into codes (n, ceil(t/8)); positive values are ones, so that 0/1 and -1/+1 both work."""
    array = np.asarray(bits)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"bits has dtype {array.dtype}: expected booleans or real numbers")
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise ValueError(f"bits has shape {array.shape}: expected (n, t), or (t,) for one code, with t >= 1")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError("bits has NaN entries: expected real numbers")
    return np.packbits(array > 0, axis=-1)


def unpack(codes: NDArray[np.uint8], n_bits: int) -> NDArray[np.int8]:
    """Unpack codes (n, ceil(t/8)) into bits (n, t) of -1/+1."""
    codes = check_codes(codes, n_bits, padding="any", one=True)
    bits = np.unpackbits(codes, axis=-1, count=n_bits).view(np.int8)
    bits *= 2
    bits -= 1
    return bits


def prefix(codes: NDArray[np.uint8], n_bits: int) -> NDArray[np.uint8]:
    """Return the first ``n_bits`` of each code as a copy with zero padding, (n, ceil(n_bits/8))."""
    codes = check_codes(codes, one=True)
    n_bits = check_n_bits(n_bits)
    width = n_bytes(n_bits)
    if codes.shape[-1] < width:
        raise ValueError(
            f"n_bits={n_bits}: expected at most {8 * codes.shape[-1]}, because the codes have {codes.shape[-1]} bytes"
        )
    cut = codes[..., :width].copy()
    cut[..., -1] &= _last_byte_mask(n_bits)
    return cut


def hamming(a: NDArray[np.uint8], b: NDArray[np.uint8], *, n_bits: int | None = None) -> NDArray[np.int32] | np.int32:
    """Return the number of differing bits between all codes of ``a`` and ``b``, (n_a, n_b) int32.

    A 1-D input is one code and drops its axis. With ``n_bits`` only the first n_bits are compared.
    """
    a, b = _check_pair(a, b)
    if n_bits is not None:
        a, b = prefix(a, n_bits), prefix(b, n_bits)
    left, right = _as_words(np.atleast_2d(a)), _as_words(np.atleast_2d(b))
    out = np.empty((len(left), len(right)), np.int32)
    for rows, columns in _tiles(len(left), len(right), left.shape[1] * left.itemsize):
        differing = np.bitwise_count(left[rows, None, :] ^ right[None, columns, :])
        differing.sum(axis=2, dtype=np.int32, out=out[rows, columns])
    return _drop_axes(out, a, b)


def weighted_hamming(
    a: NDArray[np.uint8], b: NDArray[np.uint8], weights: ArrayLike
) -> NDArray[np.float32] | np.float32:
    """Return sum_s w_s [bit s differs] between all codes of ``a`` and ``b``, (n_a, n_b) float32.

    ``weights`` is (t,), non-negative; a 1-D input is one code and drops its axis. Sums run in float64 and are
    rounded once, as in the scans of ``cbid.search``.
    """
    a, b = _check_pair(a, b)
    w = np.asarray(weights)
    if w.ndim != 1 or n_bytes(w.size) != a.shape[-1]:
        raise ValueError(
            f"weights has shape {w.shape}: expected a vector of {max(8 * a.shape[-1] - 7, 1)} to "
            f"{8 * a.shape[-1]} weights for codes of {a.shape[-1]} bytes"
        )
    w = check_weights(w, w.size)
    # table[j, v]: summed weight of the bits set in byte value v at byte j; padding bits have weight 0.
    padded = np.zeros((a.shape[-1], 8))
    padded.ravel()[: w.size] = w
    set_bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # (256, 8)
    table = np.zeros((len(padded), 256))
    for s in range(8):
        table += padded[:, s, None] * set_bits[:, s]
    left, right = np.atleast_2d(a), np.atleast_2d(b)
    out = np.empty((len(left), len(right)), np.float32)
    for rows, columns in _tiles(len(left), len(right), 16):
        total = np.zeros((rows.stop - rows.start, columns.stop - columns.start))
        for j, by_value in enumerate(table):
            total += by_value[left[rows, j, None] ^ right[None, columns, j]]
        out[rows, columns] = total
    return _drop_axes(out, a, b)


def check_n_bits(n_bits: int) -> int:
    """Return ``n_bits`` as an int; raise a TypeError or ValueError unless it is an integer of at least 1."""
    if isinstance(n_bits, bool) or not isinstance(n_bits, (int, np.integer)):
        raise TypeError(f"n_bits={n_bits!r}: expected an integer of at least 1")
    if n_bits < 1:
        raise ValueError(f"n_bits={n_bits}: expected an integer of at least 1")
    return int(n_bits)


def check_codes(
    codes: NDArray[np.uint8],
    n_bits: int | None = None,
    *,
    name: str = "codes",
    padding: str = "zero",
    one: bool = False,
) -> NDArray[np.uint8]:
    """Return codes as an array of uint8, (n, bytes); errors about dtype, shape or width use ``name``.

    One code given as a 1-D array becomes (1, bytes), or stays 1-D with ``one=True``. With ``n_bits`` the
    width must be ceil(n_bits/8) and, unless ``padding="any"``, the bits past n_bits must be zero.
    """
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise TypeError(f"{name} has dtype {array.dtype}: expected packed codes of uint8 (see cbid.codes.pack)")
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {array.shape}: expected (n, bytes), or (bytes,) for one code")
    if array.shape[-1] == 0:
        raise ValueError(f"{name} has shape {array.shape}: expected at least one byte per code")
    if n_bits is not None:
        n_bits = check_n_bits(n_bits)
        if array.shape[-1] != n_bytes(n_bits):
            raise ValueError(f"{name} is {array.shape[-1]} bytes wide: expected {n_bytes(n_bits)} for {n_bits} bits")
        if padding == "zero" and n_bits % 8 and np.any(array[..., -1] & ~_last_byte_mask(n_bits)):
            raise ValueError(f"{name} has bits set past bit {n_bits}: expected zero padding")
    return array if one else np.atleast_2d(array)


def check_weights(weights: ArrayLike, n_bits: int, *, n_rows: int | None = None) -> NDArray[np.float64]:
    """Return weights as float64, (t,) or, if ``n_rows`` is given, also (n_rows, t); finite and non-negative.

    Their sum must be finite in float32, the type of distances.
    """
    w = np.asarray(weights)
    if w.dtype.kind not in "fiub":
        raise TypeError(f"weights has dtype {w.dtype}: expected real numbers")
    shapes = [(n_bits,)] if n_rows is None else [(n_bits,), (n_rows, n_bits)]
    if w.shape not in shapes:
        raise ValueError(f"weights has shape {w.shape}: expected {' or '.join(map(str, shapes))}")
    w = w.astype(np.float64, copy=False)
    if not np.all(np.isfinite(w)):
        raise ValueError("weights has NaN or infinite entries: expected finite non-negative numbers")
    if np.any(w < 0):
        raise ValueError(f"weights has negative entries (least: {w.min():g}): expected non-negative numbers")
    largest = w.sum(axis=-1).max(initial=0.0)
    if largest > np.finfo(np.float32).max:
        raise ValueError(f"weights sum to {largest:g}: expected at most {np.finfo(np.float32).max:g} (float32)")
    return w


def _last_byte_mask(n_bits: int) -> np.uint8:
    """Return the mask of the bits of the last byte that belong to the code."""
    return np.uint8(0xFF << (-n_bits % 8) & 0xFF)


def _check_pair(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    a, b = check_codes(a, name="a", one=True), check_codes(b, name="b", one=True)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"a is {a.shape[-1]} bytes wide and b {b.shape[-1]}: expected equal widths")
    return a, b


def _as_words(codes: NDArray[np.uint8]) -> NDArray[np.uint8] | NDArray[np.uint64]:
    """View codes as 64-bit words if their width allows: eight times fewer elements."""
    return np.ascontiguousarray(codes).view(np.uint64) if codes.shape[1] % 8 == 0 else codes


def _tiles(n_rows: int, n_columns: int, bytes_per_pair: int) -> list[tuple[slice, slice]]:
    """Return row and column slices that cover (n_rows, n_columns) in tiles of bounded memory."""
    pairs = max(_PAIR_BYTES // bytes_per_pair, 1)
    width = max(min(n_columns, pairs), 1)
    height = max(pairs // width, 1)
    return [
        (slice(i, min(i + height, n_rows)), slice(j, min(j + width, n_columns)))
        for i in range(0, n_rows, height)
        for j in range(0, n_columns, width)
    ]


def _drop_axes(distances: NDArray[Any], a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[Any]:
    if a.ndim == 1:
        distances = distances[0]
    return distances[..., 0] if b.ndim == 1 else distances
