"""What commands share: options, the project, query images in batches, and output as lines, tables and JSON."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from cbid.text import escaped, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cbid.data import ImageSet
    from cbid.project import Project

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

    def invoke(self, ctx: Any) -> Any:
        """Run the command; notes on long steps go to stderr unless --quiet."""
        from cbid.progress import notes

        try:
            if ctx.params.get("quiet"):
                return super().invoke(ctx)
            with notes(lambda text: typer.echo(f"cbid: {text}", err=True)):
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            if outcome := getattr(error, "__notes__", []):  # typer would drop it
                raise Interrupted("; ".join(["interrupted", *outcome])) from error
            raise


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


def _listed(location: str) -> list[str]:
    """Return the names at "module:attribute", or those that the function there returns."""
    module, _, attribute = location.partition(":")
    found = getattr(import_module(module), attribute)
    return list(found() if callable(found) else found)


def complete(location: str, *more: str) -> Callable[[str], list[str]]:
    """Return the completion of an option by the names listed at "module:attribute", and ``more``."""
    return lambda incomplete: [name for name in [*_listed(location), *more] if name.startswith(incomplete)]


def choice(location: str, **settings: Any) -> Any:
    """Return an option that accepts and completes the names at "module:attribute", which is imported when needed."""

    def check(value: str | None) -> str | None:
        return one_of(value, _listed(location))

    return typer.Option(callback=check, autocompletion=complete(location), **settings)


class Model:
    """A coder from a file that ``save`` has written, in place of a project."""

    def __init__(self, path: Path, descriptor: str | None) -> None:
        from cbid.coders import load
        from cbid.coders.base import Coder
        from cbid.project.models import make_descriptor

        coder = load(path)
        if not isinstance(coder, Coder):
            raise ValueError(f"--model={printable(path)}: holds a {type(coder).__name__}; expected a coder")
        self.coder = coder
        self.descriptor = None if descriptor is None else make_descriptor(descriptor)
        self.n_bits: int = coder.n_bits_

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def weights(self, n_bits: int) -> "NDArray[np.float64]":
        """Return the weights of a prefix of the codes."""
        from cbid.project.models import prefix_weights

        return prefix_weights(self.coder, n_bits, "weighted")

    def encode(self, vectors: "NDArray[np.float32]") -> "NDArray[np.uint8]":
        """Return the codes of vectors (n, d)."""
        expected = getattr(self.coder, "n_features_in_", vectors.shape[1])
        if vectors.shape[1] != expected:
            raise ValueError(f"the vectors have {vectors.shape[1]} values: the model expects {expected}")
        return self.coder.encode(vectors)

    def held(self, source: Any) -> set[int]:
        """Return nothing: a model holds no images."""
        return set()


def open_project_or_model(project: Path | None, model: Path | None, descriptor: str | None) -> "Project | Model":
    """Open a project, or the model that is given in its place."""
    from cbid.project import Project

    if model is None:
        if descriptor is not None:
            raise typer.BadParameter(
                "accepted only with --model: a project has its own descriptor", param_hint="--descriptor"
            )
        return Project.open(find_project(project))
    if project is not None:
        raise typer.BadParameter("give --project or --model, not both", param_hint="--model")
    return Model(model, descriptor)


ModelOption = Annotated[
    Path | None,
    typer.Option("--model", "-m", help="A coder saved from Python, in place of a project; SRC holds vectors."),
]
ModelDescriptorOption = Annotated[
    str | None,
    typer.Option(
        "--descriptor",
        autocompletion=complete("cbid.project.models:DESCRIPTORS", "onnx:"),
        help="With --model and images: the descriptor that the coder was learned from.",
    ),
]
QueryArgument = Annotated[list[Path], typer.Argument(metavar="QUERY", help="Images, folders or list files.")]
ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", "-p", help=f"The project (default: the only *{PROJECT_SUFFIX} in the current folder)."),
]
PrefixOption = Annotated[
    int | None, typer.Option("--n-bits", "-b", min=1, help="Use only the first bits of each code.")
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--n-jobs",
        "-j",
        callback=_check_jobs,
        help="Images to process in parallel; -1 means one per core (default: 1).",
    ),
]
MaxPixelsOption = Annotated[int, typer.Option(min=1, help="Skip images with more pixels than this.")]
MAX_PIXELS = 100_000_000
PathLabelOption = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="REGEX",
        help="Folder: a regular expression that finds the label in each path, such as '(\\w+)_\\d+'.",
    ),
]
LabelDepthOption = Annotated[
    int, typer.Option(min=1, help="Folder: which folder of the path is the label; 2 for 2024/cats/1.jpg.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]


def find_project(given: Path | None) -> Path:
    """Return the given project, or the only one in the current folder."""
    if given is not None:
        return given
    folders = sorted(path for path in Path().glob(f"*{PROJECT_SUFFIX}") if path.is_dir())
    # Without a finished project, name one whose fit was interrupted: opening it explains what to do.
    found = [path for path in folders if (path / "project.json").is_file()] or folders
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError(f"no project (*{PROJECT_SUFFIX}) in this folder: give --project or run cbid fit")
    names = ", ".join(printable(path.name) for path in found[:5])
    raise ValueError(f"{len(found)} projects in this folder ({names}): choose one with --project")


class Query(NamedTuple):
    """A described query image."""

    name: str
    label: str | None
    vector: "NDArray[np.float32]"


def labels_in_paths(label: str | None, label_depth: int) -> dict[str, Any]:
    """Return the options of ``open_source`` that were given for the labels."""
    given = {"label": label, "label_depth": label_depth}
    return {name: value for name, value in given.items() if value not in (None, 1)}


def open_source_for(project: "Project | Model", path: Path, **options: Any) -> Any:
    """Open a source of the kind that the project holds: vectors, or images, which other processes decode.

    The options are those of ``open_source``. Unless they say otherwise, a folder is read as a tree of labels if the
    project was learned from one.
    """
    from cbid.data.isolated import DecodeLimits
    from cbid.data.tables import VectorTable
    from cbid.project import Project
    from cbid.project.fitting import open_images

    if isinstance(project, Project) and not options.keys() & {"label", "label_depth"}:
        options["tree"] = "tree" in project.settings
    source, _ = open_images(path, **options)
    if isinstance(source, VectorTable) != (project.descriptor is None):
        given, wanted = ("vectors", "images") if isinstance(source, VectorTable) else ("images", "vectors")
        needs = f"the project needs {wanted}"
        if isinstance(project, Model):
            needs = "leave out --descriptor" if project.descriptor else "give the --descriptor of the model"
        raise ValueError(f"{printable(path)} holds {given}: {needs}")
    if not isinstance(source, VectorTable):
        source.limits = DecodeLimits()
    return source


def open_photographs(path: Path) -> "ImageSet":
    """Open a folder of images, without labels, or another source of images; they are decoded in other processes."""
    from cbid.data import ImageFolder, ImageSet, open_source
    from cbid.data.isolated import DecodeLimits

    opened = ImageFolder(path, labelled=False, on_error="skip") if path.is_dir() else open_source(path)
    if not isinstance(opened, ImageSet):
        raise ValueError(f"{printable(path)} holds vectors: expected an image, a folder of images or a list file")
    opened.limits = DecodeLimits()
    return opened


def read_queries(
    project: "Project | Model",
    paths: list[Path],
    *,
    n_jobs: int | None = None,
    only_new: bool = False,
    **options: Any,
) -> Iterator[list[Query]]:
    """Describe the images of files, folders, list files or arrays, and yield them in batches.

    Images that cannot be read are reported on stderr at the end. If none can be read, the first failure is raised.

    Parameters
    ----------
    only_new : bool
        Skip the images that are in the project.
    options
        Those of ``open_source``.
    """
    from cbid.data.decode import ImageError
    from cbid.project.intake import described_batches, label_of, name_of

    n_found, failures = 0, []
    for path in paths:
        source = open_source_for(project, path, **options)
        failures += list(getattr(source, "problems", []))
        stored = project.held(source) if only_new else set()
        n_found += len(stored)
        rows = [i for i in range(len(source)) if i not in stored]
        for _, batch in described_batches(source, project.descriptor, rows, thumbnails=False, n_jobs=n_jobs):
            failures += batch.failures
            n_found += len(batch.places)
            if batch.places:
                yield [
                    Query(_query_name(path, name_of(source, i), len(source)), label_of(source, i), vector)
                    for i, vector in zip(batch.places, batch.vectors)
                ]
    if failures and not n_found:
        name, reason = failures[0]
        raise ImageError(f"{printable(name)}: {reason}")
    echo_skipped(failures)


def _query_name(path: Path, name: str, n_images: int) -> str:
    """Name a query by its path: the folder with the image in it, or the file as it was given."""
    if path.is_dir():
        return str(path / name)
    return str(path) if n_images == 1 else name


class Interrupted(Exception):
    """Ctrl-C in a command that can resume; the message tells the user how."""


@contextmanager
def resumable(done: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Turn Ctrl-C into an error that says how to resume, and what is done (``done``)."""
    try:
        yield
    except KeyboardInterrupt:
        kept = done()
        raise Interrupted(
            f"interrupted; run the same command again to resume{f' ({kept})' if kept else ''}"
        ) from None


