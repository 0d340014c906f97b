"""Per-query tables over the 16 values of a nibble (4 bits): exact costs, and their 8-bit lower bounds.

The exact distance of a code is the sum of 2 ceil(t/8) entries of a float64 table, rounded once to float32.
The filters add floor-quantised entries floor(scale (c - least c of the nibble)) instead: never above scale
times the distance (less `base`, the sum of the least entries), so a code whose sum passes a limit cannot be
wanted.

Two quantisations: *narrow*, scaled so that the limit sits just under saturation of 8-bit sums; *wide*, scaled
so that the 4 nibbles of a pair of bytes just fit 8 bits, those sums then added in 16 bits. Wide costs a
quarter more to scan and is far sharper for long codes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbid.search._compile import compiled

__all__ = ["Tables", "exact_distance", "limits", "make_tables", "quantise_narrow"]

Floats = NDArray[np.float64]

NARROW_ALL = 255  # limits that every code passes
WIDE_ALL = 65535


class Tables(NamedTuple):
    """Tables of q queries; byte columns of the quantised ones stand in scan order (`order`), padded to
    pairs."""

    exact: Floats  # (q, bytes, 2, 16): half 0 is the high nibble, bits 0..3 of the byte
    base: Floats  # (q,) sum of the least entries
    unit: Floats  # (q,) the one value that all costs are, or 0: sums of multiples of it lose nothing
    order: NDArray[np.int64]  # (columns,) byte columns as they are scanned
    typical: Floats  # (q, columns) nearly every random code costs more than this in the columns up to here
    narrow: NDArray[np.uint8]  # (q + 3, columns, 2, 16), made anew as the limit falls
    narrow_scale: Floats  # (q,)
    wide: NDArray[np.uint8]  # (q + 3, columns, 2, 16), made once
    wide_scale: Floats  # (q,)


@compiled
def make_tables(if_zero: Floats, if_one: Floats) -> Tables:
    """Tables from the costs (q, t) of a stored 0 and a stored 1; the narrow ones are left blank (all
    zero)."""
    n_queries, n_bits = if_zero.shape
    width = (n_bits + 7) // 8
    columns = width + width % 2
    exact = np.zeros((n_queries, width, 2, 16))
    base = np.zeros(n_queries)
    unit = np.zeros(n_queries)
    weight = np.zeros(columns)
    for q in range(n_queries):
        flat = True
        for s in range(n_bits):
            for cost in (if_zero[q, s], if_one[q, s]):
                if cost > 0.0:
                    if unit[q] == 0.0:
                        unit[q] = cost
                    flat = flat and cost == unit[q]
        if not flat:
            unit[q] = 0.0
        for j in range(width):
            for half in range(2):
                table = exact[q, j, half]
                for i in range(4):
                    s = 8 * j + 4 * half + i
                    if s < n_bits:
                        for value in range(16):
                            # Always in the order of the bits, so that equal sets of differing bits cost
                            # equally.
                            table[value] += if_one[q, s] if value >> (3 - i) & 1 else if_zero[q, s]
                base[q] += table.min()
                weight[j] += table.max() - table.min()
    order = _column_order(weight, width)

    typical = np.empty((n_queries, columns))
    wide = np.zeros((n_queries + 3, columns, 2, 16), np.uint8)
    wide_scale = np.zeros(n_queries)
    for q in range(n_queries):
        mean = variance = total = pair = largest_pair = 0.0
        for c in range(columns):
            j = order[c]
            if c % 2 == 0:
                pair = 0.0
            if j < width:
                for half in range(2):
                    table = exact[q, j, half]
                    mean += table.mean()
                    variance += table.var()
                    pair += table.max() - table.min()
                    total += table.max() - table.min()
            largest_pair = max(largest_pair, pair)
            typical[q, c] = mean - 3.0 * np.sqrt(variance)
        if largest_pair > 0.0:
            wide_scale[q] = _whole(min(255.0 / largest_pair, (WIDE_ALL - 1) / total), unit[q])
        _quantise(exact[q], order, wide_scale[q], wide[q])
    order[order == width] = 0  # the padding column: its table is zero, so it may read any byte
    narrow = np.zeros((n_queries + 3, columns, 2, 16), np.uint8)
    return Tables(exact, base, unit, order, typical, narrow, np.zeros(n_queries), wide, wide_scale)


@compiled
def _column_order(weight: Floats, width: int) -> NDArray[np.int64]:
    """Costliest columns first where a quarter of them carries half of the cost or more; else as stored, which
    the processor fetches faster."""
    if width < len(weight):
        weight[width] = -1.0  # the padding column stays last
    order = np.argsort(-weight, kind="mergesort").astype(np.int64)
    costliest = weight[order[: (width + 3) // 4]].sum()
    if 2.0 * costliest < weight[:width].sum():
        order = np.arange(len(weight))
    return order


@compiled
def limits(tables: Tables, q: int, threshold: np.float32, wide: bool) -> int:
    """Sums strictly below the limit may belong to a code with float32 distance < threshold; 0 when none can.

    Brings the narrow tables of query q up to date: when the threshold has fallen, a new scale makes use of
    all 8 bits again.
    """
    if threshold == np.inf:
        if not wide:
            tables.narrow[q] = 0
            tables.narrow_scale[q] = 0.0
        return WIDE_ALL if wide else NARROW_ALL
    # A float64 sum that rounds to a float32 below the threshold is at most threshold (1 - 2**-25); the last
    # term covers the rounding of the sums themselves.
    room = threshold * (1.0 - 2.0**-25) - tables.base[q] + threshold * 1e-10
    if room <= 0.0:
        return 0
    if wide:
        return int(min(tables.wide_scale[q] * room, WIDE_ALL - 1.0)) + 1
    if tables.narrow_scale[q] * room < 216.0:
        quantise_narrow(tables, q, room)
    return int(min(tables.narrow_scale[q] * room, NARROW_ALL - 1.0)) + 1


@compiled
def quantise_narrow(tables: Tables, q: int, room: float) -> None:
    """Narrow tables of query q for distances up to base + room."""
    scale = _whole((NARROW_ALL - 1) / room, tables.unit[q])
    if scale != tables.narrow_scale[q]:
        tables.narrow_scale[q] = scale
        _quantise(tables.exact[q], tables.order, scale, tables.narrow[q])


@compiled
def _whole(scale: float, unit: float) -> float:
    """``scale``, lowered so that multiples of ``unit`` become whole numbers: equal weights then lose
    nothing."""
    steps = np.floor(scale * unit)
    # The factor keeps floor() from falling one short; `room` has more to spare.
    return scale if steps < 1.0 else steps / unit * (1.0 + 1e-12)


@compiled
def _quantise(exact: Floats, order: NDArray[np.int64], scale: float, out: NDArray[np.uint8]) -> None:
    """Entries floor(scale (c - least)), capped so that the two halves of a byte together fit 8 bits."""
    width = len(exact)
    for c in range(width):  # past these `order` has at most a padding column, whose table stays zero
        high, low = exact[order[c], 0], exact[order[c], 1]
        least_high, least_low = high.min(), low.min()
        most_high, most_low = (high.max() - least_high) * scale, (low.max() - least_low) * scale
        cap_high = min(most_high, max(127.0, 255.0 - np.floor(most_low)))
        cap_low = min(most_low, 255.0 - np.floor(cap_high))
        for value in range(16):
            out[c, 0, value] = np.uint8(min((high[value] - least_high) * scale, cap_high))
            out[c, 1, value] = np.uint8(min((low[value] - least_low) * scale, cap_low))


@compiled
def exact_distance(exact: Floats, blocks: NDArray[np.uint8], position: int) -> np.float32:
    """Distance of the code at ``position``: float64 sums in the order of the bytes, rounded once to
    float32."""
    block, lane = position // 32, position % 32
    high = low = 0.0
    for j in range(len(exact)):
        byte = blocks[block, j, lane]
        high += exact[j, 0, byte >> 4]
        low += exact[j, 1, byte & 15]
    return np.float32(high + low)
