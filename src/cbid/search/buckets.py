"""Exact search without a full scan: tables of buckets for one segment, and the choice between them and a scan."""

import dataclasses
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.search.blocks import from_blocks, read_only
from cbid.search.kernels.scan import scan_topk, scan_within
from cbid.search.queries import Queries
from cbid.search.scan import ANY_NUMBER, TooManyHitsError, even_edges, run_in_threads, thread_count, topk, within
from cbid.search.segments import ANY, Segment

__all__ = [
    "BUCKETS_UP_TO",
    "METHODS",
    "BucketTables",
    "SearchClock",
    "nearest",
    "sums_of_subsets",
    "tables_for",
    "within_radius",
]

METHODS = ("auto", "scan", "buckets", "cells")
BUCKETS_UP_TO = 512  # bits; the nearest of longer codes are too far for buckets
LARGEST_K = 1024  # each hit is looked up among the k best
FEWEST_CODES = 1 << 14  # a scan of fewer codes takes less time than the lookups

_MOST_TABLES = 16
_MOST_KEY_BITS = 22
_SAMPLE = 1 << 14  # codes whose bits are counted, to choose the bits of the keys
_CODES_PER_VISIT = 32  # a search gives up after one bucket per this many codes,
_LEAST_VISITS = 64  # but not before so many buckets of each table
_LEAST_WORK = 1024  # and not before the time of so many codes
_FEWEST_TRIED = 64  # queries; each call takes a fifth of a millisecond more, for threads and cold caches
_SLACK = 1 - 1e-6  # a bound, in float64, is compared with distances in float32

Codes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Answers = tuple[NDArray[np.int64], NDArray[np.float32]]  # positions, distances
RangeAnswers = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]  # offsets, positions, distances


# ---- tables ----


