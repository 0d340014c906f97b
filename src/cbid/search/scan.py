"""Exact top-k and range scans over blocked codes: the interface of the kernels.

``blocks`` is the layout of `cbid.search.blocks`, in memory or a read-only memory map; ``queries`` is a
`cbid.search.queries.Queries`. A distance is summed in float64 in a fixed order and rounded once to float32;
plain Hamming is a whole number. Order and ties go by that float32 distance, then by the smaller position.
"""

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import n_bytes
from cbid.search.blocks import BLOCK, check_blocks, from_blocks, to_blocks
from cbid.search.kernels.compile import HAS_AVX2, simd_wanted
from cbid.search.queries import Queries

__all__ = ["Queries", "from_blocks", "to_blocks", "topk", "within"]

Answers = tuple[NDArray[np.int64], NDArray[np.float32]]  # positions, distances
Hits = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]  # queries, positions, distances

_TABLE_BYTES = 1 << 19  # tables of the queries scanned together: they share the cache with the codes
_FEW_BYTES = 1 << 18  # code bytes times queries below which a second thread costs more than it saves


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
    """The k nearest codes of each query among positions start <= p < n: positions and distances, (q, k).

    ``keep`` (n,) is zero for codes to pass over (deleted, or filtered out). ``bound`` (q,) or a number: codes
    farther than it are not wanted, which saves time when segments are scanned one after the other. Places
    that stay empty have position -1 and distance inf. ``n_threads=None`` takes all processors; ``simd=None``
    takes AVX2 where there is it (see `CBID_SIMD`), False the portable filter.
    """
    blocks, keep, simd = _check(blocks, n, queries, start, keep, simd)
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"k is {k!r} ({type(k).__name__}); an int of at least 1 is accepted")
    if k < 1:
        raise ValueError(f"k is {k}; an int of at least 1 is accepted")
    if bound is None:
        thresholds = np.full(len(queries), np.inf, np.float32)
    else:
        thresholds = _just_above(bound, len(queries), "bound")
    kernel = _kernels().scan_topk
    held = min(int(k), max(n - start, 1))  # a heap never holds more than there is

    def scan(begin: int, end: int, first: int, last: int) -> Answers:
        positions = np.empty((last - first, held), np.int64)
        distances = np.empty((last - first, held), np.float32)
        for q in _query_blocks(first, last, blocks.shape[1]):
            rows = slice(q.start - first, q.stop - first)
            costs = queries.costs(q.start, q.stop)
            too_low = kernel(
                blocks, begin, end, keep, *costs, not simd or None, True, thresholds[q].copy(), distances[rows],
                positions[rows],
            )  # fmt: skip
            again = np.flatnonzero(too_low)  # few if any: where a sample of the codes was not like the rest
            if len(again):
                near, at = np.empty((len(again), held), np.float32), np.empty((len(again), held), np.int64)
                kernel(
                    blocks, begin, end, keep, *(cost[again] for cost in costs), not simd or None, False,
                    thresholds[q][again], near, at,
                )  # fmt: skip
                distances[rows][again], positions[rows][again] = near, at
        return positions, distances

    parts, over_codes = _run(scan, blocks, n, len(queries), start, n_threads)
    positions = np.concatenate([p for p, _ in parts], axis=1 if over_codes else 0)
    distances = np.concatenate([d for _, d in parts], axis=1 if over_codes else 0)
    if over_codes and len(parts) > 1:
        # Parts follow each other in position, so a stable sort by distance keeps the tie rule.
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :held]
        positions = np.take_along_axis(positions, nearest, axis=1)
        distances = np.take_along_axis(distances, nearest, axis=1)
    if held < k:
        positions = np.pad(positions, ((0, 0), (0, k - held)), constant_values=-1)
        distances = np.pad(distances, ((0, 0), (0, k - held)), constant_values=np.inf)
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
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """All codes among positions start <= p < n with distance <= radius, a number or one per query (q,).

    Returns offsets (q + 1,), positions and distances: those of query i stand at offsets[i]:offsets[i + 1],
    ordered by (distance, position). The other arguments are those of `topk`.
    """
    blocks, keep, simd = _check(blocks, n, queries, start, keep, simd)
    thresholds = _just_above(radius, len(queries), "radius")
    kernel = _kernels().scan_within

    def scan(begin: int, end: int, first: int, last: int) -> list[Hits]:
        found = []
        for q in _query_blocks(first, last, blocks.shape[1]):
            of, positions, distances = kernel(
                blocks, begin, end, keep, *queries.costs(q.start, q.stop), not simd or None, thresholds[q].copy()
            )
            found.append((of + q.start, positions, distances))
        return found

    parts, _ = _run(scan, blocks, n, len(queries), start, n_threads)
    found = [hits for part in parts for hits in part]
    of = np.concatenate([h[0] for h in found]) if found else np.empty(0, np.int64)
    positions = np.concatenate([h[1] for h in found]) if found else np.empty(0, np.int64)
    distances = np.concatenate([h[2] for h in found]) if found else np.empty(0, np.float32)
    nearest = np.lexsort((positions, distances, of))
    offsets = np.searchsorted(of[nearest], np.arange(len(queries) + 1)).astype(np.int64)
    return offsets, positions[nearest], distances[nearest]


