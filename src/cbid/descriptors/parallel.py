"""Work shared by threads or processes, its results in order and never many of them waiting."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

__all__ = ["ordered_map"]

Task = TypeVar("Task")
Result = TypeVar("Result")

# Each worker process is one share of the work already: the libraries in it need no threads of their own.
_LIBRARIES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


def ordered_map(
    function: Callable[..., Result],
    tasks: Iterable[tuple[Task, tuple[Any, ...] | None]],
    n_jobs: int,
    *,
    threads: bool,
) -> Iterator[tuple[Task, Result | None]]:
    """(tag, function(*arguments)) for each (tag, arguments) of ``tasks``, in their order; None for None.

    ``tasks`` is read as results are taken, and at most 2 n_jobs of them are under way or done but not yet taken,
    however slow the taker is.
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
        finally:  # also when the taker stops early, or one has failed
            for _, future in waiting:
                if future is not None:
                    future.cancel()


def _executor(n_jobs: int, threads: bool) -> AbstractContextManager[Executor]:
    if threads:
        return ThreadPoolExecutor(n_jobs)
    # Workers that need no __main__ guard and are not forked from a process with threads. Our own: those of joblib are
    # shared by the whole process, and its ``Parallel`` cannot go on with workers that it has not made.
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(n_jobs, env=dict.fromkeys(_LIBRARIES, "1"))
