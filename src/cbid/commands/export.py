"""``cbid export``: the codes of a project, for other stores."""

import csv
from pathlib import Path
from typing import Annotated

import typer

from cbid.commands.options import JsonOption, ProjectOption, QuietOption, echo, echo_json, find_project, one_of

__all__ = ["export"]

_SUFFIXES = {".npy": "npy", ".parquet": "parquet", ".faiss": "faiss", ".usearch": "usearch", ".hex": "hex"}


def _checked_kind(to: str | None) -> str | None:
    return one_of(to, _kinds())


def _kinds() -> list[str]:
    from cbid.storage import code_files

    return ["npy", "parquet", *code_files.EXPORTS]


def export(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    project: ProjectOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            callback=_checked_kind,
            help="npy, parquet, faiss, usearch, pgvector or hex (default: by FILE).",
        ),
    ] = None,
    n_bits: Annotated[
        int | None, typer.Option("--bits", "-b", min=1, show_default=False, help="Only the first bits of the codes.")
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Also write this CSV file: id, name, label, path of each code."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the codes of all images, by ascending id, to a file that other stores read.

    Example: cbid export codes.txt --to pgvector --names images.csv --project photos.cbid
    """
    from cbid.codes import prefix
    from cbid.project import Project
    from cbid.storage import code_files
    from cbid.storage.atomic import whole_file

    kind = to if to is not None else _SUFFIXES.get(out.suffix)
    if kind is None:
        raise ValueError(f"{out} does not tell its format; give --to {', '.join(_kinds())}")
    with Project.open(find_project(project)) as opened:
        length = opened.n_bits if n_bits is None else n_bits
        opened.weights(length)  # refuses what is no length of this code
        ids = opened.ids
        codes = prefix(opened.index.reconstruct(ids), length)
        if kind == "npy":
            code_files.save(out, codes)
        elif kind == "parquet":
            code_files.save_parquet(out, codes, length, ids)
        else:
            code_files.export(out, codes, length, kind, ids)
        if names is not None:
            with (
                whole_file(names) as temporary,
                temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
            ):
                writer = csv.writer(file)
                writer.writerow(["id", "name", "label", "path"])
                for first in range(0, len(ids), 1000):
                    for r in opened.records(first, 1000):
                        writer.writerow([r.id, r.name, r.label or "", r.path])
        told = {"file": str(out), "to": kind, "codes": len(ids), "n_bits": length, "bytes": out.stat().st_size}
        if as_json:
            echo_json(told)
        elif not quiet:
            echo(f"{out}: {len(ids):,} codes of {length} bits, {told['bytes']:,} bytes")
