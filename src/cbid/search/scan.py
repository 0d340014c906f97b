"""Exact top-k and range scans over blocked codes: the interface of the kernels.

``blocks`` has the layout of `cbid.search.blocks`, in memory or a read-only memory map; ``queries`` is a
`cbid.search.queries.Queries`. A distance is summed in float64 in a fixed order and rounded once to float32;
plain Hamming distances are whole numbers. Results are ordered by this float32 distance, then by position.
"""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import n_bytes
from cbid.progress import note
from cbid.search.blocks import BLOCK, check_blocks, read_only
from cbid.search.checks import as_count
from cbid.search.kernels.compile import HAS_AVX2, simd_wanted
from cbid.search.queries import Queries

__all__ = [
    "ANY_NUMBER",
    "TooManyHitsError",
    "even_edges",
    "prepare_meanwhile",
    "prepare_search",
    "run_in_threads",
    "thread_count",
    "topk",
    "topk_in_spans",
    "within",
]

Answers = tuple[NDArray[np.int64], NDArray[np.float32]]  # positions, distances
Hits = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]  # queries, positions, distances

ANY_NUMBER = 1 << 62  # of hits

_TABLE_BYTES = 1 << 19  # tables of the queries scanned together: they share the cache with the codes
_FEW_BYTES = 1 << 18  # code bytes times queries; below this a second thread costs more than it saves
_QUERIES_PER_THREAD = 4  # a thread for fewer queries is not worth its start


class TooManyHitsError(Exception):
    """More codes are within a radius than the caller can hold."""


def topk(
    blocks: NDArray[np.uint8],
    n: int,
    queries: Queries,
    k: int,
    *,
    start: int = 0,
    keep: NDArray[np.uint8] | None = None,
    bound: ArrayLike | None = None,
    n_threads: int | None = None,
    simd: bool | None = None,
) -> Answers:
    """Return the k nearest codes of each query among positions start <= p < n: positions and distances, (q, k).

    Parameters
    ----------
    blocks : uint8 array of shape (ceil(n / 32), bytes, 32)
    n, start : int
        The range of positions.
    queries : Queries
    k : int
        Missing places have position -1 and distance inf.
    keep : uint8 array of shape (n,), default=None
        Zero for codes to skip (removed or filtered out).
    bound : float or array-like of shape (q,), default=None
        Skip codes farther than this. It saves time when segments are scanned one after the other.
    n_threads : int, default=None
        None uses all processors.
    simd : bool, default=None
        None uses AVX2 if available (see ``CBID_SIMD``), False the portable filter.
    """
    from cbid.search.kernels.scan import scan_topk  # at the first scan: importing the kernels takes time

    blocks, keep, simd = _check(blocks, n, queries, start, keep, simd)
    k = as_count(k, "k")
    thresholds = _just_above(np.inf if bound is None else bound, len(queries), "bound")
    held = min(k, max(n - start, 1))  # a heap never holds more codes than there are

    def scan(begin: int, end: int, first: int, last: int) -> Answers:
        positions = np.empty((last - first, held), np.int64)
        distances = np.empty((last - first, held), np.float32)
        for q in _query_blocks(first, last, blocks.shape[1]):
            rows = slice(q.start - first, q.stop - first)
            costs = queries.costs(q.start, q.stop)
            too_low = scan_topk(
                blocks, begin, end, keep, *costs, not simd or None, True, thresholds[q].copy(), distances[rows],
                positions[rows],
            )  # fmt: skip
            again = np.flatnonzero(too_low)  # rare: the sample was not like the other codes
            if len(again):
                near, at = np.empty((len(again), held), np.float32), np.empty((len(again), held), np.int64)
                scan_topk(
                    blocks, begin, end, keep, *(cost[again] for cost in costs), not simd or None, False,
                    thresholds[q][again], near, at,
                )  # fmt: skip
                distances[rows][again], positions[rows][again] = near, at
        return positions, distances

    parts, over_codes = _run(scan, blocks, n, len(queries), start, n_threads)
    positions, distances = parts[0]
    if len(parts) > 1:
        positions = np.concatenate([p for p, _ in parts], axis=1 if over_codes else 0)
        distances = np.concatenate([d for _, d in parts], axis=1 if over_codes else 0)
    if over_codes and len(parts) > 1:
        # The parts are in the order of positions, so a stable sort by distance keeps the tie rule.
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :held]
        positions = np.take_along_axis(positions, nearest, axis=1)
        distances = np.take_along_axis(distances, nearest, axis=1)
    if held < k:
        positions = np.pad(positions, ((0, 0), (0, k - held)), constant_values=-1)
        distances = np.pad(distances, ((0, 0), (0, k - held)), constant_values=np.inf)
    return positions, distances


