"""The nearest code of each part of a partition: by tables that all queries share, or by buckets for short codes.

A weighted Hamming distance depends on a query and a stored code only through the bits in which they differ. So one
set of tables, over differences, serves all queries: the tables of one query hold the same entries in another order,
and are cheap to make. `scan.scan_topk`, whose queries may have different costs, spends more time on its tables than
on the codes if there are few codes. Queries should be in the order of their patches in an image: neighbours are
similar, so the nearest code of one is a good first bound for the next.

`nearest_in_buckets` is multi-index hashing (Norouzi, Punjani and Fleet, 2012) with weights. One or two tables hold
the codes in the order of some of their bits, the key. Buckets are visited in the order of the cost of their
difference from the query. A code in none of the visited buckets differs, in the bits of each table, by a difference
not visited there; so the costs of the next bucket of each table add up to a bound, and a search ends as soon as a
nearer code is known. One order of buckets serves all queries.
"""

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.bounds import WHOLE_MOST, sum_limit
from cbid.search.kernels.compile import compiled, helper, lean
from cbid.search.kernels.filters import FilterPass, filter_portable, make_scratch, whole_all
from cbid.search.kernels.shared import (
    AT_A_TIME,
    MANY_SHARING,
    MOST_COLUMNS,
    SHARED_LOOKUPS,
    fit_scale,
    make_shared,
    set_limit,
    shared_candidates,
)
from cbid.search.kernels.tables import Tables, budget_below, exact_distance, make_tables, steps_until
from cbid.search.kernels.vectors import BLOCKS, COLUMNS, ENTRIES, FIELDS, GROUP, SIX_BIT

Bytes = NDArray[np.uint8]
Columns = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Words = NDArray[np.uint32]

RUN = 128  # most blocks between two updates of the bounds
SHARING = 256  # most queries that share lookups
FIRST = 64  # blocks that are scanned for a first bound
CACHED = 1 << 21  # bytes of codes that all queries scan before the next codes are read
TOGETHER = 16  # buckets that are looked up at a time


@compiled
def nearest_of_parts(
    blocks: Bytes, edges: Columns, weights: Floats, queries: Bytes, portable: bool | None, out: Singles
) -> None:
    """Write the smallest distance of each query to each part to ``out`` (q, parts); inf for an empty part.

    Part p is all codes of the blocks edges[p] <= b < edges[p + 1], a multiple of BLOCKS. ``weights`` is (1, t) or
    (parts, t), ``queries`` (q, bytes). ``portable`` is as in `candidates`.
    """
    n_bits = weights.shape[1]
    best = np.empty(len(queries), np.float32)
    positions = np.empty(len(queries), np.int64)
    for part in range(len(edges) - 1):
        w = weights[part if len(weights) > 1 else 0].copy().reshape((1, n_bits))
        # Tables of a query of zeros: its stored bits are the differences of other queries.
        tables = make_tables(np.zeros((1, n_bits)), w)
        half = 0.0
        for s in range(n_bits):
            half += w[0, s] / 2
        if half > 1e-300:  # below this all distances are zero in float32, and a scale could overflow
            # 8-bit sums up to half of all weights, the distance of random codes: the nearest code is nearer.
            sum_limit(tables, 0, half, 0, RUN)
        best[:] = np.inf
        positions[:] = 32 * edges[part]
        begin, end = edges[part], edges[part + 1]
        sharing = (
            SHARED_LOOKUPS and portable is None and len(queries) >= MANY_SHARING and blocks.shape[1] <= MOST_COLUMNS
        )
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
    """Like `_scan_groups`, for many queries that all have a first bound."""
    shared = make_shared(weights, queries)
    most = 64 * AT_A_TIME * len(queries)
    passing, codes = np.empty(most, np.int32), np.empty(most, np.int32)
    per_block = 32 * blocks.shape[1]
    first = begin
    while first < end:
        last = min(first + max(first - begin, FIRST), end)
        budget = 0.0
        for i in range(len(queries)):
            for near in (max(i - 1, 0), min(i + 1, len(queries) - 1)):
                _offer(tables.costs[0], blocks, queries[i], positions[near], i, best, positions)
            budget = max(budget, budget_below(best[i], 0.0))
        if budget <= 0.0:
            return
        fit_scale(shared, budget, last - first)
        for i in range(len(queries)):
            set_limit(shared, i, budget_below(best[i], 0.0))
        for b in range(first, last, AT_A_TIME * BLOCKS):
            source, n_blocks = int(np.int64(blocks.ctypes.data)) + b * per_block, min(AT_A_TIME * BLOCKS, last - b)
            for c in range(shared_candidates(shared, source, n_blocks, per_block, passing, codes)):
                i = passing[c]
                if _offer(tables.costs[0], blocks, queries[i], 32 * b + codes[c], i, best, positions):
                    set_limit(shared, i, budget_below(best[i], 0.0))
        first = last


