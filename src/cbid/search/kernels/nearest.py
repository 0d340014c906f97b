"""The nearest code in each part of a partition, with tables that all queries share.

A weighted Hamming distance depends on a query and a stored code only through the bits in which they differ. So one
set of tables, over differences, serves all queries; those of one query hold the same entries in another order, and
cost next to nothing to make. `_scan.scan_topk`, whose queries may each have costs of their own, spends more time on
its tables than on the codes where these are few.

Queries are expected in the order in which they were taken from an image: neighbours are alike there, so what is
nearest to one is a good first bound for the next.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import compiled, helper
from cbid.search.kernels.filters import make_shelf, whole_all
from cbid.search.kernels.portable import filter_portable
from cbid.search.kernels.registers import BLOCKS, COLUMNS, ENTRIES, FIELDS, GROUP, SIX_BIT
from cbid.search.kernels.spread import (
    AT_A_TIME,
    MANY_SHARING,
    MOST_COLUMNS,
    SPREAD,
    fit_scale,
    make_shared,
    set_limit,
    shared_candidates,
)
from cbid.search.kernels.sums import WHOLE_MOST, sum_limit
from cbid.search.kernels.tables import Tables, exact_distance, make_tables, room_below, steps_until

__all__ = ["nearest_of_parts"]

Bytes = NDArray[np.uint8]
Columns = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

RUN = 128  # most blocks between two looks at whether the bounds have fallen
SHARING = 256  # queries that share what is spread for them, of the MANY_SHARING or more that it takes
FIRST = 64  # blocks that are scanned for a first bound
CACHED = 1 << 21  # bytes of codes that all queries go over before the next ones are read


@compiled
def nearest_of_parts(
    blocks: Bytes, edges: Columns, weights: Floats, queries: Bytes, portable: bool | None, out: Singles
) -> None:
    """The least distance of each query to the codes of each part, written to ``out`` (q, parts); inf if it has none.

    Part p is all codes of the blocks edges[p] <= b < edges[p + 1], a multiple of BLOCKS. ``weights`` is (1, t) or
    (parts, t), ``queries`` (q, bytes). ``portable`` is as in `_scan`.
    """
    n_bits = weights.shape[1]
    best = np.empty(len(queries), np.float32)
    positions = np.empty(len(queries), np.int64)
    for part in range(len(edges) - 1):
        w = weights[part if len(weights) > 1 else 0].copy().reshape((1, n_bits))
        # Those of the query whose bits are all zero: what it reads as a stored bit, others read as a difference.
        tables = make_tables(np.zeros((1, n_bits)), w)
        half = 0.0
        for s in range(n_bits):
            half += w[0, s] / 2
        if half > 1e-300:  # below it all distances are zero in float32, and a scale could overflow
            # 8-bit sums up to half of all weights, which is the distance of random codes: the nearest is nearer.
            sum_limit(tables, 0, half, 0, RUN)
        best[:] = np.inf
        positions[:] = 32 * edges[part]
        begin, end = edges[part], edges[part + 1]
        sharing = SPREAD and portable is None and len(queries) >= MANY_SHARING and blocks.shape[1] <= MOST_COLUMNS
        seen = min(begin + FIRST, end) if sharing else end
        _scan_groups(blocks, begin, seen, tables, queries, portable, best, positions)
        if seen < end:
            for q in range(0, len(queries), SHARING):
                _scan_sharing(
                    blocks, seen, end, w, tables, queries[q : q + SHARING], best[q : q + SHARING],
                    positions[q : q + SHARING],
                )  # fmt: skip
        out[:, part] = best


@helper
def _scan_sharing(
    blocks: Bytes, begin: int, end: int, weights: Floats, tables: Tables, queries: Bytes, best: Singles,
    positions: Columns,
) -> None:  # fmt: skip
    """The same as `_scan_groups` for many queries, of which all have a first bound."""
    shared = make_shared(weights, queries)
    most = 64 * AT_A_TIME * len(queries)
    passing, codes = np.empty(most, np.int32), np.empty(most, np.int32)
    per_block = 32 * blocks.shape[1]
    first = begin
    while first < end:
        last = min(first + max(first - begin, FIRST), end)
        room = 0.0
        for i in range(len(queries)):
            for near in (max(i - 1, 0), min(i + 1, len(queries) - 1)):
                _offer(tables.costs[0], blocks, queries[i], positions[near], i, best, positions)
            room = max(room, room_below(best[i], 0.0))
        if room <= 0.0:
            return
        fit_scale(shared, room, last - first)
        for i in range(len(queries)):
            set_limit(shared, i, room_below(best[i], 0.0))
        for b in range(first, last, AT_A_TIME * BLOCKS):
            source, n_blocks = int(np.int64(blocks.ctypes.data)) + b * per_block, min(AT_A_TIME * BLOCKS, last - b)
            for c in range(shared_candidates(shared, source, n_blocks, per_block, passing, codes)):
                i = passing[c]
                if _offer(tables.costs[0], blocks, queries[i], 32 * b + codes[c], i, best, positions):
                    set_limit(shared, i, room_below(best[i], 0.0))
        first = last


@helper
def _scan_groups(
    blocks: Bytes, begin: int, end: int, tables: Tables, queries: Bytes, portable: bool | None, best: Singles,
    positions: Columns,
) -> None:  # fmt: skip
    """The least distances ``best`` (q,) and where they were found, among blocks begin <= b < end."""
    lookups = np.zeros((GROUP, len(tables.offsets) // COLUMNS, FIELDS, ENTRIES), np.uint8)
    candidates = np.empty((GROUP, 32 * RUN), np.int32)
    limits, counts = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    shelf = make_shelf()
    cached = max(CACHED // (32 * blocks.shape[1] * RUN), 1) * RUN
    for first in range(begin, end, cached):
        last = min(first + cached, end)
        for q in range(0, len(queries), GROUP):
            size = min(GROUP, len(queries) - q)
            for i in range(q, q + size):
                if portable is None:
                    _order_tables(tables.quantised[0], tables.columns, queries[i], lookups[i - q])
                for near in (max(q - 1, 0), max(i - GROUP, 0)):
                    _offer(tables.costs[0], blocks, queries[i], positions[near], i, best, positions)
            run = first
            while run < last:
                # Half as many as were seen: so the bounds fall early, and candidates stay few.
                run_end = min(run + min((run - begin) // (2 * BLOCKS) * BLOCKS + BLOCKS, RUN), last)
                _candidates(
                    blocks, run, run_end, tables, lookups, queries[q : q + size], best[q : q + size], portable,
                    shelf, limits, candidates, counts,
                )  # fmt: skip
                for slot in range(size):
                    for c in range(counts[slot]):
                        position = 32 * run + candidates[slot, c]
                        _offer(tables.costs[0], blocks, queries[q + slot], position, q + slot, best, positions)
                run = run_end


@helper
def _candidates(
    blocks: Bytes, first: int, last: int, tables: Tables, lookups: Bytes, queries: Bytes, best: Singles,
    portable: bool | None, shelf: Bytes, limits: Columns, candidates: NDArray[np.int32], counts: Columns,
) -> None:  # fmt: skip
    """What of blocks first <= b < last may be nearer to a group of queries than ``best``, one row for each query."""
    check = np.int64(0)  # not a literal, for which the filters would be compiled once more
    counts[:] = 0
    limits[:] = 0
    for slot in range(len(best)):
        room = room_below(best[slot], 0.0)
        if room > 0.0 and (portable is not None or tables.scale[0] * room > WHOLE_MOST):
            bits = _unpacked(queries[slot])
            counts[slot] = filter_portable(blocks, first, last, tables.excess[0], bits, room, candidates[slot])
        elif room > 0.0:
            limits[slot] = int(tables.scale[0] * room) + 1
            check = max(check, 1 + steps_until(tables.typical[0], best[slot]))  # until there few blocks can be left
    if portable is None and check > 0:
        per_block = 32 * blocks.shape[1]
        whole_all(
            int(np.int64(blocks.ctypes.data)) + first * per_block, last - first, per_block,
            np.int64(lookups.ctypes.data), tables.offsets, check, tables.ends, 0, np.int64(limits.ctypes.data), shelf,
            candidates, counts,
        )  # fmt: skip


@helper
def _offer(
    costs: Floats, blocks: Bytes, query: Bytes, position: int, i: int, best: Singles, positions: Columns
) -> bool:
    """Note the code at ``position`` if it is nearer to query i than the nearest so far; whether it is."""
    distance = exact_distance(0.0, costs, query, blocks, position)
    if distance >= best[i]:
        return False
    best[i], positions[i] = distance, position
    return True


@helper
def _order_tables(shared: Bytes, columns: Columns, query: Bytes, out: Bytes) -> None:
    """Tables over stored values from those over differences: that of a value is that of value XOR the query's."""
    for step in range(len(out)):
        for field in range(FIELDS):
            own = _field(query, columns, step, field)
            row, ordered = shared[step, field], out[step, field]
            for value in range(ENTRIES):
                ordered[value] = row[value ^ own]


@helper
def _field(code: Bytes, columns: Columns, step: int, field: int) -> np.int64:
    """The value of a field of one code, as `_vectors` cuts it."""
    value = np.int64(0)
    if SIX_BIT:
        for i in range(3):
            column = columns[3 * step + i]
            if column < len(code):
                if field == i:
                    value = np.int64(code[column]) & 63
                elif field == 3:
                    value |= (np.int64(code[column]) >> 6) << (2 * i)
    else:
        byte = np.int64(code[columns[step]])
        value = byte & 15 if field else byte >> 4
    return value


@helper
def _unpacked(code: Bytes) -> Bytes:
    bits = np.empty(8 * len(code), np.uint8)
    for s in range(len(bits)):
        bits[s] = code[s // 8] >> (7 - s % 8) & 1
    return bits
