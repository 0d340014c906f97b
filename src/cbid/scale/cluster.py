"""The workers of a Dask cluster: reached within a time limit, given the task once, and outlived by the job."""

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from cbid import __version__
from cbid.progress import image_progress
from cbid.scale.parts import Job, do_part

__all__ = ["ClusterError", "connected", "run_on"]

_STALLS = 5  # rounds in a row in which workers died and not one part was finished


class ClusterError(ConnectionError):
    """The cluster cannot be reached, has no workers, or has others than this program can work with."""


@contextmanager
def connected(scheduler: Any, timeout: float) -> Iterator[Any]:
    """A ``Client`` as it is given, or one for the address of a scheduler, closed afterwards.

    Workers must be there within ``timeout`` seconds, and have this version of cbid.
    """
    distributed = _distributed()
    if isinstance(scheduler, distributed.Client):
        _check_workers(scheduler, timeout)
        yield scheduler
        return
    if not isinstance(scheduler, str):
        raise ValueError(
            f"scheduler={scheduler!r} is not accepted; give an address such as 'tcp://host:8786', or a Client"
        )
    try:
        client = distributed.Client(scheduler, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:  # timeouts are such
        raise ClusterError(f"no Dask scheduler answers at {scheduler} within {timeout:g} s: {error}") from error
    with client:
        _check_workers(client, timeout)
        yield client


def run_on(client: Any, job: Job, missing: list[int], timeout: float, verbose: int = 0) -> None:
    """Have the workers compute and write the missing parts.

    The task (with the model in it) is sent to the workers once. A worker that dies takes its parts along: they are
    given to others, and the task again if the last worker that had it is gone. An error of the task itself ends
    the run; parts that are written stay.
    """
    stalls = 0
    with image_progress(len(job.spans), "parts", shown=bool(verbose)) as progress:
        progress(len(job.spans) - len(missing))
        while missing:
            _wait_for_workers(client, timeout)
            _one_round(client, job, missing, timeout, progress)
            left = job.missing()
            stalls = 0 if len(left) < len(missing) else stalls + 1
            if stalls == _STALLS:
                raise ClusterError(
                    f"workers died {stalls} times without finishing one of {len(left)} parts; the last was rows "
                    f"{job.spans[left[0]][0]} to {job.spans[left[0]][1] - 1}: is there memory enough for it? What is "
                    f"finished is kept in {job.folder}"
                )
            missing = left


def _one_round(client: Any, job: Job, missing: list[int], timeout: float, progress: Any) -> None:
    """Submit these parts and wait for all; those whose worker was lost are simply not there afterwards."""
    distributed = _distributed()
    lost = (distributed.KilledWorker, distributed.comm.CommClosedError, CancelledError)
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    try:
        task = client.scatter(job.task, broadcast=True, hash=False, timeout=timeout)
    except OSError as error:  # timeouts and lost connections are such
        raise ClusterError(f"the cluster took no task within {timeout:g} s: {error}") from error
    # Not pure: a part that is asked for again is no old answer.
    futures = [
        client.submit(do_part, task, str(job.path(n)), job.digest, n, *job.spans[n], pure=False) for n in missing
    ]
    for future in futures:
        future.add_done_callback(done.put)
    waiting, alone_since = len(futures), None
    try:
        while waiting:
            try:
                future = done.get(timeout=1.0)
            except queue.Empty:
                if task.status != "finished":  # all that had it are gone; parts that wait for it would wait for ever
                    return
                alone_since = _still_there(client, alone_since, timeout)
                continue
            waiting -= 1
            if future.status == "finished":
                progress(1)
            elif future.status == "error" and not isinstance(future.exception(), lost):
                future.result()  # raises what the task raised
    finally:
        client.cancel(futures, force=True)


def _still_there(client: Any, alone_since: float | None, timeout: float) -> float | None:
    """Since when there is no worker, or None if there are some; an error once it lasts longer than the time limit."""
    if client.status not in ("running", "connecting"):
        raise ClusterError(f"the connection to the Dask scheduler was lost ({client.status})")
    if client.status == "running" and client.nthreads():
        return None
    since = time.monotonic() if alone_since is None else alone_since
    if time.monotonic() - since > timeout:
        raise ClusterError(f"no worker is left, and none came back within {timeout:g} s")
    return since


def _wait_for_workers(client: Any, timeout: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except (OSError, RuntimeError) as error:
        address = client.scheduler.address if client.scheduler else "the scheduler"
        raise ClusterError(f"{address} has no workers within {timeout:g} s; start some: dask worker") from error


def _check_workers(client: Any, timeout: float) -> None:
    """At least one worker answers, and those that do have this version; one that is dying is no reason to stop.

    Asked beside the tasks of the workers, not as one more of them: a cluster that is busy answers as soon.
    """
    _wait_for_workers(client, timeout)
    asked = list(client.nthreads())
    answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def ask(worker: str) -> None:
        try:
            answers.put((worker, client.run(_cbid_version, workers=[worker], on_error="return").get(worker)))
        except Exception as error:
            answers.put((worker, error))

    for worker in asked:  # each by a thread of its own: one that does not answer holds up no other
        threading.Thread(target=ask, args=(worker,), daemon=True).start()
    answered, until = 0, time.monotonic() + timeout
    for _ in asked:
        try:
            worker, found = answers.get(timeout=max(until - time.monotonic(), 0.1))
        except queue.Empty:
            break
        if found is None or isinstance(found, (OSError, CancelledError)):  # of a killed worker nothing comes
            continue
        if isinstance(found, Exception):
            raise ClusterError(f"worker {worker} cannot import cbid {__version__}: {found}") from found
        if found != __version__:
            raise ClusterError(f"worker {worker} has cbid {found}, this process {__version__}; they must be the same")
        answered += 1
    if not answered:
        raise ClusterError(f"none of {len(asked)} workers answered within {timeout:g} s")


def _cbid_version() -> str:
    import cbid

    return cbid.__version__


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("a Dask cluster needs the extra 'scale': pip install 'cbid[scale]'") from error
    return distributed
