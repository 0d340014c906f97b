"""``cbid reproduce``: the paper's tables and figures, computed again, in one report."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.commands.options import JsonOption, echo, echo_json
from cbid.paper.registry import EXPERIMENTS
from cbid.paper.sets import ROOT_VARIABLE

__all__ = ["reproduce_paper"]


def reproduce_paper(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"Experiments: {', '.join(EXPERIMENTS)}.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Reduced sizes: all within ten minutes on two cores.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at a time, each in one thread.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the report and its raw results: reproduction, or reproduction-quick."),
    ] = None,
    run: Annotated[bool, typer.Option("--run/--no-run", help="Whether to run what is missing.")] = True,
    photographs: Annotated[
        bool,
        typer.Option("--photographs/--no-photographs", help="Whether the report shows images of the data sets."),
    ] = True,
    root: Annotated[
        Path | None, typer.Option(help=f"The folder that holds data sets; otherwise what {ROOT_VARIABLE} says.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of computed descriptors, by default one in OUT.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the paper's experiments and write a report that holds them against its claims.

    What was run before is kept: interrupted and started again, it goes on where it stopped.
    """
    from cbid.paper.reproduce import reproduce

    unknown = [name for name in names or () if name not in EXPERIMENTS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is not known; choose among {', '.join(EXPERIMENTS)}")
    folder = out or Path("reproduction-quick" if quick else "reproduction")
    try:
        done = reproduce(
            names or (),
            out=folder,
            quick=quick,
            jobs=jobs,
            run=run,
            photographs=photographs,
            root=root,
            cache=cache,
            tell=_tell,
        )
    except KeyboardInterrupt:
        print(f"what is done is kept in {folder}; the same command goes on from there", file=sys.stderr)
        raise
    for name, sets in done.left_out.items():
        print(f"{name}: not on this machine: {', '.join(sets)}", file=sys.stderr)
    for name, errors in done.failures.items():
        for error in errors:
            print(f"{name} failed: {error}", file=sys.stderr)
    if as_json:
        echo_json(asdict(done))
    else:
        echo(f"{done.ran} cells run, {done.kept} there before; report: {done.report}")
    if done.failures:
        raise typer.Exit(1)


def _tell(state: Any) -> None:
    """One line whenever a task has ended, with the time that is left."""
    what = ", ".join(str(v) for k, v in state.task.cells[0].items() if k in ("set", "features", "method", "repeat"))
    failed = " left out" if state.trouble and state.trouble.lacking else " failed" if state.trouble else ""
    print(
        f"[{state.done}/{state.of}] {state.task.experiment} {what}{failed}"
        f" ({_clock(state.elapsed)} gone, about {_clock(state.left)} left)",
        file=sys.stderr,
        flush=True,
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