def _kernels() -> Any:
    # Imported at the first scan: what only packs codes does not pay for loading numba's compiled code.
    from cbid.search.kernels import scan as _scan

    return _scan


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
            f"queries have {queries.n_bits} bits, {n_bytes(queries.n_bits)} bytes; "
            f"the codes in blocks are {blocks.shape[1]} bytes wide"
        )
    if not 0 <= n <= BLOCK * len(blocks):
        raise ValueError(f"n is {n}; 0 to {BLOCK * len(blocks)}, what blocks hold, is accepted")
    if not 0 <= start <= n:
        raise ValueError(f"start is {start}; 0 to n = {n} is accepted")
    if keep is None:
        keep = np.empty(0, np.uint8)
    elif keep.shape != (n,) or keep.dtype not in (np.uint8, np.bool_):
        raise ValueError(f"keep has shape {keep.shape} and dtype {keep.dtype}; uint8 of shape ({n},) is accepted")
    if simd is None:
        simd = simd_wanted()
    elif simd and not HAS_AVX2:
        raise ValueError("simd is True, but this processor has no AVX2; None or False is accepted")
    # Read-only views of one type, so that a memory map does not compile the kernels a second time.
    return _read_only(blocks), _read_only(np.ascontiguousarray(keep).view(np.uint8)), simd


def _read_only(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    view = array.view()
    view.flags.writeable = False
    return view


def _just_above(distance: ArrayLike, n_queries: int, name: str) -> NDArray[np.float32]:
    """The least float32 above ``distance``, one per query: "at most" becomes "below"."""
    given = np.asarray(distance, np.float64)
    if given.shape not in ((), (n_queries,)) or np.any(np.isnan(given)):
        raise ValueError(
            f"{name} has shape {given.shape}{' and NaN entries' if np.any(np.isnan(given)) else ''}; "
            f"a number or ({n_queries},) numbers are accepted"
        )
    # Rounding down first: a float32 distance is at most `given` when it is at most the float32 below it.
    with np.errstate(over="ignore"):
        rounded = given.astype(np.float32)
    rounded = np.where(rounded > given, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    above = np.nextafter(rounded, np.float32(np.inf))
    return np.array(np.broadcast_to(above, (n_queries,)), np.float32)


def _query_blocks(first: int, last: int, width: int) -> list[slice]:
    """Queries in runs whose tables fit the cache beside the codes."""
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
    """``scan(begin, end, first query, last query)`` in threads; the parts, and whether they divide the codes.

    Many queries are divided among the threads; few queries would leave some idle, so the codes are divided.
    """
    n_threads = _thread_count(n_threads)
    if (n - start) * blocks.shape[1] * n_queries < _FEW_BYTES:
        n_threads = 1
    over_codes = n_queries < 8 * n_threads
    if over_codes:
        edges = _edges(start, n, n_threads, BLOCK)
        jobs = [(a, b, 0, n_queries) for a, b in itertools.pairwise(edges) if a < b]
    else:
        # Multiples of eight: the kernels take up to eight queries at a time.
        jobs = [(start, n, a, b) for a, b in itertools.pairwise(_edges(0, n_queries, n_threads, 8))]
    return _in_threads(scan, jobs or [(start, n, 0, n_queries)]), over_codes


def _edges(begin: int, end: int, parts: int, multiple: int) -> list[int]:
    """begin = e_0 <= e_1 ... <= e_parts = end, about evenly spaced, the inner ones multiples of
    ``multiple``."""
    inner = (begin + (end - begin) * i // parts for i in range(1, parts))
    return [begin, *(max(edge // multiple * multiple, begin) for edge in inner), end]


def _in_threads(scan: Callable[[int, int, int, int], Any], jobs: list[tuple[int, int, int, int]]) -> list[Any]:
    """Results of ``scan(*job)``: the first job in this thread, each other in its own (the kernels drop the
    interpreter lock; threads are started anew, so nothing outlives the call or breaks on fork)."""
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


def _thread_count(n_threads: int | None) -> int:
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_threads, bool) or not isinstance(n_threads, (int, np.integer)) or n_threads < 1:
        raise ValueError(f"n_threads is {n_threads!r}; None or an int of at least 1 is accepted")
    return int(n_threads)
