"""Runs experiments: computes the missing cells, several tasks at a time, then writes the report."""

import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from threadpoolctl import threadpool_limits

from cbid.checks import check_integer
from cbid.paper import EXPERIMENTS, LONG_EXPERIMENTS, get_experiment, load_experiment
from cbid.paper.base import Context, Experiment, Settings
from cbid.paper.chapters import chapters
from cbid.paper.raw import RawResults
from cbid.paper.report import Page, plot_style
from cbid.paper.sets import CATALOGUE, DataAbsent
from cbid.paper.summary import Section, write_report
from cbid.threads import faiss_threads

_KILLED = (
    "a worker process was killed, perhaps because memory ran out, and all running tasks ended with it; finished "
    "cells are stored, and the same command with fewer --n-jobs continues from there"
)


@dataclass(frozen=True)
class Task:
    """Cells of one experiment for one worker. ``location`` finds the experiment; ``seconds`` is an estimate."""

    experiment: str
    location: str
    cells: list[Settings]
    seconds: float


@dataclass(frozen=True)
class TaskProblem:
    """Why a task ended early. ``missing_data``: because of missing data, not of an error."""

    text: str
    missing_data: bool = False


@dataclass(frozen=True)
class Progress:
    """How far a run is: finished tasks, all tasks, seconds so far and estimated seconds left, and the last task."""

    done: int
    of: int
    elapsed: float
    left: float
    task: Task
    problem: TaskProblem | None


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    report: Path  # the HTML file
    ran: int  # cells computed by this run
    kept: int  # cells computed by earlier runs
    failures: dict[str, list[str]]  # errors by experiment
    left_out: dict[str, list[str]]  # data that is not on this machine, by experiment


