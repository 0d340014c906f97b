"""Runs the cells that are missing, some tasks at a time, and keeps each result as it comes."""

import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from threadpoolctl import threadpool_limits

from cbid.paper.base import Context, Experiment, Settings
from cbid.paper.raw import RawResults
from cbid.paper.registry import EXPERIMENTS, load_experiment
from cbid.paper.sets import CATALOGUE, DataAbsent
from cbid.threads import faiss_threads

__all__ = ["Plan", "Task", "Trouble", "present_sets", "raw_file", "run_missing", "tasks_of", "told"]

_KILLED = (
    "a worker was killed, perhaps for want of memory, and with it all tasks under way; what they had done is kept, "
    "and the same command, with fewer --jobs, goes on from there"
)


@dataclass(frozen=True)
class Task:
    """Cells of one experiment for one worker, which finds it by its module; seconds is a guess."""

    experiment: str
    module: str
    cells: list[Settings]
    seconds: float


@dataclass
class Plan:
    """What an experiment has to run. absent: the sets that are not on this machine, with the reason. lacking: parts
    of sets that turned out not to be there. failures: errors. kept: how many cells were there before."""

    experiment: Experiment
    cells: list[Settings]
    absent: dict[str, str]
    kept: int = 0
    lacking: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trouble:
    """Why a task ended early. lacking: for want of data, not for an error."""

    text: str
    lacking: bool = False


def present_sets(experiment: Experiment, context: Context) -> tuple[list[str], dict[str, str]]:
    """Of the sets of an experiment, those that are here, and why the others are not."""
    present, absent = [], {}
    for name in experiment.sets:
        try:
            CATALOGUE[name].find(context.root)
            present.append(name)
        except DataAbsent as reason:
            absent[name] = str(reason)
    return present, absent


def raw_file(out: Path, experiment: Experiment) -> RawResults:
    return RawResults(out / "raw" / f"{experiment.name}.jsonl", experiment.revision)


def tasks_of(plans: Sequence[Plan], out: Path, quick: bool) -> list[Task]:
    """The cells that are missing, those that take longest first, so that all workers end at about the same time.

    An experiment whose raw results cannot be read has failed, and has no tasks.
    """
    tasks: list[Task] = []
    for plan in plans:
        raw = raw_file(out, plan.experiment)
        try:
            raw.mend()
            missing = raw.missing(plan.cells)
        except OSError as error:
            plan.failures.append(told(error))
            continue
        plan.kept = len(plan.cells) - len(missing)
        name, cost = plan.experiment.name, plan.experiment.cost[quick]
        groups = plan.experiment.tasks(missing)
        tasks += [Task(name, EXPERIMENTS[name], cells, len(cells) * cost) for cells in groups]
    return sorted(tasks, key=lambda task: -task.seconds)


def run_missing(
    tasks: Sequence[Task], context: Context, out: Path, jobs: int
) -> Iterator[tuple[Task, Trouble | None]]:
    """Each task when it has ended, with what ended it early or None. What it had done by then is kept."""
    if jobs == 1:
        for task in tasks:
            yield task, _run(task, context, out)
        return
    waiting = deque(tasks)
    while waiting:
        yield from _run_in_pool(waiting, context, out, jobs)


def _run_in_pool(
    waiting: deque[Task], context: Context, out: Path, jobs: int
) -> Iterator[tuple[Task, Trouble | None]]:
    """Tasks from ``waiting`` until it is empty or a worker is killed, which ends the whole pool."""
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pool = ProcessPoolExecutor(jobs)
    under_way: dict[Future[Trouble | None], Task] = {}
    broken = False
    try:
        while under_way or (waiting and not broken):
            while waiting and len(under_way) < jobs and not broken:
                try:
                    future = pool.submit(_run, waiting[0], context, out)
                except BrokenProcessPool:  # a worker was killed since the last answer
                    broken = True
                else:
                    under_way[future] = waiting.popleft()
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                task = under_way.pop(future)
                try:
                    trouble = future.result()
                except BrokenProcessPool:
                    broken, trouble = True, Trouble(_KILLED)
                yield task, trouble
    except BaseException:
        # Also Ctrl-C: workers must not go on by themselves.
        pool.shutdown(wait=False, kill_workers=True)
        raise
    pool.shutdown()


def _run(task: Task, context: Context, out: Path) -> Trouble | None:
    experiment = load_experiment(task.module)
    raw = raw_file(out, experiment)
    started = time.process_time()  # what other programs take of the machine does not count
    try:
        with one_thread(), noted_interrupts() as interrupts:
            for settings, result in experiment.run(task.cells, context):
                if interrupts:
                    raise KeyboardInterrupt
                raw.add(settings, result, time.process_time() - started)
                started = time.process_time()
    except DataAbsent as reason:
        return Trouble(str(reason), lacking=True)
    except Exception as error:  # told in the report; the other experiments go on
        return Trouble(told(error))
    return None


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """A list that is not empty once Ctrl-C was pressed. Learning then keeps the bits that it has and returns: what is
    computed from them must not be taken for a result."""
    seen: list[int] = []
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # elsewhere no handler can be set, nor is one called
        yield seen
        return

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def told(error: Exception) -> str:
    """An error in one line, with the place it came from."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"


@contextmanager
def one_thread() -> Iterator[None]:
    """A task is one share of the work: the libraries under it take no threads of their own."""
    with threadpool_limits(1), faiss_threads(1):
        yield
