"""Run a job: in threads of this process or on the workers of a Dask cluster, within a budget of memory."""

import gc
import queue
import re
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from cbid import __version__
from cbid.checks import check_n_jobs
from cbid.extras import missing_extra
from cbid.progress import image_progress
from cbid.scale.parts import Job, PartError, compute_part
from cbid.threads import ordered_map

_REPAIRS = 3  # how often damaged parts are recomputed
_STALLS = 5  # consecutive rounds in which workers die and no part is finished


class ClusterError(ConnectionError):
    """The cluster cannot be reached, has no workers, or runs another version of cbid."""


def run(
    job: Job,
    *,
    scheduler: Any = None,
    n_jobs: int | None = None,
    timeout: float = 30.0,
    overwrite: bool = False,
    verbose: int = 0,
) -> list[Any]:
    """Compute the missing parts of a job, join them, and return the notes of all parts.

    ``scheduler`` is None for this process, with ``n_jobs`` threads; else the address of a Dask scheduler or a
    ``Client``. ``timeout`` is in seconds, for a scheduler or a cluster that has lost all its workers.
    """
    threads = n_threads(n_jobs)
    job = job.with_earlier_spans()
    if job.is_done(overwrite=overwrite):
        return job.notes()
    if scheduler is None:
        return _complete(job, lambda missing: _run_here(job, missing, threads, verbose), overwrite)
    with _connected(scheduler, timeout) as client:  # fails before anything is written
        return _complete(job, lambda missing: _run_on(client, job, missing, timeout, verbose), overwrite)


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` means."""
    check_n_jobs(n_jobs)
    return int(effective_n_jobs(n_jobs))


def _complete(job: Job, compute: Callable[[list[int]], None], overwrite: bool) -> list[Any]:
    job.open(overwrite=overwrite)
    for repair in range(_REPAIRS + 1):
        job.remove_damaged()
        if missing := job.missing():
            compute(missing)
        try:
            return job.join()
        except PartError:
            if repair == _REPAIRS:
                raise
    raise AssertionError  # not reached


def _run_here(job: Job, missing: list[int], threads: int, verbose: int) -> None:
    from threadpoolctl import threadpool_limits

    tasks = ((n, (job.task, str(job.path(n)), job.digest, n, *job.spans[n])) for n in missing)
    # The limit belongs to the process: set it once, before the threads start, until they have ended.
    with threadpool_limits(1), image_progress(len(job.spans), "parts", shown=bool(verbose)) as progress:
        progress(len(job.spans) - len(missing))
        for _ in ordered_map(compute_part, tasks, threads, threads=True):
            progress(1)


# ---- Dask ----


@contextmanager
def _connected(scheduler: Any, timeout: float) -> Iterator[Any]:
    """Yield the given ``Client``, or a new one for the address of a scheduler, which is closed afterwards.

    Workers must answer within ``timeout`` seconds and run this version of cbid.
    """
    distributed = _distributed()
    if isinstance(scheduler, distributed.Client):
        _check_workers(scheduler, timeout)
        yield scheduler
        return
    if not isinstance(scheduler, str):
        raise ValueError(f"scheduler={scheduler!r}: expected an address such as 'tcp://host:8786', or a Client")
    try:
        client = distributed.Client(scheduler, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:  # timeouts are OSErrors
        raise ClusterError(f"no Dask scheduler answers at {scheduler} within {timeout:g} s: {error}") from error
    with client:
        _check_workers(client, timeout)
        yield client


def _run_on(client: Any, job: Job, missing: list[int], timeout: float, verbose: int = 0) -> None:
    """Compute and write the missing parts on the workers.

    The task (with the model) is sent to the workers once. Parts of a worker that dies go to other workers; the task
    is sent again if no remaining worker has it. An error of the task itself stops the run; finished parts stay.
    """
    stalls = 0
    with image_progress(len(job.spans), "parts", shown=bool(verbose)) as progress:
        progress(len(job.spans) - len(missing))
        while missing:
            _wait_for_workers(client, timeout)
            _run_round(client, job, missing, timeout, progress)
            left = job.missing()
            stalls = 0 if len(left) < len(missing) else stalls + 1
            if stalls == _STALLS:
                start, stop = job.spans[left[0]]
                raise ClusterError(
                    f"workers died {stalls} times without finishing one of {len(left)} parts, the last time at rows "
                    f"{start} to {stop - 1}; check the memory of the workers. Finished parts stay in {job.folder}"
                )
            missing = left


def _run_round(client: Any, job: Job, missing: list[int], timeout: float, progress: Any) -> None:
    """Submit these parts and wait for all of them; parts of a lost worker stay missing."""
    distributed = _distributed()
    lost = (distributed.KilledWorker, distributed.comm.CommClosedError, CancelledError)
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    try:
        task = client.scatter(job.task, broadcast=True, hash=False, timeout=timeout)
    except OSError as error:  # timeouts and lost connections
        raise ClusterError(f"the cluster accepted no task within {timeout:g} s: {error}") from error
    # Not pure: Dask must not answer a repeated part from an old result.
    futures = [
        client.submit(compute_part, task, str(job.path(n)), job.digest, n, *job.spans[n], pure=False) for n in missing
    ]
    for future in futures:
        future.add_done_callback(done.put)
    waiting, alone_since = len(futures), None
    try:
        while waiting:
            try:
                future = done.get(timeout=1.0)
            except queue.Empty:
                if task.status != "finished":  # no worker has the task any more: the parts would wait forever
                    return
                alone_since = _check_connection(client, alone_since, timeout)
                continue
            waiting -= 1
            if future.status == "finished":
                progress(1)
            elif future.status == "error" and not isinstance(future.exception(), lost):
                future.result()  # raises the error of the task
    finally:
        client.cancel(futures, force=True)


def _check_connection(client: Any, alone_since: float | None, timeout: float) -> float | None:
    """Return since when no worker is left, or None if there are workers; raise after ``timeout`` seconds."""
    if client.status not in ("running", "connecting"):
        raise ClusterError(f"the connection to the Dask scheduler was lost ({client.status})")
    if client.status == "running" and client.nthreads():
        return None
    since = time.monotonic() if alone_since is None else alone_since
    if time.monotonic() - since > timeout:
        raise ClusterError(f"all workers are lost, and none came back within {timeout:g} s")
    return since


def _wait_for_workers(client: Any, timeout: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except (OSError, RuntimeError) as error:
        address = client.scheduler.address if client.scheduler else "the scheduler"
        raise ClusterError(f"{address} has no workers within {timeout:g} s; start some: dask worker") from error


def _check_workers(client: Any, timeout: float) -> None:
    """Check that at least one worker answers, and that all that answer run this version.

    The request does not wait for the tasks of the workers, so a busy cluster answers too.
    """
    _wait_for_workers(client, timeout)
    workers = list(client.nthreads())
    answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def ask(worker: str) -> None:
        try:
            answers.put((worker, client.run(_cbid_version, workers=[worker], on_error="return").get(worker)))
        except Exception as error:
            answers.put((worker, error))

    for worker in workers:  # one thread each: a worker that does not answer delays no other
        threading.Thread(target=ask, args=(worker,), daemon=True).start()
    answered, until = 0, time.monotonic() + timeout
    for _ in workers:
        try:
            worker, found = answers.get(timeout=max(until - time.monotonic(), 0.1))
        except queue.Empty:
            break
        if found is None or isinstance(found, (OSError, CancelledError)):  # the worker was killed
            continue
        if isinstance(found, Exception):
            raise ClusterError(f"worker {worker} cannot import cbid {__version__}: {found}") from found
        if found != __version__:
            raise ClusterError(f"worker {worker} has cbid {found}, this process {__version__}; they must be equal")
        answered += 1
    if not answered:
        raise ClusterError(f"none of {len(workers)} workers answered within {timeout:g} s")


def _cbid_version() -> str:
    import cbid

    return cbid.__version__


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise missing_extra("a Dask cluster", "scale") from error
    return distributed


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_STEP = 64 * 2**20  # the size of the process is rounded to it, so that two runs of one program agree


def as_bytes(max_memory: int | str) -> int:
    """Convert a number of bytes, or text such as "2GB" (10^9) or "1.5GiB" (2^30), to bytes.

    >>> as_bytes("2GB"), as_bytes("1.5 MiB"), as_bytes(4096)
    (2000000000, 1572864, 4096)
    """
    size = 0
    if isinstance(max_memory, (int, np.integer)) and not isinstance(max_memory, bool):
        size = int(max_memory)
    elif isinstance(max_memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", max_memory.lower())
        if found and found[2] in _UNITS:
            size = int(float(found[1]) * _UNITS[found[2]])
    if size < 1:
        raise ValueError(f'max_memory={max_memory!r}: expected a number of bytes, or text such as "2GB" or "512MiB"')
    return size


def process_bytes() -> int:
    """Return the bytes of memory that this process uses; without /proc, the most that it ever used."""
    try:
        with open("/proc/self/statm", "rb") as file:
            import resource

            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # not a Unix: an upper guess for Python and its libraries
        return 512 * 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def used_budget() -> int:
    """Return the part of a memory budget that the process uses already, rounded up by 64 to 128 MiB."""
    return (process_bytes() // _STEP + 2) * _STEP


def peak_allocation(call: Callable[[], Any]) -> int:
    """Return the most bytes that a call allocates at one time.

    Counted by tracemalloc, which sees numpy's arrays. Unlike the size of the process it is the same in every run.
    """
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start(1)
    try:
        gc.collect()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        return max(tracemalloc.get_traced_memory()[1] - before, 0)
    finally:
        if not running:
            tracemalloc.stop()
