"""Options that several commands share, and the search for the project to use."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

__all__ = [
    "PROJECT_SUFFIX",
    "Command",
    "JobsOption",
    "JsonOption",
    "PrefixOption",
    "ProjectOption",
    "QueryArgument",
    "QuietOption",
    "find_project",
    "one_of",
]

PROJECT_SUFFIX = ".cbid"
_FORMER_NAMES = {"--n-bits": "--bits", "--n-jobs": "--jobs", "--random-state": "--seed"}


class Command(TyperCommand):
    """A command that also accepts the former names of its options. The help does not show them."""

    def make_parser(self, ctx: Any) -> Any:
        """Add the former names to the parser."""
        parser: Any = super().make_parser(ctx)
        for parameter in self.get_params(ctx):
            former = [_FORMER_NAMES[name] for name in parameter.opts if name in _FORMER_NAMES]
            if former:
                parser.add_option(parameter, former, parameter.name, action="store", nargs=1)
        return parser


def _check_jobs(n_jobs: int | None) -> int | None:
    if n_jobs == 0:
        raise typer.BadParameter("0: expected 1 or more, or -1 for one per core")
    return n_jobs


def one_of(value: str | None, choices: Iterable[str]) -> str | None:
    """Return the value if it is one of the choices; for callbacks of options."""
    accepted = tuple(choices)
    if value is not None and value not in accepted:
        raise typer.BadParameter(f"{value!r}: expected one of {', '.join(accepted)}")
    return value


QueryArgument = Annotated[list[Path], typer.Argument(metavar="QUERY", help="Images, folders or list files.")]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        "-p",
        show_default=False,
        help=f"The project (default: the only *{PROJECT_SUFFIX} in the current folder).",
    ),
]
PrefixOption = Annotated[
    int | None,
    typer.Option("--n-bits", "-b", min=1, show_default=False, help="Use only the first bits of each code."),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--n-jobs",
        "-j",
        show_default=False,
        callback=_check_jobs,
        help="Images to process in parallel; -1 means one per core (default: 1).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]


def find_project(given: Path | None, folder: Path | None = None) -> Path:
    """Return the given project, or the only one in the current folder."""
    if given is not None:
        return given
    here = Path.cwd() if folder is None else folder
    folders = sorted(path for path in here.glob(f"*{PROJECT_SUFFIX}") if path.is_dir())
    # Without a finished project, name one whose fit was interrupted: opening it explains what to do.
    found = [path for path in folders if (path / "project.json").is_file()] or folders
    if len(found) == 1:
        return Path(found[0].name) if folder is None else found[0]
    if not found:
        raise ValueError(f"no project (*{PROJECT_SUFFIX}) in this folder: give --project or run cbid fit")
    from cbid.data.names import printable

    names = ", ".join(printable(path.name) for path in found[:5])
    raise ValueError(f"{len(found)} projects in this folder ({names}): choose one with --project")
