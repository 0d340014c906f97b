"""Buckets: the nearest codes without a full scan, by multi-index hashing with weights.

Each of several tables holds the codes in the order of some of their bits, the *key*. Buckets are visited in the order
of the cost of the difference of their key from that of the query. A code in none of the visited buckets differs, in
the bits of each table, by a difference not visited there. So the costs of the next bucket of each table add up to a
bound, and a search ends as soon as no code beyond the bound is needed. One order of buckets serves all queries under
one weight vector.

Beside the position of a code, a table holds a *sketch* of 64 of its bits, the whole code if it has no more. Codes of
a bucket are adjacent in memory, so most are rejected quickly: by the number of bits of the sketch that differ, then
by their cost. Only the others are read from ``rows``. Buckets are random places in memory. So they are taken in
batches, whose memory is fetched together.

References
----------
Norouzi, Punjani and Fleet, Fast search in Hamming space with multi-index hashing, CVPR 2012.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from cbid.search.kernels.candidates import push, sort_heap
from cbid.search.kernels.compile import compiled, helper, lean
from cbid.search.kernels.vectors import add_costs, no_costs, operation, prefetch_line, total_cost

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Places = NDArray[np.uint32]
Singles = NDArray[np.float32]
Words = NDArray[np.uint64]

BATCH = 16  # buckets whose memory is fetched together
PIECE = 256  # codes of a bucket between two updates of the limit
BUCKET_WORK = 4  # the time of a bucket, relative to that of the sketch of one code


def _count_ones(builder: ir.IRBuilder, word: ir.Value) -> ir.Value:
    return builder.ctpop(word)


count_ones = operation(_count_ones, 1, types.int64)


class Buckets(NamedTuple):
    """The tables of a segment."""

    sketches: Words  # (tables, n) by key
    positions: Places  # (tables, n) by key; ascending within a bucket
    starts: Places  # (tables, keys + 1) the first entry of each key
    rows: Words  # (n, words) the codes by position; (0, words) if a sketch is the whole code


class Visits(NamedTuple):
    """The buckets in the order of visiting, for one weight vector, and what a difference costs."""

    tables: Bytes  # (visits,)
    masks: Places  # (visits,) the difference of the key from that of the query
    bounds: Floats  # (visits + 1,) at most the cost of any code not visited before
    costs: Floats  # (8 bytes,) of the bits of a code, the lowest bit of each byte first
    sketch_costs: Singles  # (tables, 8, 256) of the values of the bytes of a sketch
    lightest: Floats  # (65,) at most the cost of any code that differs in so many bits


class Spans(NamedTuple):
    """The entries of the buckets of one batch."""

    begins: Numbers  # (BATCH,)
    ends: Numbers  # (BATCH,)
    tables: Numbers  # (BATCH,)
    next: Numbers  # (2,) the first one that is left, and their number


@helper
def _make_spans() -> Spans:
    return Spans(
        np.empty(BATCH, np.int64), np.empty(BATCH, np.int64), np.empty(BATCH, np.int64), np.zeros(2, np.int64)
    )


# ---- building ----


@compiled
def key_codes(rows: Words, bits: Numbers, out: Places) -> None:
    """Write the key of each code: its ``bits``, the first one highest."""
    for i in range(len(rows)):
        key = 0
        for s in bits:
            key = key << 1 | _bit(rows[i], s)
        out[i] = key


@compiled
def sketch_codes(rows: Words, bits: Numbers, out: Words) -> None:
    """Write the sketch of each code: its ``bits``, -1 for none, packed like a code of 64 bits."""
    for i in range(len(rows)):
        sketch = np.uint64(0)
        for s in range(len(bits)):
            if bits[s] >= 0:
                sketch |= np.uint64(_bit(rows[i], bits[s])) << np.uint64(s // 8 * 8 + 7 - s % 8)
        out[i] = sketch


@lean
def _bit(row: Words, s: int) -> np.int64:
    """Bit s of a packed code, as words of eight bytes, the first byte lowest."""
    return np.int64(row[s // 64] >> np.uint64(s % 64 // 8 * 8 + 7 - s % 8)) & 1


@compiled
def fill_table(keys: Places, sketches: Words, starts: Places, by_key: Words, positions: Places) -> None:
    """Sort by key: count the codes of each key, then write sketches and positions in their places."""
    starts[:] = 0
    for i in range(len(keys)):
        starts[keys[i] + 1] += 1
    for key in range(1, len(starts)):
        starts[key] += starts[key - 1]
    for i in range(len(keys)):
        place = starts[keys[i]]
        by_key[place], positions[place] = sketches[i], i
        starts[keys[i]] = place + 1
    for key in range(len(starts) - 1, 0, -1):  # each start has moved to the end of its bucket
        starts[key] = starts[key - 1]
    starts[0] = 0


# ---- searching ----


@compiled
def topk_in_buckets(
    sketches: Words, places: Places, starts: Places, rows: Words, tables: Bytes, masks: Places, bounds: Floats,
    costs: Floats, sketch_costs: Singles, lightest: Floats, queries: Words, asked: Words, keys: Places, keep: Bytes,
    most_work: int, limits: Singles, distances: Singles, positions: Numbers,
) -> NDArray[np.bool_]:  # fmt: skip
    """Write the k nearest codes of each query by (distance, position) to ``distances`` and ``positions`` (q, k).

    ``queries`` (q, words) are codes, ``asked`` (q, tables) their sketches and ``keys`` (q, tables) their keys.
    ``keep`` is empty, or zero for codes to skip. Only distances up to ``limits`` (q,), which are finite, count.
    Returns, for each query, whether the search was given up after about ``most_work`` sketches: its result may be
    incomplete.
    """
    buckets = Buckets(sketches, places, starts, rows)
    visits = Visits(tables, masks, bounds, costs, sketch_costs, lightest)
    n_queries, k = distances.shape
    given_up = np.zeros(n_queries, np.bool_)
    spans, hits, near = _make_spans(), np.empty(PIECE, np.int64), np.empty(PIECE, np.float32)
    for q in range(n_queries):
        size, work, first, limit = 0, 0, 0, limits[q]
        most = _most_bits(lightest, limit)
        while first < len(tables) and bounds[first] <= limit and work <= most_work:
            last = min(first + BATCH, len(tables))
            work += BUCKET_WORK * (last - first) + _open_buckets(buckets, visits, keys[q], first, last, spans)
            while spans.next[0] < spans.next[1]:
                n_hits = _near_in_spans(buckets, visits, queries[q], asked[q], keep, limit, most, spans, hits, near)
                for c in range(n_hits):
                    if size == k and not _comes_before(near[c], hits[c], distances[q, 0], positions[q, 0]):
                        continue
                    if not _known(positions[q], size, hits[c]):  # by another table
                        size = push(distances[q], positions[q], size, near[c], hits[c])
                if size == k and distances[q, 0] < limit:
                    limit = distances[q, 0]
                    most = _most_bits(lightest, limit)
            first = last
        given_up[q] = bounds[first] <= limit
        sort_heap(distances[q], positions[q], size)
    return given_up


@compiled
def within_buckets(
    sketches: Words, places: Places, starts: Places, rows: Words, tables: Bytes, masks: Places, bounds: Floats,
    costs: Floats, sketch_costs: Singles, lightest: Floats, queries: Words, asked: Words, keys: Places, keep: Bytes,
    most_work: int, limits: Singles, after: int, most_hits: int,
) -> tuple[NDArray[np.bool_], Numbers, Numbers, Singles]:  # fmt: skip
    """Return all codes up to ``limits`` (q,): whether each query was given up; queries, positions, distances.

    A code may be listed several times, once for each table that finds it. With ``after`` >= 0, the queries are the
    codes at the positions from ``after`` on, and only codes that follow them are returned. It ends once there are
    more than ``most_hits``; the result is then incomplete.
    """
    buckets = Buckets(sketches, places, starts, rows)
    visits = Visits(tables, masks, bounds, costs, sketch_costs, lightest)
    given_up = np.zeros(len(queries), np.bool_)
    spans, hits, near = _make_spans(), np.empty(PIECE, np.int64), np.empty(PIECE, np.float32)
    found, of = 0, np.empty(1024, np.int64)
    positions, distances = np.empty(1024, np.int64), np.empty(1024, np.float32)
    for q in range(len(queries)):
        work, first, limit, before = 0, 0, limits[q], found
        most = _most_bits(lightest, limit)
        while first < len(tables) and bounds[first] <= limit and work <= most_work:
            last = min(first + BATCH, len(tables))
            work += BUCKET_WORK * (last - first) + _open_buckets(buckets, visits, keys[q], first, last, spans)
            while spans.next[0] < spans.next[1]:
                n_hits = _near_in_spans(buckets, visits, queries[q], asked[q], keep, limit, most, spans, hits, near)
                if found + n_hits > len(of):
                    of = np.concatenate((of, np.empty(len(of), np.int64)))
                    positions = np.concatenate((positions, np.empty(len(positions), np.int64)))
                    distances = np.concatenate((distances, np.empty(len(distances), np.float32)))
                for c in range(n_hits):
                    of[found], positions[found], distances[found] = q, hits[c], near[c]
                    found += after < 0 or hits[c] > after + q
                if found > most_hits:
                    return given_up, of[:found], positions[:found], distances[:found]
            first = last
        if bounds[first] <= limit:
            given_up[q], found = True, before
    return given_up, of[:found], positions[:found], distances[:found]


@lean
def _open_buckets(buckets: Buckets, visits: Visits, keys: Places, first: int, last: int, spans: Spans) -> np.int64:
    """Set ``spans`` to the buckets first <= i < last that are not empty; return the number of their codes."""
    starts, sketches = buckets.starts, buckets.sketches
    per_table, at = 4 * starts.shape[1], np.int64(starts.ctypes.data)
    count, n_codes, sketches_at = 0, np.int64(0), np.int64(sketches.ctypes.data)
    for i in range(first, last):
        table = np.int64(visits.tables[i])
        prefetch_line(at + per_table * table + 4 * np.int64(keys[table] ^ visits.masks[i]))
    for i in range(first, last):
        table = np.int64(visits.tables[i])
        key = np.int64(keys[table] ^ visits.masks[i])
        begin, end = np.int64(starts[table, key]), np.int64(starts[table, key + 1])
        spans.begins[count], spans.ends[count], spans.tables[count] = begin, end, table
        prefetch_line(sketches_at + 8 * (sketches.shape[1] * table + begin))
        count += int(begin < end)  # branch-free: the branch would be unpredictable
        n_codes += end - begin
    spans.next[0], spans.next[1] = 0, count
    return n_codes


@lean
def _near_in_spans(
    buckets: Buckets, visits: Visits, query: Words, asked: Words, keep: Bytes, limit: np.float32, most: int,
    spans: Spans, hits: Numbers, near: Singles,
) -> int:  # fmt: skip
    """Write positions and distances of codes in ``spans`` that are at most ``limit`` far, up to PIECE of them.

    Returns how many; ``spans`` then begin with the codes that are left.
    """
    # No views of arrays in this loop: most buckets have so few codes that a view takes longer than their sketches.
    sketches, places, rows, costs = buckets.sketches, buckets.positions, buckets.rows, visits.sketch_costs
    rough = np.float32(limit * np.float32(1.0 + 1e-5))  # covers the rounding of float32 sums
    count = 0
    while spans.next[0] < spans.next[1]:
        b = spans.next[0]
        table = spans.tables[b]
        for e in range(spans.begins[b], spans.ends[b]):
            difference = sketches[table, e] ^ asked[table]
            if count_ones(difference) > most or _sketch_cost(difference, costs, table) > rough:
                continue
            position = np.int64(places[table, e])
            if len(keep) > 0 and keep[position] == 0:
                continue
            if len(rows) == 0:
                distance = _exact_cost(sketches[table], e, query, visits.costs)
            else:
                distance = _exact_cost(rows[position], 0, query, visits.costs)
            if distance <= limit:
                hits[count], near[count] = position, distance
                count += 1
                if count == PIECE:
                    spans.begins[b] = e + 1
                    return count
        spans.next[0] = b + 1
    return count


@lean
def _sketch_cost(difference: np.uint64, costs: Singles, table: int) -> np.float32:
    cost = np.float32(0.0)
    for b in range(8):
        cost += costs[table, b, np.int64(difference >> np.uint64(8 * b)) & 255]
    return cost


@lean
def _exact_cost(words: Words, first: int, query: Words, costs: Floats) -> np.float32:
    """The distance of the code from word ``first`` on, as `tables.exact_distance` computes it, to the last bit."""
    sums, at = no_costs(0.0), np.int64(costs.ctypes.data)
    for j in range(len(costs) // 8):
        difference = np.int64((words[first + j // 8] ^ query[j // 8]) >> np.uint64(8 * (j % 8))) & 255
        sums = add_costs(sums, difference, at + 64 * j)
    return np.float32(total_cost(sums))


@lean
def _most_bits(lightest: Floats, limit: np.float32) -> int:
    """The most bits in which a sketch can differ if its code is at most ``limit`` far."""
    low, high = 0, len(lightest) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if lightest[middle] <= limit:
            low = middle
        else:
            high = middle - 1
    return low


@lean
def _comes_before(distance: np.float32, position: int, other: np.float32, other_position: int) -> bool:
    return bool(distance < other or (distance == other and position < other_position))


@lean
def _known(positions: Numbers, size: int, position: int) -> bool:
    i = 0
    while i < size and positions[i] != position:
        i += 1
    return i < size
