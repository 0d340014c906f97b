"""Exact top-k over spans of positions that differ from query to query: the cells that each one probes."""

import itertools

import numpy as np
from numpy.typing import NDArray

from cbid.search.kernels.compile import simd_wanted
from cbid.search.queries import Queries
from cbid.search.scan import _in_threads, _just_above, _query_blocks, _read_only, _thread_count

__all__ = ["topk_in_spans"]

_QUERIES_PER_THREAD = 4  # fewer are not worth a thread of their own


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
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k nearest codes of each query by (distance, id): positions and distances (q, k), as in `scan.topk`.

    ``spans`` (s, 2) holds first positions and ends; query i looks at spans edges[i] to edges[i + 1].
    """
    # Imported at the first scan, as numba's compiled code is.
    from cbid.search.kernels.spans import scan_spans

    thresholds = _just_above(np.inf if bound is None else bound, len(queries), "bound")
    positions = np.empty((len(queries), k), np.int64)
    distances = np.empty((len(queries), k), np.float32)
    kept = _read_only(np.empty(0, np.uint8) if keep is None else keep)
    codes, id_of = _read_only(blocks), ids.view()
    id_of.flags.writeable = False  # one type for arrays in memory and mapped ones, as in `scan`
    simd = simd_wanted()

    def scan(begin: int, end: int, first: int, last: int) -> None:
        for q in _query_blocks(first, last, blocks.shape[1]):
            scan_spans(
                codes, id_of, kept, spans, edges[q.start : q.stop + 1],
                *queries.costs(q.start, q.stop), not simd or None, thresholds[q], distances[q], positions[q],
            )  # fmt: skip

    n_jobs = max(min(_thread_count(n_threads), len(queries) // _QUERIES_PER_THREAD), 1)
    shares = np.linspace(0, len(queries), n_jobs + 1).astype(int).tolist()
    _in_threads(scan, [(0, len(ids), first, last) for first, last in itertools.pairwise(shares)])
    return positions, distances
