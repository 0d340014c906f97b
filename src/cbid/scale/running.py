"""A job done: in this process, or by the workers of a Dask cluster."""

from typing import Any

from joblib import effective_n_jobs

from cbid.checks import check_n_jobs
from cbid.descriptors.parallel import ordered_map
from cbid.progress import image_progress
from cbid.scale.parts import Job, PartError, do_part

__all__ = ["n_threads", "run"]

_REPAIRS = 3  # times that damaged parts are computed again


def run(
    job: Job,
    *,
    scheduler: Any = None,
    n_jobs: int | None = None,
    timeout: float = 30.0,
    overwrite: bool = False,
    verbose: int = 0,
) -> list[Any]:
    """Compute the parts that are missing, join them; the notes of all parts.

    scheduler: None for this process, with ``n_jobs`` threads; else the address of a Dask scheduler or a ``Client``.
    timeout: seconds to wait for a scheduler, or for a cluster that has lost all its workers.
    """
    threads = n_threads(n_jobs)
    job = job.settled()
    if job.is_done(overwrite=overwrite):
        return job.notes()
    if scheduler is None:
        return _finish(job, lambda missing: _here(job, missing, threads, verbose), overwrite)
    from cbid.scale.cluster import connected, run_on

    with connected(scheduler, timeout) as client:  # before anything is written
        return _finish(job, lambda missing: run_on(client, job, missing, timeout, verbose), overwrite)


def _finish(job: Job, compute: Any, overwrite: bool) -> list[Any]:
    job.open(overwrite=overwrite)
    for repair in range(_REPAIRS + 1):
        job.sift()
        if missing := job.missing():
            compute(missing)
        try:
            return job.join()
        except PartError:
            if repair == _REPAIRS:
                raise
    raise AssertionError  # not reached


def n_threads(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` means."""
    check_n_jobs(n_jobs)
    return int(effective_n_jobs(n_jobs))


def _here(job: Job, missing: list[int], threads: int, verbose: int) -> None:
    from threadpoolctl import threadpool_limits

    tasks = ((n, (job.task, str(job.path(n)), job.digest, n, *job.spans[n])) for n in missing)
    # Set here once, before the threads begin, and lifted when they have ended: it is the limit of the process.
    with threadpool_limits(1), image_progress(len(job.spans), "parts", shown=bool(verbose)) as progress:
        progress(len(job.spans) - len(missing))
        for _ in ordered_map(do_part, tasks, threads, threads=True):
            progress(1)