def prepare_search() -> None:
    """Compile the kernels of a search, or load them from the cache, which the first search would do otherwise.

    Those of searches within a radius are included: near-duplicates and many ties need them.
    """
    queries = Queries.from_codes(np.zeros((1, 1), np.uint8), 8)
    blocks = read_only(np.zeros((1, 1, BLOCK), np.uint8))
    topk(blocks, 1, queries, 1)
    within(blocks, 1, queries, 0)


@contextmanager
def prepare_meanwhile() -> Iterator[Callable[[], None]]:
    """Compile the kernels of a search in another process during the block, unless numba has them in its cache.

    Yields a function that waits for that process and then does what `prepare_search` does.
    """
    process = None
    if sys.executable and not (_in_cache("scan_topk") and _in_cache("scan_within")):
        note("compiling the search kernels in the background, once for this installation")
        # -P: no module of the current folder is imported.
        command = [sys.executable, "-P", "-c", "from cbid.search import prepare_search; prepare_search()"]
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)

    def prepare() -> None:
        if process is not None and process.poll() is None:
            note("waiting for the search kernels")
            process.wait()
        prepare_search()  # from the cache; if the process failed, the kernels are compiled here

    try:
        yield prepare
    finally:
        if process is not None:
            process.terminate()
            process.wait()


def _in_cache(kernel: str) -> bool:
    """Return whether numba's cache has a kernel that is newer than the sources, or cannot be used."""
    from cbid.search.kernels import scan

    folder = getattr(scan, kernel).stats.cache_path
    if folder is None:
        return True  # compiled in every process: another one does not help
    changed = max(path.stat().st_mtime for path in Path(scan.__file__).parent.glob("*.py"))
    return any(path.stat().st_mtime > changed for path in Path(folder).glob(f"scan.{kernel}-*.nbi"))


