"""What the commands share: options of one meaning, which project is meant, and how answers are shown."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cbid.data.names import printable

__all__ = [
    "JobsOption",
    "JsonOption",
    "ProjectOption",
    "QuietOption",
    "checked_jobs",
    "echo",
    "echo_json",
    "find_project",
    "one_of",
    "resumable",
    "table",
]

SUFFIX = ".cbid"

ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project", "-p", show_default=False, help=f"The project; by default the one *{SUFFIX} in this folder."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value, for programs.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress bars, and no words but warnings and errors.")
]


def one_of(value: str | None, choices: Iterable[str]) -> str | None:
    """For callbacks of options that take one of a few words; any other is a wrong call, and the option is named."""
    accepted = tuple(choices)
    if value is not None and value not in accepted:
        raise typer.BadParameter(f"{value!r} is not accepted; choose one of {', '.join(accepted)}")
    return value


def checked_jobs(jobs: int | None) -> int | None:
    if jobs == 0:
        raise typer.BadParameter("0 is not accepted; give 1 or more, or -1 for one for each core")
    return jobs


JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        show_default=False,
        callback=checked_jobs,
        help="Images at a time; -1 is one for each core (default: 1).",
    ),
]


def find_project(given: Path | None, folder: Path | None = None) -> Path:
    """The project that is named, or the only one in the current folder."""
    if given is not None:
        return given
    here = Path.cwd() if folder is None else folder
    folders = sorted(path for path in here.glob(f"*{SUFFIX}") if path.is_dir())
    found = [path for path in folders if (path / "project.json").is_file()] or folders  # else one that was begun
    if len(found) == 1:
        return Path(found[0].name) if folder is None else found[0]
    if not found:
        raise ValueError(
            f"there is no project (*{SUFFIX}) in this folder; name one by --project, or make it by cbid fit"
        )
    names = ", ".join(printable(path.name) for path in found[:5])
    raise ValueError(f"there are {len(found)} projects in this folder ({names}); name one by --project")


def echo(text: str = "") -> None:
    """A line of the answer; characters that the terminal cannot show are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo(text.encode(encoding, errors="backslashreplace").decode(encoding))


def echo_json(value: Any) -> None:
    echo(json.dumps(value, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays, and paths, as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> str:
    """Columns under their heads, two blanks apart; those named in ``right`` end at one line."""
    lines = [list(head), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    sides = [">" if name in set(right) else "<" for name in head]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths)).rstrip()
        for line in lines
    )


@contextmanager
def resumable() -> Iterator[None]:
    """A command that goes on where it was interrupted says so."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("cbid: interrupted; the same command goes on where it stopped", err=True)
        raise typer.Exit(1) from None
