"""All of a reproduction: run what is missing, then make the report from the raw results."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cbid.checks import check_integer
from cbid.experiments.base import Context
from cbid.experiments.drawing import in_style
from cbid.experiments.page import Page
from cbid.experiments.registry import EXPERIMENTS, get_experiment
from cbid.experiments.report import Section, write_report
from cbid.experiments.runner import Plan, Task, present_sets, raw_file, run_missing, tasks_of

__all__ = ["Outcome", "State", "reproduce"]


@dataclass(frozen=True)
class State:
    """How far a run is. left: seconds that remain, by the pace so far. task: the one that has just ended."""

    done: int
    of: int
    elapsed: float
    left: float
    task: Task
    error: str | None


@dataclass(frozen=True)
class Outcome:
    """report: the HTML file. ran, kept: cells of this run and of earlier ones. failures: what went wrong, by
    experiment. left_out: sets that are absent, likewise."""

    report: Path
    ran: int
    kept: int
    failures: dict[str, list[str]]
    left_out: dict[str, list[str]]


def reproduce(
    names: Sequence[str] = (),
    *,
    out: str | os.PathLike[str],
    quick: bool = False,
    jobs: int = 1,
    root: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    tell: Callable[[State], None] | None = None,
) -> Outcome:
    """Run experiments, all by default, and write the report to ``out``.

    What is in ``out`` from an earlier run, interrupted or not, is not run again. ``root`` is the folder of data sets,
    by default CBID_DATA; ``cache`` that of descriptors, by default one in ``out``. ``tell`` is called whenever a task
    has ended.
    """
    check_integer("jobs", jobs, 1)
    folder = Path(out)
    context = Context(
        None if root is None else str(root), Path(cache) if cache is not None else folder / "descriptors"
    )
    in_style()  # without matplotlib there is no report: better told now than at the end
    folder.mkdir(parents=True, exist_ok=True)
    plans = []
    for name in names or EXPERIMENTS:
        experiment = get_experiment(name)
        present, absent = present_sets(experiment, context)
        plans.append(Plan(experiment, experiment.cells(present, quick), absent))
    tasks = tasks_of(plans, folder, quick)
    by_name = {plan.experiment.name: plan for plan in plans}
    started, total, done = time.perf_counter(), sum(task.seconds for task in tasks), 0.0
    for count, (task, error) in enumerate(run_missing(tasks, context, folder, jobs), 1):
        if error is not None:
            by_name[task.experiment].failures.append(error)
        done += task.seconds
        if tell is not None:
            elapsed = time.perf_counter() - started
            tell(State(count, len(tasks), elapsed, elapsed * (total - done) / done, task, error))
    report, there = _report(plans, context, folder, quick)
    kept = sum(len(plan.cells) for plan in plans) - sum(len(task.cells) for task in tasks)
    return Outcome(
        report,
        there - kept,
        kept,
        {plan.experiment.name: plan.failures for plan in plans if plan.failures},
        {plan.experiment.name: list(plan.absent) for plan in plans if plan.absent},
    )


def _report(plans: Sequence[Plan], context: Context, folder: Path, quick: bool) -> tuple[Path, int]:
    """Metrics, plots and claims of what is there, in one file; and how many cells are."""
    sections = []
    with in_style():
        for plan in plans:
            results = raw_file(folder, plan.experiment).results(plan.cells)
            page = Page(plan.experiment.name, folder / "plots", context, quick)
            if len(results):
                plan.experiment.show(results, page)
            judged = [(claim, claim.judge(results) if len(results) else None) for claim in plan.experiment.claims]
            sections.append(
                Section(plan.experiment, results, len(plan.cells), page.parts, judged, plan.absent, plan.failures)
            )
    return write_report(sections, folder, quick), sum(len(section.results) for section in sections)