def topk_in_spans(
    blocks: NDArray[np.uint8],
    ids: NDArray[np.int64],
    queries: Queries,
    k: int,
    spans: NDArray[np.int64],
    edges: NDArray[np.int64],
    *,
    keep: NDArray[np.uint8] | None = None,
    bound: NDArray[np.float32] | None = None,
    n_threads: int | None = None,
) -> Answers:
    """Return the k nearest codes of each query by (distance, id) in spans of positions: the cells it probes.

    ``spans`` (s, 2) holds first positions and ends; query i scans spans edges[i] to edges[i + 1]. The other
    arguments and the result are those of `topk`.
    """
    from cbid.search.kernels.scan import scan_spans

    thresholds = _just_above(np.inf if bound is None else bound, len(queries), "bound")
    positions = np.empty((len(queries), k), np.int64)
    distances = np.empty((len(queries), k), np.float32)
    kept = read_only(np.empty(0, np.uint8) if keep is None else keep)
    codes, id_of = read_only(blocks), read_only(ids)
    simd = simd_wanted()

    def scan(begin: int, end: int, first: int, last: int) -> None:
        for q in _query_blocks(first, last, blocks.shape[1]):
            scan_spans(
                codes, id_of, kept, spans, edges[q.start : q.stop + 1],
                *queries.costs(q.start, q.stop), not simd or None, thresholds[q], distances[q], positions[q],
            )  # fmt: skip

    n_jobs = max(min(thread_count(n_threads), len(queries) // _QUERIES_PER_THREAD), 1)
    shares = even_edges(0, len(queries), n_jobs, 1)
    run_in_threads(scan, [(0, len(ids), first, last) for first, last in itertools.pairwise(shares)])
    return positions, distances


def within(
    blocks: NDArray[np.uint8],
    n: int,
    queries: Queries,
    radius: ArrayLike,
    *,
    start: int = 0,
    keep: NDArray[np.uint8] | None = None,
    n_threads: int | None = None,
    simd: bool | None = None,
    most_hits: int = ANY_NUMBER,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return all codes among positions start <= p < n at distance <= radius, a number or one per query (q,).

    The result is offsets (q + 1,), positions and distances: those of query i are at offsets[i]:offsets[i + 1],
    ordered by (distance, position). If a thread finds more than ``most_hits``, a `TooManyHitsError` is raised. The
    other arguments are those of `topk`.
    """
    from cbid.search.kernels.scan import scan_within

    blocks, keep, simd = _check(blocks, n, queries, start, keep, simd)
    thresholds = _just_above(radius, len(queries), "radius")

    def scan(begin: int, end: int, first: int, last: int) -> list[Hits]:
        found, left = [], most_hits
        for q in _query_blocks(first, last, blocks.shape[1]):
            costs = queries.costs(q.start, q.stop)
            of, positions, distances = scan_within(
                blocks, begin, end, keep, *costs, not simd or None, thresholds[q].copy(), left
            )
            left -= len(of)
            if left < 0:
                raise TooManyHitsError
            found.append((of + q.start, positions, distances))
        return found

    parts, _ = _run(scan, blocks, n, len(queries), start, n_threads)
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    found += [hits for part in parts for hits in part]
    of, positions, distances = (np.concatenate(arrays) for arrays in zip(*found))
    nearest = np.lexsort((positions, distances, of))
    offsets = np.searchsorted(of[nearest], np.arange(len(queries) + 1)).astype(np.int64)
    return offsets, positions[nearest], distances[nearest]


def _check(
    blocks: NDArray[np.uint8],
    n: int,
    queries: Queries,
    start: int,
    keep: NDArray[np.uint8] | None,
    simd: bool | None,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], bool]:
    blocks = np.ascontiguousarray(check_blocks(blocks))
    if n_bytes(queries.n_bits) != blocks.shape[1]:
        raise ValueError(
            f"queries have {queries.n_bits} bits ({n_bytes(queries.n_bits)} bytes); "
            f"the codes in blocks have {blocks.shape[1]} bytes"
        )
    if not 0 <= n <= BLOCK * len(blocks):
        raise ValueError(f"n={n}: expected an integer from 0 to {BLOCK * len(blocks)}, the codes in blocks")
    if not 0 <= start <= n:
        raise ValueError(f"start={start}: expected an integer from 0 to n={n}")
    if keep is None:
        keep = np.empty(0, np.uint8)
    elif keep.shape != (n,) or keep.dtype not in (np.uint8, np.bool_):
        raise ValueError(f"keep has shape {keep.shape} and dtype {keep.dtype}; expected uint8 of shape ({n},)")
    if simd is None:
        simd = simd_wanted()
    elif simd and not HAS_AVX2:
        raise ValueError("simd=True: this processor has no AVX2; expected None or False")
    return read_only(blocks), read_only(np.ascontiguousarray(keep).view(np.uint8)), simd


def _just_above(distance: ArrayLike, n_queries: int, name: str) -> NDArray[np.float32]:
    """The smallest float32 above ``distance``, one per query: "at most" becomes "below"."""
    given = np.asarray(distance)
    if given.dtype == np.float32 and given.shape == (n_queries,) and not np.isnan(given).any():
        return np.nextafter(given, np.float32(np.inf))  # between segments: the rest would slow down single queries
    given = given.astype(np.float64)
    if given.shape not in ((), (n_queries,)) or np.any(np.isnan(given)):
        raise ValueError(
            f"{name} has shape {given.shape}{' and NaN entries' if np.any(np.isnan(given)) else ''}; "
            f"expected a number or ({n_queries},) numbers"
        )
    # Round down first: a float32 distance is at most `given` if it is at most the float32 below it.
    with np.errstate(over="ignore"):
        rounded = given.astype(np.float32)
    rounded = np.where(rounded > given, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    above = np.nextafter(rounded, np.float32(np.inf))
    return np.array(np.broadcast_to(above, (n_queries,)), np.float32)


def _query_blocks(first: int, last: int, width: int) -> list[slice]:
    """Slices of queries whose tables fit in the cache beside the codes."""
    size = max(min(_TABLE_BYTES // (64 * width), 256), 8)
    return [slice(q, min(q + size, last)) for q in range(first, last, size)]


def _run(
    scan: Callable[[int, int, int, int], Any],
    blocks: NDArray[np.uint8],
    n: int,
    n_queries: int,
    start: int,
    n_threads: int | None,
) -> tuple[list[Any], bool]:
    """Run ``scan(begin, end, first query, last query)`` in threads; return the parts, and whether codes are split.

    Many queries are split among the threads. Few queries would leave threads idle, so the codes are split.
    """
    n_threads = thread_count(n_threads)
    if (n - start) * blocks.shape[1] * n_queries < _FEW_BYTES:
        n_threads = 1
    over_codes = n_queries < 8 * n_threads
    if over_codes:
        edges = even_edges(start, n, n_threads, BLOCK)
        jobs = [(a, b, 0, n_queries) for a, b in itertools.pairwise(edges) if a < b]
    else:
        # Multiples of eight: the kernels scan up to eight queries at a time.
        jobs = [(start, n, a, b) for a, b in itertools.pairwise(even_edges(0, n_queries, n_threads, 8))]
    return run_in_threads(scan, jobs or [(start, n, 0, n_queries)]), over_codes


def even_edges(begin: int, end: int, parts: int, multiple: int) -> list[int]:
    """Return begin = e_0 <= e_1 ... <= e_parts = end, evenly spaced; inner edges are multiples of ``multiple``."""
    inner = (begin + (end - begin) * i // parts for i in range(1, parts))
    return [begin, *(max(edge // multiple * multiple, begin) for edge in inner), end]


def run_in_threads(scan: Callable[..., Any], jobs: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the results of ``scan(*job)``: the first job runs in this thread, each other one in a new thread.

    The kernels release the interpreter lock. No thread outlives the call, so a fork is safe.
    """
    if len(jobs) == 1:
        return [scan(*jobs[0])]
    results: list[Any] = [None] * len(jobs)
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            results[i] = scan(*jobs[i])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(1, len(jobs))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def thread_count(n_threads: int | None) -> int:
    """Return ``n_threads``, or the number of processors if None."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return as_count(n_threads, "n_threads")
