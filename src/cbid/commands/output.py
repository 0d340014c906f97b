"""Output of the commands: lines, tables, JSON, and notes on stderr."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer


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
    safe = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    typer.echo(safe.encode(encoding, errors="backslashreplace").decode(encoding))


def echo_json(value: Any) -> None:
    """Print a value as JSON; numpy arrays become lists and paths become text."""
    echo(json.dumps(value, indent=1, default=_as_json))


def echo_result(value: Any, text: str, *, as_json: bool, quiet: bool = False) -> None:
    """Print a value as JSON if asked for, else a text, or nothing."""
    if as_json:
        echo_json(value)
    elif not quiet:
        echo(text)


def _as_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def echo_skipped(failures: Iterable[tuple[str, str]]) -> None:
    """Report on stderr each image that was skipped: its name and the reason."""
    from cbid.data.names import printable

    for name, reason in failures:
        typer.echo(f"cbid: skipped {printable(name)}: {printable(reason)}", err=True)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> str:
    """Format rows as columns two spaces apart; the columns named in ``right`` are right-aligned."""
    from cbid.data.names import printable

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
        rows = [["raw vectors", raw["bytes"], _percent(raw["accuracy"]), "", _three_digits(raw["map"])]]
        rows += [
            [
                f"{entry['n_bits']} bits",
                entry["bytes"],
                _percent(entry["weighted"]["accuracy"]),
                _percent(entry["plain"]["accuracy"]),
                _three_digits(entry["weighted"]["map"]),
            ]
            for entry in codes
        ]
        measure = f"accuracy of a vote of the {evaluation['k']} nearest (plain: without weights)"
    else:
        header = ["", "bytes", "same ten nearest"]
        rows = [["raw vectors", raw["bytes"], _percent(1.0)]]
        rows += [[f"{e['n_bits']} bits", e["bytes"], _percent(e["weighted"]["overlap"])] for e in codes]
        measure = "share of the true ten nearest that the codes find"
    title = f"{n:,} queries, {evaluation['n_stored']:,} stored images: {measure}"
    return f"{title}\n\n{table(header, rows, right=header[1:])}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _three_digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
