"""All of a reproduction: run what is missing, then make the report from the raw results."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cbid.checks import check_integer
from cbid.paper.base import Claim, Context, Judgement, Results
from cbid.paper.drawing import in_style
from cbid.paper.page import Page
from cbid.paper.registry import EXPERIMENTS, get_experiment
from cbid.paper.report import Section, write_report
from cbid.paper.runner import Plan, Task, Trouble, present_sets, raw_file, run_missing, tasks_of, told

__all__ = ["Outcome", "State", "reproduce"]


@dataclass(frozen=True)
class State:
    """How far a run is. left: seconds that remain, by the pace so far. task: the one that has just ended."""

    done: int
    of: int
    elapsed: float
    left: float
    task: Task
    trouble: Trouble | None


@dataclass(frozen=True)
class Outcome:
    """report: the HTML file. ran, kept: cells of this run and of earlier ones. failures: what went wrong, by
    experiment. left_out: what is not on this machine, likewise."""

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
    run: bool = True,
    photographs: bool = True,
    root: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    tell: Callable[[State], None] | None = None,
) -> Outcome:
    """Run experiments, all by default and each once, and write the report to ``out``.

    What is in ``out`` from an earlier run, interrupted or not, is not run again; with ``run=False`` nothing is run,
    and the report shows what is there. Without ``photographs`` it shows no image of a data set, so that it may be
    passed on. ``root`` is the folder of data sets, by default CBID_DATA; ``cache`` that of
    descriptors, by default one in ``out``. ``tell`` is called whenever a task has ended.
    """
    check_integer("jobs", jobs, 1)
    folder = Path(out)
    context = Context(
        None if root is None else str(root), Path(cache) if cache is not None else folder / "descriptors"
    )
    in_style()  # without matplotlib there is no report: better told now than at the end
    folder.mkdir(parents=True, exist_ok=True)
    plans = []
    for name in dict.fromkeys(names or EXPERIMENTS):
        experiment = get_experiment(name)
        present, absent = present_sets(experiment, context)
        plans.append(Plan(experiment, experiment.cells(present, quick), absent))
    tasks = tasks_of(plans, folder, quick) if run else []
    by_name = {plan.experiment.name: plan for plan in plans}
    started, total, done = time.perf_counter(), sum(task.seconds for task in tasks), 0.0
    for count, (task, trouble) in enumerate(run_missing(tasks, context, folder, jobs), 1):
        if trouble is not None:
            plan = by_name[task.experiment]
            known = plan.lacking if trouble.lacking else plan.failures
            if trouble.text not in known:
                known.append(trouble.text)
        done += task.seconds
        if tell is not None:
            elapsed = time.perf_counter() - started
            tell(State(count, len(tasks), elapsed, elapsed * (total - done) / done, task, trouble))
    report, there = _report(plans, context, folder, quick, photographs)
    kept = sum(plan.kept for plan in plans) if run else there
    return Outcome(
        report,
        there - kept,
        kept,
        {plan.experiment.name: plan.failures for plan in plans if plan.failures},
        {p.experiment.name: [*p.absent, *p.lacking] for p in plans if p.absent or p.lacking},
    )


def _report(
    plans: Sequence[Plan], context: Context, folder: Path, quick: bool, photographs: bool
) -> tuple[Path, int]:
    """Metrics, plots and claims of what is there, in one file; and how many cells are."""
    with in_style():
        sections = [
            _section(plan, Page(plan.experiment.name, folder / "plots", context, quick, photographs))
            for plan in plans
        ]
    return write_report(sections, folder, quick), sum(len(section.results) for section in sections)


def _section(plan: Plan, page: Page) -> Section:
    """What raw results show of one experiment. Where some are missing, what cannot be shown of them is a failure that
    is told, and the rest of the report is there all the same."""
    raw, results = raw_file(page.folder.parent, plan.experiment), Results([])
    judged: list[tuple[Claim, Judgement | None]] = [(claim, None) for claim in plan.experiment.claims]
    try:
        results = raw.results(plan.cells)
        if problem := raw.problem():
            page.note(f"{problem}.")
        if len(results):
            plan.experiment.show(results, page)
            judged = [(claim, claim.judge(results)) for claim in plan.experiment.claims]
    except Exception as error:
        plan.failures.append(f"the results could not be shown: {told(error)}")
    page.tidy()
    return Section(
        plan.experiment, results, len(plan.cells), page.parts, judged, plan.absent, plan.lacking, plan.failures
    )