def command_line(*arguments: object) -> str:
    """Return a command of this program as the user can type it in the current folder."""
    return shlex.join([*_program(), *(str(argument) for argument in arguments)])


def _program() -> list[str]:
    """Return "cbid" if the shell finds this program, else its path, or the interpreter with ``-m cbid``."""
    script = os.path.join(os.path.dirname(sys.executable), "cbid")
    found = shutil.which("cbid")
    if found is not None and os.path.realpath(found) == os.path.realpath(script):
        return ["cbid"]
    here = os.path.join(os.getcwd(), "")
    if os.access(script, os.X_OK):
        return [script.removeprefix(here)]
    return [sys.executable.removeprefix(here), "-m", "cbid"]


def echo(text: str = "") -> None:
    """Print one line; escape the characters that the terminal cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo(escaped(text, kept="\n\t").encode(encoding, errors="backslashreplace").decode(encoding))


def echo_json(value: Any) -> None:
    """Print a value as JSON; numpy arrays become lists and paths become text."""
    echo(json.dumps(value, indent=1, default=_as_json))


def echo_result(value: Any, text: str, *, as_json: bool, quiet: bool = False) -> None:
    """Print a value as JSON with ``as_json``, else a text, or nothing with ``quiet``."""
    if as_json:
        echo_json(value)
    elif not quiet:
        echo(text)


def _as_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def echo_skipped(failures: Iterable[tuple[str, str]]) -> None:
    """Report on stderr each image that was skipped: its name and the reason."""
    for name, reason in failures:
        typer.echo(f"cbid: skipped {printable(name)}: {printable(reason)}", err=True)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> str:
    """Format rows as columns two spaces apart; the columns named in ``right`` are right-aligned."""
    lines = [list(header), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    aligned = [">" if name in set(right) else "<" for name in header]
    return "\n".join(
        "  ".join(f"{cell:{align}{width}}" for cell, align, width in zip(line, aligned, widths)).rstrip()
        for line in lines
    )


def accuracy_table(evaluation: dict[str, Any]) -> str:
    """Format an evaluation: one row for the raw vectors and one for each code length."""
    n = evaluation["n_queries"]
    if not n:
        return "no images were held out: nothing was measured"
    raw, codes = evaluation["raw"], evaluation["codes"]
    if raw["accuracy"] is not None:
        header = ["", "bytes", "accuracy", "plain", "mAP"]
        rows = [["raw vectors", raw["bytes"], _measured(raw["accuracy"], n), "", _three_digits(raw["map"])]]
        rows += [
            [
                f"{entry['n_bits']} bits",
                entry["bytes"],
                _measured(entry["weighted"]["accuracy"], n),
                _percent(entry["plain"]["accuracy"]),
                _three_digits(entry["weighted"]["map"]),
            ]
            for entry in codes
        ]
        measure = f"accuracy of a vote of the {evaluation['k']} nearest and its 95% interval (plain: without weights)"
    else:
        header = ["", "bytes", "same ten nearest"]
        rows = [["raw vectors", raw["bytes"], _percent(1.0)]]
        rows += [[f"{e['n_bits']} bits", e["bytes"], _percent(e["weighted"]["overlap"])] for e in codes]
        measure = "share of the true ten nearest that the codes find"
    title = f"{n:,} queries, {evaluation['n_stored']:,} stored images: {measure}"
    return f"{title}\n\n{table(header, rows, right=header[1:])}"


def _measured(share: float, n: int) -> str:
    """Format a share of n queries with its 95 % interval: 74.1% (71-77)."""
    from cbid.report.page import interval

    low, high = interval(share, n)
    return f"{share:.1%} ({100 * low:.0f}-{100 * high:.0f})"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _three_digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