def reproduce(
    names: Sequence[str] = (),
    *,
    out: str | os.PathLike[str],
    quick: bool = False,
    jobs: int = 1,
    run: bool = True,
    photographs: bool = True,
    root: str | os.PathLike[str] | None = None,
    benchmarks: str | os.PathLike[str] | None = None,
    repeats: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Run experiments and write the report.

    Cells that an earlier run stored in ``out`` are not run again, whether that run was interrupted or not.

    Parameters
    ----------
    names : sequence of str
        Names of ``EXPERIMENTS`` or ``LONG_EXPERIMENTS``. By default all of the former.
    out : path
        The folder of the report and its raw results.
    quick : bool, default=False
        Reduced sizes.
    jobs : int, default=1
        How many tasks run at a time.
    run : bool, default=True
        Whether to run missing cells. If not, the report shows what is stored.
    photographs : bool, default=True
        Whether the report shows images of the data sets.
    root : path, optional
        The folder of the data sets, by default CBID_DATA.
    benchmarks : path, optional
        A folder of raw results of the project's benchmarks. The report then has chapters on what is not in the paper.
    repeats : int, optional
        Run the first repeats only. A later run adds the others.
    cache : path, optional
        The folder of computed descriptors, by default one in ``out``.
    progress : callable, optional
        Called whenever a task has ended.
    """
    check_integer("jobs", jobs, 1)
    if repeats is not None:
        check_integer("repeats", repeats, 1)
    folder = Path(out)
    context = Context(
        None if root is None else str(root), Path(cache) if cache is not None else folder / "descriptors"
    )
    plot_style()  # raise now, not after hours, if matplotlib is missing
    folder.mkdir(parents=True, exist_ok=True)
    sections = {
        name: _section(get_experiment(name), Page(name, folder / "plots", context, quick, photographs), run)
        for name in names or EXPERIMENTS
    }
    tasks = _missing_tasks(sections.values(), folder, quick, repeats) if run else []
    started, total, done = time.perf_counter(), sum(task.seconds for task in tasks), 0.0
    for count, (task, problem) in enumerate(_run_tasks(tasks, context, folder, jobs), 1):
        if problem is not None:
            section = sections[task.experiment]
            known = section.lacking if problem.missing_data else section.failures
            if problem.text not in known:
                known.append(problem.text)
        done += task.seconds
        if progress is not None:
            elapsed = time.perf_counter() - started
            progress(Progress(count, len(tasks), elapsed, elapsed * (total - done) / done, task, problem))
    with plot_style():
        for section in sections.values():
            _show(section, folder)
        extra = chapters(folder, Path(benchmarks), context) if benchmarks is not None else []
    stored = sum(len(section.results) for section in sections.values())
    kept = sum(section.kept for section in sections.values()) if run else stored
    return Outcome(
        write_report(list(sections.values()), folder, quick, extra),
        stored - kept,
        kept,
        {name: section.failures for name, section in sections.items() if section.failures},
        {name: [*s.absent, *s.lacking] for name, s in sections.items() if s.absent or s.lacking},
    )


def _section(experiment: Experiment, page: Page, run: bool) -> Section:
    """Return an experiment with its cells on the data sets that are on this machine.

    Without a run, sets with stored results count too: the report needs no data.
    """
    present, absent = [], {}
    stored = set() if run else _stored_sets(experiment, page.folder.parent)
    for name in experiment.sets:
        if name in stored:
            present.append(name)
            continue
        try:
            CATALOGUE[name].find(page.context.root)
            present.append(name)
        except DataAbsent as reason:
            absent[name] = str(reason)
    return Section(experiment, experiment.cells(present, page.quick), page, absent, run)


def _stored_sets(experiment: Experiment, out: Path) -> set[str]:
    try:
        return {row.settings.get("set", "") for row in RawResults.of(experiment, out).read().values()}
    except OSError:  # reported when the results are shown
        return set()


def _missing_tasks(sections: Iterable[Section], out: Path, quick: bool, repeats: int | None) -> list[Task]:
    """Return the missing cells as tasks, repeat by repeat, so that an interrupted run has whole repeats.

    Within a repeat the longest task comes first, so that all workers end at about the same time.

    If the raw results of an experiment cannot be read, it fails and has no tasks.
    """
    tasks: list[Task] = []
    for section in sections:
        raw = RawResults.of(section.experiment, out)
        try:
            raw.repair()
            missing = raw.missing(section.cells)
        except OSError as error:
            section.failures.append(_describe(error))
            continue
        section.kept = len(section.cells) - len(missing)
        if repeats is not None:
            missing = [cell for cell in missing if cell.get("repeat", 0) < repeats]
        name, cost = section.experiment.name, section.experiment.cost[quick]
        groups = section.experiment.tasks(missing)
        tasks += [Task(name, (EXPERIMENTS | LONG_EXPERIMENTS)[name], cells, len(cells) * cost) for cells in groups]
    return sorted(tasks, key=lambda task: (task.cells[0].get("repeat", 0), -task.seconds))


def _run_tasks(
    tasks: Sequence[Task], context: Context, out: Path, jobs: int
) -> Iterator[tuple[Task, TaskProblem | None]]:
    """Yield each task when it has ended, with the problem that ended it early or None. Finished cells are stored."""
    if jobs == 1:
        for task in tasks:
            yield task, _run(task, context, out)
        return
    waiting = deque(tasks)
    while waiting:
        yield from _run_in_pool(waiting, context, out, jobs)


def _run_in_pool(
    waiting: deque[Task], context: Context, out: Path, jobs: int
) -> Iterator[tuple[Task, TaskProblem | None]]:
    """Run tasks from ``waiting`` until it is empty or a worker is killed, which breaks the whole pool."""
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pool = ProcessPoolExecutor(jobs)
    running: dict[Future[TaskProblem | None], Task] = {}
    broken = False
    try:
        while running or (waiting and not broken):
            while waiting and len(running) < jobs and not broken:
                try:
                    future = pool.submit(_run, waiting[0], context, out)
                except BrokenProcessPool:  # a worker was killed since the last result
                    broken = True
                else:
                    running[future] = waiting.popleft()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                try:
                    problem = future.result()
                except BrokenProcessPool:
                    broken, problem = True, TaskProblem(_KILLED)
                yield task, problem
    except BaseException:
        # Including Ctrl-C: workers must not continue on their own.
        pool.shutdown(wait=False, kill_workers=True)
        raise
    pool.shutdown()


def _run(task: Task, context: Context, out: Path) -> TaskProblem | None:
    experiment = load_experiment(task.location)
    raw = RawResults.of(experiment, out)
    started = time.process_time()  # processor time: other programs on the machine do not count
    try:
        with one_thread(), _noted_interrupts() as interrupts:
            for settings, result in experiment.run(task.cells, context):
                if interrupts:
                    raise KeyboardInterrupt
                raw.add(settings, result, time.process_time() - started)
                started = time.process_time()
    except DataAbsent as reason:
        return TaskProblem(str(reason), missing_data=True)
    except Exception as error:  # the report shows it; other tasks continue
        return TaskProblem(_describe(error))
    return None


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Yield a list that is not empty after Ctrl-C.

    On Ctrl-C, learning keeps the bits it has and returns. What is computed from them must not be stored as a result.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
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


def _describe(error: Exception) -> str:
    """Return an error in one line, with the place where it was raised."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and faiss to one thread: several tasks run side by side."""
    with threadpool_limits(1), faiss_threads(1):
        yield


def _show(section: Section, out: Path) -> None:
    """Fill the page of an experiment from its stored results, and judge its claims.

    An error while showing them is reported as a failure and does not stop the other experiments.
    """
    raw, page, experiment = RawResults.of(section.experiment, out), section.page, section.experiment
    section.claims = [(claim, None) for claim in experiment.claims]
    try:
        section.results = raw.results(section.cells)
        if problem := raw.problem():
            page.note(f"{problem}.")
        if len(section.results):
            experiment.show(section.results, page)
            section.claims = [(claim, claim.judge(section.results)) for claim in experiment.claims]
    except Exception as error:
        section.failures.append(f"the results could not be shown: {_describe(error)}")
    page.remove_old_plots()