class BucketTables:
    """Tables over codes at positions 0 to n - 1, for searches under any one weight vector for all queries.

    The search is `kernels.buckets`. The bits of the keys are those that have the largest weights and differ most
    between the stored codes, dealt to the tables in turn. Per code the tables take 12 bytes for each table, and the
    code itself if it has more than 64 bits; there is about one table per log2(n) bits.

    Parameters
    ----------
    codes : uint8 array of shape (n, ceil(n_bits / 8))
    n_bits : int
    weights : array of shape (n_bits,), default=None
        The weights that most searches will have; None for plain Hamming distance.
    """

    def __init__(self, codes: Codes, n_bits: int, weights: Floats | None = None) -> None:
        from cbid.search.kernels.buckets import (
            fill_table,
            key_codes,
            sketch_codes,
        )  # compiled code, loaded when first needed

        self.n_bits, n = n_bits, len(codes)
        self._keys, self._sketched = _chosen_bits(codes, n_bits, weights)
        n_tables, size = self._keys.shape
        rows = _as_words(codes)
        self._sketches = np.empty((n_tables, n), np.uint64)
        self._positions = np.empty((n_tables, n), np.uint32)
        self._starts = np.empty((n_tables, 2**size + 1), np.uint32)

        def fill(begin: int, end: int, first: int, last: int) -> None:
            sketches = rows[:, 0]
            for table in range(first, last):
                if n_bits > 64:
                    sketches = np.empty(n, np.uint64)
                    sketch_codes(rows, self._sketched[table], sketches)
                keys = np.empty(n, np.uint32)
                key_codes(rows, self._keys[table], keys)
                fill_table(keys, sketches, self._starts[table], self._sketches[table], self._positions[table])

        edges = even_edges(0, n_tables, min(thread_count(None), n_tables), 1)
        run_in_threads(fill, [(0, n, first, last) for first, last in itertools.pairwise(edges)])
        self._rows = rows if n_bits > 64 else np.empty((0, 1), np.uint64)
        self._visits: dict[bytes, tuple[NDArray[Any], ...]] = {}

    def __len__(self) -> int:
        return self._positions.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        arrays: list[NDArray[Any]] = [self._sketches, self._positions, self._starts, self._rows]
        arrays += [array for visits in self._visits.values() for array in visits]
        return sum(array.nbytes for array in arrays)

    def prepare(self, queries: Queries) -> None:
        """Compile the search, and list the buckets for the weights of these queries, if that is not done yet."""
        if self._key(queries.weights) not in self._visits:
            one = dataclasses.replace(queries, codes=np.zeros((1, -(-self.n_bits // 8)), np.uint8))
            self.topk(one, 1, most_work=0)
            self.within(one, np.float32(0), most_work=0)

    def topk(
        self,
        queries: Queries,
        k: int,
        *,
        keep: NDArray[np.uint8] | None = None,
        bound: NDArray[np.float32] | None = None,
        most_work: int | None = None,
        n_threads: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
        """Return positions and distances (q, k) like `scan.topk`, and the queries (q,) that were given up.

        A query is given up after the time of about ``most_work`` codes; its distances are an upper bound.
        """
        from cbid.search.kernels.buckets import topk_in_buckets

        limits = np.full(len(queries), np.inf, np.float32) if bound is None else bound
        positions = np.empty((len(queries), k), np.int64)
        distances = np.empty((len(queries), k), np.float32)
        given_up = np.empty(len(queries), bool)

        def search(rows: slice, asked: tuple[NDArray[Any], ...], kept: NDArray[np.uint8], work: int) -> None:
            limit = np.minimum(limits[rows], np.finfo(np.float32).max)
            given_up[rows] = topk_in_buckets(
                *self._tables(), *self._visits_for(queries.weights), *asked, kept, work, limit, distances[rows],
                positions[rows],
            )  # fmt: skip

        self._run(search, queries, keep, most_work, n_threads)
        return positions, distances, given_up

    def within(
        self,
        queries: Queries,
        radius: np.float32,
        *,
        keep: NDArray[np.uint8] | None = None,
        after: int | None = None,
        most_work: int | None = None,
        most_hits: int = ANY_NUMBER,
        n_threads: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
        """Return all codes at distance <= radius like `scan.within`, and the queries (q,) that were given up.

        With ``after``, the queries are the codes at positions after, after + 1..., and only codes that follow each
        are returned.
        """
        from cbid.search.kernels.buckets import within_buckets

        limit = min(radius, np.finfo(np.float32).max)
        given_up = np.empty(len(queries), bool)
        found: list[tuple[NDArray[Any], ...]] = []

        def search(rows: slice, asked: tuple[NDArray[Any], ...], kept: NDArray[np.uint8], work: int) -> None:
            limits = np.full(rows.stop - rows.start, limit, np.float32)
            first = -1 if after is None else after + rows.start
            given_up[rows], of, positions, distances = within_buckets(
                *self._tables(), *self._visits_for(queries.weights), *asked, kept, work, limits, first, most_hits
            )
            if len(of) > most_hits:
                raise TooManyHitsError
            found.append((of + rows.start, positions, distances))

        self._run(search, queries, keep, most_work, n_threads)
        return *_by_query(found, len(queries)), given_up

    def _run(
        self,
        search: Callable[[slice, tuple[NDArray[Any], ...], NDArray[np.uint8], int], None],
        queries: Queries,
        keep: NDArray[np.uint8] | None,
        most_work: int | None,
        n_threads: int | None,
    ) -> None:
        """Run ``search(queries, their words, sketches and keys, keep, most work)`` in threads."""
        from cbid.search.kernels.buckets import key_codes, sketch_codes

        assert queries.codes is not None
        self._visits_for(queries.weights)  # once, not in every thread
        words = _as_words(queries.codes)
        n_tables = len(self._keys)
        by_table = np.empty((n_tables, len(words)), np.uint32), np.empty((n_tables, len(words)), np.uint64)
        for bits, sketched, keys_of, sketches_of in zip(self._keys, self._sketched, *by_table):
            key_codes(words, bits, keys_of)
            if self.n_bits > 64:
                sketch_codes(words, sketched, sketches_of)
            else:
                sketches_of[:] = words[:, 0]
        keys, sketches = (np.ascontiguousarray(array.T) for array in by_table)
        kept = read_only(np.empty(0, np.uint8) if keep is None else keep)
        work = len(self) if most_work is None else most_work

        def job(begin: int, end: int, first: int, last: int) -> None:
            rows = slice(first, last)
            search(rows, (words[rows], sketches[rows], keys[rows]), kept, work)

        n_jobs = max(min(thread_count(n_threads), len(queries) // 4), 1)
        shares = even_edges(0, len(queries), n_jobs, 1)
        run_in_threads(job, [(0, 0, first, last) for first, last in itertools.pairwise(shares)])

    def _tables(self) -> tuple[NDArray[Any], ...]:
        return self._sketches, self._positions, self._starts, self._rows

    def _visits_for(self, weights: Floats | None) -> tuple[NDArray[Any], ...]:
        """The `kernels.buckets.Visits` of one weight vector: kept for the last two, since making them takes time."""
        key, visits = self._key(weights), self._visits
        if key not in visits:
            made = self._make_visits(np.ones(self.n_bits) if weights is None else weights)
            visits = self._visits = dict([*list(visits.items())[-1:], (key, made)])
        return visits[key]

    @staticmethod
    def _key(weights: Floats | None) -> bytes:
        return b"" if weights is None else weights.tobytes()

    def _make_visits(self, weights: Floats) -> tuple[NDArray[Any], ...]:
        n_tables, size = self._keys.shape
        n_visits = len(self) // _CODES_PER_VISIT + _LEAST_VISITS * n_tables
        masks = np.empty((n_tables, min(2**size, n_visits)), np.uint32)
        costs = np.empty((n_tables, masks.shape[1] + 1))
        for table, bits in enumerate(self._keys):
            sums, best = sums_of_subsets(weights[bits]), np.arange(2**size)
            if n_visits < len(sums):
                best = np.argpartition(sums, n_visits)[:n_visits]
            masks[table] = best[np.argsort(sums[best], kind="stable")]
            costs[table, :-1] = sums[masks[table]]
            # The next bucket costs at least as much as the last one listed; if all are listed, there is none.
            costs[table, -1] = costs[table, -2] if n_visits < len(sums) else np.inf
        order = np.argsort(costs[:, :-1], axis=None, kind="stable")[:n_visits]
        # After a bucket, its table contributes the cost of its next bucket to the bound.
        rises = (costs[:, 1:] - costs[:, :-1]).ravel()[order]
        bounds = np.cumsum([0.0, *rises]) * _SLACK
        n_bytes = -(-self.n_bits // 8)
        by_byte = np.pad(weights, (0, 8 * n_bytes - self.n_bits)).reshape(n_bytes, 8)
        sketched = np.concatenate([weights, [0.0]])[self._sketched].reshape(n_tables, 8, 8)
        lightest = np.cumsum([0.0, *np.sort(weights)[:64]])[:65]
        return (
            (order // masks.shape[1]).astype(np.uint8),
            masks.ravel()[order],
            bounds,
            np.ascontiguousarray(by_byte[:, ::-1]).ravel(),
            sums_of_subsets(sketched).astype(np.float32),
            np.pad(lightest, (0, 65 - len(lightest)), mode="edge") * _SLACK,
        )


def _chosen_bits(codes: Codes, n_bits: int, weights: Floats | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bits of the keys (tables, size), and of the sketches (tables, 64); -1 is no bit."""
    n = max(len(codes), 2)
    sample = np.unpackbits(codes[:: -(-n // _SAMPLE)], axis=1, count=n_bits)
    share = sample.mean(axis=0) if len(sample) else np.full(n_bits, 0.5)
    value = np.minimum(share, 1 - share) * (1 if weights is None else weights)
    best = np.argsort(-value, kind="stable")
    usable = max(int(np.count_nonzero(value)), 1)  # a constant bit, or one without weight, only adds empty buckets
    wanted = min(max((n - 1).bit_length() - 1, 4), _MOST_KEY_BITS, usable)
    n_tables = min(max(round(usable / wanted), 1), _MOST_TABLES)
    size = min(usable // n_tables, wanted + 2, _MOST_KEY_BITS)
    keys = best[: n_tables * size].reshape(size, n_tables).T
    if n_bits <= 64:
        whole = np.where(np.arange(64) < n_bits, np.arange(64), -1)
        return np.ascontiguousarray(keys), np.tile(whole, (n_tables, 1))
    others = [best[~np.isin(best, key)][:64] for key in keys]  # bits of the key agree, or nearly
    padded = [np.pad(bits, (0, 64 - len(bits)), constant_values=-1) for bits in others]
    return np.ascontiguousarray(keys), np.stack(padded)


def _as_words(codes: Codes) -> NDArray[np.uint64]:
    """Packed codes (n, bytes) as words (n, ceil(bytes / 8)), the first byte lowest."""
    n, width = codes.shape
    padded = codes if width % 8 == 0 else np.pad(codes, ((0, 0), (0, -width % 8)))
    return np.ascontiguousarray(padded).view("<u8").reshape(n, -1).astype(np.uint64, copy=False)


def sums_of_subsets(weights: Floats) -> Floats:
    """Return the sums (..., 2^b) of weights (..., b) over the bits set in each value; bit 0 is the highest."""
    sums = np.zeros((*weights.shape[:-1], 1))
    for s in range(weights.shape[-1]):
        sums = np.stack([sums, sums + weights[..., s, None]], axis=-1).reshape(*weights.shape[:-1], -1)
    return sums


def _by_query(found: list[tuple[NDArray[Any], ...]], n_queries: int) -> RangeAnswers:
    """Hits in any order, some twice, to offsets, positions and distances by (query, distance, position)."""
    none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    of, positions, distances = (np.concatenate(arrays) for arrays in zip(none, *found))
    order = np.lexsort((positions, distances, of))
    of, positions, distances = of[order], positions[order], distances[order]
    new = np.ones(len(of), bool)
    new[1:] = (of[1:] != of[:-1]) | (positions[1:] != positions[:-1])
    offsets = np.searchsorted(of[new], np.arange(n_queries + 1)).astype(np.int64)
    return offsets, positions[new], distances[new]


# ---- the choice between buckets and a scan ----


class SearchClock:
    """What each method has cost in the searches of a segment, by kind of search: the basis of method "auto".

    Tables are built once the scans have taken as long as building them. From then on the faster method runs. The
    other one is tried again after it has been idle so long that the attempt takes about 1 % of the time.
    """

    def __init__(self) -> None:
        self.scanned = 0.0  # seconds of all scans
        self._seconds: dict[tuple[Any, ...], dict[str, list[float]]] = {}  # per query, of the last runs
        self._expected: dict[tuple[Any, ...], dict[str, float]] = {}  # the mean of the fastest three quarters of them
        self._idle: dict[tuple[Any, ...], float] = {}  # seconds since the slower method ran

    def expected(self, kind: tuple[Any, ...], method: str) -> float | None:
        """Seconds per query, or None if this method has not run yet."""
        return self._expected.get(kind, {}).get(method)

    def record(self, kind: tuple[Any, ...], method: str, n_queries: int, seconds: float) -> None:
        """Record a run of ``n_queries`` queries: the processor time of this thread, whose share is that of others.

        On a busy machine, elapsed time would say little.
        """
        if len(self._seconds) >= 256:  # many radii or values of k
            self._seconds, self._expected, self._idle = {}, {}, {}
        last = self._seconds.setdefault(kind, {}).setdefault(method, [])
        last[:] = [*last[-15:], seconds / n_queries]
        # Not the median: some queries take much longer than others. Not all: a run may have filled the caches.
        fastest = sorted(last)[: max(3 * len(last) // 4, 1)]
        self._expected.setdefault(kind, {})[method] = sum(fastest) / len(fastest)
        self._idle[kind] = self._idle.get(kind, 0.0) + seconds
        if method == "scan":
            self.scanned += seconds

    def plan(self, kind: tuple[Any, ...], n_queries: int) -> list[tuple[str, int]]:
        """Return the methods of a search, each with its number of queries: the slower one is tried on a few."""
        few = min(n_queries, max(_FEWEST_TRIED, min(n_queries // 4, 4 * _FEWEST_TRIED)))
        by_scan, by_buckets = self.expected(kind, "scan"), self.expected(kind, "buckets")
        if by_buckets is None:
            return [("buckets", few), ("scan", n_queries - few)]
        if by_scan is None:
            return [("scan", few), ("buckets", n_queries - few)]
        best, other = ("buckets", "scan") if by_buckets <= by_scan else ("scan", "buckets")
        if max(by_scan, by_buckets) * few > 0.01 * self._idle[kind]:
            return [(best, n_queries)]
        self._idle[kind] = 0.0
        return [(other, few), (best, n_queries - few)]


_BUILDING = threading.Lock()
_BUILD_SECONDS = 1.5e-7  # per code and table, on a quiet machine
_WORK_PER_SECOND = 2e9  # sketches; with fewer, hard queries that buckets would answer sooner are scanned as well


def tables_for(segment: Segment, n_bits: int, weights: Floats | None) -> BucketTables:
    """Return the tables of a segment, built at the first call."""
    if segment.tables is None:
        with _BUILDING:  # not twice at a time
            if segment.tables is None:
                segment.tables = BucketTables(from_blocks(segment.blocks, len(segment)), n_bits, weights)
    return segment.tables


def _fits(segment: Segment, queries: Queries, k: int) -> bool:
    """Whether buckets can serve a search: codes as queries under one weight vector, in one run."""
    one_weight = queries.codes is not None and (queries.weights is None or queries.weights.ndim == 1)
    one_run = len(segment.runs) == 1 and segment.runs[0, 1] == ANY and segment.runs[0, 2] == ANY
    sized = FEWEST_CODES <= len(segment) < 2**32 - 1 and k <= LARGEST_K and queries.n_bits <= BUCKETS_UP_TO
    return bool(one_weight and one_run and sized)


def _worth_building(segment: Segment, n_bits: int, scanned: float) -> bool:
    """Whether "auto" may build tables: scans have taken as long, and a quarter of the memory is enough."""
    n_tables = min(max(round(n_bits / max((len(segment) - 1).bit_length() - 1, 4)), 1), _MOST_TABLES)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    size = len(segment) * (12 * n_tables + (n_bits // 8 if n_bits > 64 else 0))
    return 4 * size <= memory and scanned > _BUILD_SECONDS * n_tables * len(segment)


def _n_kernels() -> int:
    """The number of kernels of scans that this process has compiled or loaded."""
    return len(scan_topk.overloads) + len(scan_within.overloads)


class _Search:
    """One search of a segment: its kind, the methods that it uses, and the time that they take."""

    def __init__(self, segment: Segment, queries: Queries, kind: tuple[Any, ...]) -> None:
        segment.clock = segment.clock or SearchClock()
        self.segment, self.queries, self.clock = segment, queries, segment.clock
        self.kind = (*kind, queries.weights is None, len(queries) >= 16)
        self._n_kernels = _n_kernels()

    def plan(self, method: str) -> list[tuple[str, slice]]:
        """The methods, each with its queries."""
        n = len(self.queries)
        plan = [(method, n)]
        if method == "auto":
            known = self.segment.tables is not None
            if known or _worth_building(self.segment, self.queries.n_bits, self.clock.scanned):
                plan = self.clock.plan(self.kind, n)
            else:
                plan = [("scan", n)]
        first = plan[0][1]
        parts = [slice(0, first), slice(first, n)]
        return [(name, rows) for (name, share), rows in zip(plan, parts) if share]

    def tables(self) -> BucketTables:
        """The tables, ready for these queries, so that building and compiling are not measured."""
        tables = tables_for(self.segment, self.queries.n_bits, self.queries.weights)
        tables.prepare(self.queries)
        return tables

    def most_work(self) -> int:
        """The work, in sketches, after which a scan would have been faster."""
        by_scan = self.clock.expected(self.kind, "scan")
        known = len(self.segment) / 8 if by_scan is None else by_scan * _WORK_PER_SECOND
        return max(int(known), _LEAST_WORK)

    def record(self, name: str, rows: slice, seconds: float) -> None:
        """Record the time of a method, unless kernels were compiled or loaded meanwhile."""
        before, self._n_kernels = self._n_kernels, _n_kernels()
        if before == self._n_kernels:
            self.clock.record(self.kind, name, rows.stop - rows.start, seconds)

    def part(self, rows: slice | NDArray[np.int64]) -> Queries:
        """Some of the queries."""
        assert self.queries.codes is not None
        if isinstance(rows, slice) and rows == slice(0, len(self.queries)):
            return self.queries
        return dataclasses.replace(self.queries, codes=self.queries.codes[rows])


def nearest(
    segment: Segment,
    start: int,
    end: int,
    queries: Queries,
    k: int,
    *,
    keep: NDArray[np.uint8] | None,
    bound: NDArray[np.float32],
    method: str,
    n_threads: int | None,
) -> Answers:
    """Return positions and distances (q, k) of `scan.topk` for the run start <= p < end, by the method given."""
    kept = None if keep is None else keep[:end]

    def scan(part: Queries, far: NDArray[np.float32]) -> Answers:
        return topk(segment.blocks, end, part, k, start=start, keep=kept, bound=far, n_threads=n_threads)

    if method == "scan" or not _fits(segment, queries, k):
        return scan(queries, bound)
    search = _Search(segment, queries, ("k", k))
    answers = []
    for name, rows in search.plan(method):
        tables = search.tables() if name == "buckets" else None
        began, part, far = time.thread_time(), search.part(rows), bound[rows]
        if tables is None:
            answers.append(scan(part, far))
        else:
            positions, distances, given_up = tables.topk(
                part, k, keep=kept, bound=far, most_work=search.most_work(), n_threads=n_threads
            )
            again = np.flatnonzero(given_up)
            if len(again):
                nearer = np.minimum(far[again], distances[again, -1])
                positions[again], distances[again] = scan(search.part(again + rows.start), nearer)
            answers.append((positions, distances))
        search.record(name, rows, time.thread_time() - began)
    if len(answers) == 1:
        return answers[0]
    return np.concatenate([p for p, _ in answers]), np.concatenate([d for _, d in answers])


def within_radius(
    segment: Segment,
    start: int,
    end: int,
    queries: Queries,
    radius: np.float32,
    *,
    keep: NDArray[np.uint8] | None,
    method: str,
    following: bool = False,
    most_hits: int = ANY_NUMBER,
    n_threads: int | None,
) -> RangeAnswers:
    """Return the result of `scan.within` for positions start <= p < end, by the method given.

    With ``following``, the queries are the codes from ``start`` on, and only codes that follow each are returned.
    """
    kept = None if keep is None else keep[:end]

    def scan(part: Queries) -> RangeAnswers:
        return within(
            segment.blocks, end, part, radius, start=start, keep=kept, n_threads=n_threads, most_hits=most_hits
        )

    if not following and (method == "scan" or not _fits(segment, queries, 1)):
        return scan(queries)
    search = _Search(segment, queries, ("radius", float(radius)))
    found: list[tuple[NDArray[Any], ...]] = []

    def collect(rows: NDArray[np.int64], offsets: NDArray[np.int64], *arrays: NDArray[Any]) -> None:
        of = np.repeat(rows, np.diff(offsets))
        after = arrays[0] > start + of if following else slice(None)
        found.append((of[after], *(array[after] for array in arrays)))

    for name, rows in search.plan(method if _fits(segment, queries, 1) else "scan"):
        tables = search.tables() if name == "buckets" else None
        began, every = time.thread_time(), np.arange(rows.start, rows.stop)
        if tables is None:
            collect(every, *scan(search.part(rows)))
        else:
            offsets, positions, distances, given_up = tables.within(
                search.part(rows),
                radius,
                keep=kept,
                after=start + rows.start if following else None,
                most_work=search.most_work(),
                most_hits=most_hits,
                n_threads=n_threads,
            )
            collect(every, offsets, positions, distances)
            again = every[given_up]
            if len(again):
                collect(again, *scan(search.part(again)))
        search.record(name, rows, time.thread_time() - began)
    return _by_query(found, len(queries))
