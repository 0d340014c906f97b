"""Threads and processes: parallel maps, and the settings of faiss."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

# Worker processes share the cores, so the libraries in each use one thread.
_LIBRARIES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


@contextmanager
def faiss_threads(n_threads: int) -> Iterator[None]:
    """Set the number of threads that faiss uses when called from this thread; restore it afterwards."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@contextmanager
def faiss_products(wanted: bool) -> Iterator[None]:
    """Make faiss always compute distances by matrix products, or never; restore its threshold afterwards.

    Without matrix products, faiss sums squared differences: slower, without loss of precision.
    """
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1 if wanted else 2**31 - 1
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


def each(function: Callable[[Task], Result], items: Sequence[Task], n_threads: int) -> list[Result]:
    """Return function(item) for each of ``items``, in their order; the calling thread and others share the work.

    For short tasks that release the interpreter lock: the threads are kept for the next call. Inside such a task,
    items are done one after the other, since threads of threads would only wait for each other.
    """
    if n_threads == 1 or len(items) < 2 or getattr(_state, "inside", False):
        return [function(item) for item in items]
    results: list[Any] = [None] * len(items)
    places = count()
    failed = threading.Event()

    def work() -> None:
        _state.inside = True
        try:
            while not failed.is_set() and (place := next(places)) < len(items):
                results[place] = function(items[place])
        except BaseException:
            failed.set()
            raise
        finally:
            _state.inside = False

    pool = _helpers(n_threads - 1)
    helpers = [pool.submit(copy_context().run, work) for _ in range(min(n_threads, len(items)) - 1)]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        errors = [error for helper in begun if (error := helper.exception()) is not None]
    if errors:
        raise errors[0]
    return results


_state = threading.local()


@lru_cache
def _helpers(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="cbid")


os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads do not survive a fork


def blocks_of(n: int, size: int) -> list[slice]:
    """Return slices of at most ``size`` places that cover range(n), at least one.

    They do not depend on the number of threads. So a sum over blocks is the same for every number of threads.
    """
    return [slice(start, min(start + size, n)) for start in range(0, n, size)] or [slice(0, 0)]


def ordered_map(
    function: Callable[..., Result],
    tasks: Iterable[tuple[Task, tuple[Any, ...] | None]],
    n_jobs: int,
    *,
    threads: bool,
) -> Iterator[tuple[Task, Result | None]]:
    """Yield (tag, function(*arguments)) for each (tag, arguments) of ``tasks``, in their order.

    If arguments is None, the result is None. ``tasks`` is read as results are consumed: at most 2 n_jobs of them are
    running or finished but not consumed.
    """
    if n_jobs == 1:
        for tag, arguments in tasks:
            yield tag, None if arguments is None else function(*arguments)
        return
    waiting: deque[tuple[Task, Future[Result] | None]] = deque()
    with _executor(n_jobs, threads) as executor:
        try:
            for tag, arguments in tasks:
                waiting.append((tag, None if arguments is None else executor.submit(function, *arguments)))
                while len(waiting) >= 2 * n_jobs:
                    done, future = waiting.popleft()
                    yield done, None if future is None else future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, None if future is None else future.result()
        finally:  # also if the consumer stops early or a task fails
            for _, future in waiting:
                if future is not None:
                    future.cancel()


def _executor(n_jobs: int, threads: bool) -> AbstractContextManager[Executor]:
    if threads:
        return ThreadPoolExecutor(n_jobs)
    # loky workers need no __main__ guard and are not forked from a process with threads. An executor of our own,
    # because joblib's is shared by the whole process.
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(n_jobs, env=dict.fromkeys(_LIBRARIES, "1"))
