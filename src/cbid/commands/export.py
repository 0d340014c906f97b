"""``cbid export``: write the codes of a project for other databases and tools."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbid.commands.options import JsonOption, PrefixOption, ProjectOption, QuietOption, find_project, one_of
from cbid.commands.output import echo_result

if TYPE_CHECKING:
    from cbid.project import Project

_FORMATS_BY_SUFFIX = {
    ".npy": "npy",
    ".parquet": "parquet",
    ".faiss": "faiss",
    ".usearch": "usearch",
    ".lance": "lance",
    ".sqlite": "sqlite-vec",
    ".hex": "hex",
}


def _formats() -> list[str]:
    from cbid.storage import code_files

    return ["npy", "parquet", *code_files.EXPORTS]


def _check_format(to: str | None) -> str | None:
    return one_of(to, _formats())


def export(
    out: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", show_default=False, help="The file to write.")
    ] = None,
    project: ProjectOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            callback=_check_format,
            help="npy, parquet, faiss, usearch, pgvector, sqlite-vec, lance, qdrant, elasticsearch, opensearch, "
            "ubinary, binary (sentence-transformers) or hex (default: by the suffix of FILE).",
        ),
    ] = None,
    n_bits: PrefixOption = None,
    names: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Also write a CSV file: id, name, label and path of each code."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            show_default=False,
            metavar="FILE.html",
            help="Write a search page that needs no server: one file up to 50 MB, otherwise a folder.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the codes of all images, in the order of their ids, to a file for another store.

    Example: cbid export codes.txt --to pgvector --names images.csv --project photos.cbid
    """
    if page is not None:
        if out is not None or to is not None or n_bits is not None or names is not None:
            raise typer.BadParameter("--page: expected no FILE, --to, --n-bits or --names beside it")
        _write_page(page, project, as_json=as_json, quiet=quiet)
        return
    if out is None:
        raise typer.BadParameter("expected FILE, or --page FILE.html")
    from cbid.codes import prefix
    from cbid.project import Project
    from cbid.storage import code_files

    format = to if to is not None else _FORMATS_BY_SUFFIX.get(out.suffix)
    if format is None:
        raise ValueError(f"{out}: unknown format; give --to with one of {', '.join(_formats())}")
    with Project.open(find_project(project)) as opened:
        length = opened.n_bits if n_bits is None else n_bits
        opened.weights(length)  # reject an unknown length before the work starts
        ids = opened.ids
        codes = prefix(opened.index.reconstruct(ids), length)
        if format == "npy":
            code_files.save(out, codes)
        elif format == "parquet":
            code_files.save_parquet(out, codes, length, ids)
        else:
            code_files.export(out, codes, length, format, ids)
        if names is not None:
            _write_names(opened, names)
        parts = out.rglob("*") if out.is_dir() else [out]
        size = sum(part.stat().st_size for part in parts if part.is_file())
        answer = {"file": str(out), "to": format, "codes": len(ids), "n_bits": length, "bytes": size}
        text = f"{out}: {len(ids):,} codes of {length} bits, {size:,} bytes"
        echo_result(answer, text, as_json=as_json, quiet=quiet)


def _write_page(page: Path, project: Path | None, *, as_json: bool, quiet: bool) -> None:
    from cbid.project import Project
    from cbid.report.offline import write_offline_page

    with Project.open(find_project(project)) as opened:
        made = write_offline_page(opened, page)
        answer = {"file": str(made.path), "images": len(opened), "bytes": made.n_bytes, "folder": made.in_folder}
        text = f"{made.path}: {len(opened):,} images, {made.n_bytes:,} bytes; open it in a browser"
        echo_result(answer, text, as_json=as_json, quiet=quiet)


def _write_names(project: "Project", path: Path) -> None:
    from cbid.storage.atomic import whole_file

    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["id", "name", "label", "path"])
        for first in range(0, len(project), 1000):
            for r in project.records(first, 1000):
                writer.writerow([r.id, r.name, r.label or "", r.path])