@helper
def _scan_groups(
    blocks: Bytes, begin: int, end: int, tables: Tables, queries: Bytes, portable: bool | None, best: Singles,
    positions: Columns,
) -> None:  # fmt: skip
    """Lower ``best`` (q,), and update its positions, to the nearest codes among blocks begin <= b < end."""
    lookups = np.zeros((GROUP, len(tables.offsets) // COLUMNS, FIELDS, ENTRIES), np.uint8)
    candidates = np.empty((GROUP, 32 * RUN), np.int32)
    limits, counts = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    scratch = make_scratch()
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
                # Half as many as are done: so the bounds fall early, and candidates stay few.
                run_end = min(run + min((run - begin) // (2 * BLOCKS) * BLOCKS + BLOCKS, RUN), last)
                _candidates(
                    blocks, run, run_end, tables, lookups, queries[q : q + size], best[q : q + size], portable,
                    scratch, limits, candidates, counts,
                )  # fmt: skip
                for slot in range(size):
                    for c in range(counts[slot]):
                        position = 32 * run + candidates[slot, c]
                        _offer(tables.costs[0], blocks, queries[q + slot], position, q + slot, best, positions)
                run = run_end


@lean
def _candidates(
    blocks: Bytes, first: int, last: int, tables: Tables, lookups: Bytes, queries: Bytes, best: Singles,
    portable: bool | None, scratch: Bytes, limits: Columns, candidates: NDArray[np.int32], counts: Columns,
) -> None:  # fmt: skip
    """Find codes of blocks first <= b < last that may be nearer to a group of queries than ``best``."""
    check = np.int64(0)  # not a literal: for a literal the filters would be compiled again
    counts[:] = 0
    limits[:] = 0
    for slot in range(len(best)):
        budget = budget_below(best[slot], 0.0)
        if budget > 0.0 and (portable is not None or tables.scale[0] * budget > WHOLE_MOST):
            counts[slot] = _filter_code(
                blocks, first, last, tables.excess[0], queries[slot], budget, candidates[slot]
            )
        elif budget > 0.0:
            limits[slot] = int(tables.scale[0] * budget) + 1
            check = max(check, 1 + steps_until(tables.typical[0], best[slot]))
    if portable is None and check > 0:
        per_block = 32 * blocks.shape[1]
        source = int(np.int64(blocks.ctypes.data)) + first * per_block
        offsets, steps = np.int64(tables.offsets.ctypes.data), len(tables.offsets) // COLUMNS
        scratch_at, tables_at = np.int64(scratch.ctypes.data), np.int64(lookups.ctypes.data)
        limits_at = np.int64(limits.ctypes.data)
        given = FilterPass(source, last - first, per_block, offsets, steps, np.int64(0), check, scratch_at)
        whole_all(given, tables.ends, tables_at, limits_at, candidates, counts)


@lean
def _offer(
    costs: Floats, blocks: Bytes, query: Bytes, position: int, i: int, best: Singles, positions: Columns
) -> bool:
    """Record the code at ``position`` if it is nearer to query i than the nearest so far; return whether it is."""
    distance = exact_distance(0.0, costs, query, blocks, position)
    if distance >= best[i]:
        return False
    best[i], positions[i] = distance, position
    return True


@lean
def _order_tables(shared: Bytes, columns: Columns, query: Bytes, out: Bytes) -> None:
    """Make tables over stored values from tables over differences: the entry of value XOR the value of the query."""
    for step in range(len(out)):
        for field in range(FIELDS):
            own = _field(query, columns, step, field)
            row, ordered = shared[step, field], out[step, field]
            for value in range(ENTRIES):
                ordered[value] = row[value ^ own]


@lean
def _field(code: Bytes, columns: Columns, step: int, field: int) -> np.int64:
    """The value of a field of one code (see `vectors`)."""
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
def _filter_code(
    blocks: Bytes, first: int, last: int, excess: Floats, query: Bytes, budget: float, candidates: NDArray[np.int32]
) -> int:
    """Apply `filter_portable` to a packed query."""
    bits = np.empty(8 * len(query), np.uint8)
    for s in range(len(bits)):
        bits[s] = query[s // 8] >> (7 - s % 8) & 1
    return int(filter_portable(blocks, first, last, excess, bits, budget, candidates))


# ---- buckets ----


@compiled
def nearest_in_buckets(
    stored: Words, starts: NDArray[np.int32], shifts: NDArray[np.int64], tables: NDArray[np.uint8], masks: Words,
    bounds: Floats, costs: Floats, unit: float, queries: Words, out: Singles,
) -> None:  # fmt: skip
    """Write ``unit`` times the smallest distance of each query to the codes to ``out`` (q,).

    stored: (tables * n,) the codes as words, by the keys of each table, which are the bits from ``shifts`` on.
    starts: (tables, keys + 1) the first code of each key.
    tables, masks, bounds: the buckets in the order of visiting: their table, the difference of their key from that of
    the query, and the smallest cost of a code not visited before.
    costs: (4, 256) of the values of the bytes of a difference, the lowest byte first.
    """
    n, n_keys = len(stored) // len(starts), starts.shape[1] - 1
    begins, ends = np.empty(TOGETHER, np.int64), np.empty(TOGETHER, np.int64)
    for q in range(len(queries)):
        query, best, seen, i = queries[q], np.inf, 0, 0
        while i < len(tables) and bounds[i] < best and 2 * seen < n:
            # Many buckets are empty. Those with codes are listed without a branch, which would be mispredicted.
            last, found = min(i + TOGETHER, len(tables)), 0
            for j in range(i, last):
                table = np.int64(tables[j])
                key = (np.int64(query) >> shifts[table] & (n_keys - 1)) ^ np.int64(masks[j])
                begins[found] = table * n + starts[table, key]
                ends[found] = table * n + starts[table, key + 1]
                found += ends[found] > begins[found]
            for j in range(found):
                best = min(best, _nearest_word(stored, begins[j], ends[j], query, costs))
                seen += ends[j] - begins[j]
            i = last
        if i == len(tables) or bounds[i] < best:  # far from everything: one pass over all codes is faster
            best = min(best, _nearest_word(stored, 0, n, query, costs))
        out[q] = unit * best


@lean
def _nearest_word(codes: Words, begin: int, end: int, query: np.uint32, costs: Floats) -> float:
    best = np.inf
    for i in range(begin, end):
        difference = codes[i] ^ query
        high = costs[3, difference >> 24] + costs[2, difference >> 16 & 255]
        best = min(best, high + (costs[1, difference >> 8 & 255] + costs[0, difference & 255]))
    return best
