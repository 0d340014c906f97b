"""``cbid reproduce`` and ``cbid data``: the experiments of the paper, and the data sets they need."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbid.commands.options import Interrupted, JsonOption, complete, echo_result, table
from cbid.text import count, printable

if TYPE_CHECKING:
    from cbid.paper.runner import Progress
    from cbid.paper.sets import SetInfo

RootOption = Annotated[
    Path | None, typer.Option(help="Folder of the data sets (default: the environment variable CBID_DATA).")
]


_BENCHMARKS = Path("benchmarks") / "results"  # in a clone of the project: chapters on what is not in the paper


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete("cbid.paper:EXPERIMENTS"),
            help="Experiments such as knn, svm or detection (default: all of them).",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use reduced sizes: under ten minutes on two cores.")
    ] = False,
    n_jobs: Annotated[int, typer.Option("--n-jobs", "-j", min=1, help="Tasks to run in parallel.")] = 1,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="Run only this many repeats of each experiment (default: all)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for the report and its raw results (default: reproduction or reproduction-quick).",
        ),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Run the missing experiments, or only write the report.")
    ] = True,
    photographs: Annotated[
        bool, typer.Option("--photographs/--no-photographs", help="Show images from the data sets in the report.")
    ] = True,
    root: RootOption = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for computed descriptors (default: in OUT).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the experiments of the paper and compare the results with its claims in a report.

    Finished experiments are kept. If you interrupt a run, the same command resumes.

    Example: cbid reproduce knn svm --quick --n-jobs 2
    """
    from cbid.paper import EXPERIMENTS, LONG_EXPERIMENTS
    from cbid.paper.runner import reproduce as run_experiments

    unknown = [name for name in names or () if name not in EXPERIMENTS | LONG_EXPERIMENTS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r}: expected one of {', '.join(EXPERIMENTS | LONG_EXPERIMENTS)}")
    folder = out or Path("reproduction-quick" if quick else "reproduction")
    try:
        outcome = run_experiments(
            names or (),
            out=folder,
            quick=quick,
            jobs=n_jobs,
            repeats=repeats,
            run=run,
            photographs=photographs,
            root=root,
            benchmarks=_BENCHMARKS if _BENCHMARKS.is_dir() else None,
            cache=cache,
            progress=_echo_progress,
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; finished results are in {folder}, run the same command again to resume"
        ) from None
    for name, sets in outcome.left_out.items():
        typer.echo(f"{name}: missing data sets: {', '.join(sets)}", err=True)
    for name, errors in outcome.failures.items():
        for error in errors:
            typer.echo(f"{name} failed: {printable(str(error))}", err=True)
    text = f"{outcome.ran} cells run, {outcome.kept} from earlier runs; report: {outcome.report}"
    echo_result(asdict(outcome), text, as_json=as_json)
    if outcome.failures:
        raise typer.Exit(1)


def _echo_progress(state: "Progress") -> None:
    """Print one line when a task ends, with the time left."""
    task = state.task
    what = ", ".join(str(v) for k, v in task.cells[0].items() if k in ("set", "features", "method", "repeat"))
    result = " skipped" if state.problem and state.problem.missing_data else " failed" if state.problem else ""
    print(
        f"[{state.done}/{state.of}] {task.experiment} {what}{result}"
        f" ({_clock(state.elapsed)} elapsed, about {_clock(state.left)} left)",
        file=sys.stderr,
        flush=True,
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def show_data(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete("cbid.paper.sets:CATALOGUE"),
            help="A data set to describe in full (default: list all).",
        ),
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the data sets of the paper and show which of them are on this machine.

    Example: cbid data graz02 --root datasets/
    """
    from cbid.paper.sets import CATALOGUE

    if name is None:
        infos = [_set_info(info, root) for info in CATALOGUE.values()]
        echo_result(infos, _sets_table(infos), as_json=as_json)
        return
    if name not in CATALOGUE:
        raise typer.BadParameter(f"{name!r}: expected one of {', '.join(CATALOGUE)}")
    info = _set_info(CATALOGUE[name], root)
    echo_result(info, _set_text(info), as_json=as_json)


def _set_info(info: "SetInfo", root: Path | None) -> dict[str, Any]:
    """Describe a data set and its copy on this machine as JSON values."""
    from cbid.paper.sets import DataAbsent, open_set

    found: dict[str, Any] = {
        "name": info.name,
        "title": info.title,
        "state": "present",
        "path": None,
        "images": None,
        "classes": None,
        "problem": None,
        "layout": info.layout,
        "get": info.get,
        "licence": info.licence,
        "caution": info.caution,
        "protocols": {name: {"repeats": p.repeats, "text": p.text} for name, p in info.protocols.items()},
    }
    try:
        found["path"] = printable(info.find(root))
        opened = open_set(info.name, root)
        found["images"] = len(opened)
        found["classes"] = None if opened.classes is None else len(opened.classes)
    except DataAbsent as error:
        found |= {"state": "absent", "problem": str(error)}
    except (ValueError, OSError) as error:
        found |= {"state": "damaged", "problem": str(error)}
    return found


def _sets_table(infos: list[dict[str, Any]]) -> str:
    def count(n: int | None) -> str:
        return "" if n is None else f"{n:,}"

    rows = [(i["name"], i["state"], count(i["images"]), count(i["classes"]), i["path"] or "") for i in infos]
    lines = table(["name", "state", "images", "classes", "path"], rows, right=["images", "classes"])
    return f"{lines}\n\ncbid data NAME shows the source, the expected files and the protocols of a data set."


def _set_text(info: dict[str, Any]) -> str:
    lines = [info["title"], f"  {info['state']}: {info['path'] if info['state'] == 'present' else info['problem']}"]
    if info["images"] is not None:
        lines.append(f"  {info['images']:,} images, {info['classes']} classes")
    lines += [f"  {word}: {info[word]}" for word in ("layout", "get", "licence", "caution") if info[word]]
    lines.append("  protocols:")
    lines += [f"    {name} ({count(p['repeats'], 'repeat')}): {p['text']}" for name, p in info["protocols"].items()]
    return "\n".join(lines)
