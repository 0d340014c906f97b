"""``cbid export``: write the codes of a project for other databases and tools."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbid.commands.options import (
    JsonOption,
    Model,
    ModelOption,
    PrefixOption,
    ProjectOption,
    QuietOption,
    choice,
    echo_result,
    find_project,
    read_queries,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


def export(
    out: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to write.")] = None,
    project: ProjectOption = None,
    model: ModelOption = None,
    source: Annotated[
        Path | None, typer.Option(metavar="SRC", help="With --model: the vectors whose codes are written.")
    ] = None,
    to: Annotated[
        str | None,
        choice(
            "cbid.commands.export:_formats",
            help="npy, parquet, faiss, usearch, pgvector, sqlite-vec, lance, qdrant, elasticsearch, opensearch, "
            "ubinary, binary (sentence-transformers) or hex (default: by the suffix of FILE).",
        ),
    ] = None,
    n_bits: PrefixOption = None,
    names: Annotated[
        Path | None, typer.Option(help="Also write a CSV file: id, name, label and path of each code.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write a search page that needs no server: one file up to 50 MB, otherwise a folder.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the codes of all images, in the order of their ids, to a file for another store.

    With --model, write the codes of the vectors in --source, or the coder itself if FILE ends in .onnx.

    Example: cbid export codes.txt --to pgvector --names images.csv --project photos.cbid
    """
    if page is not None:
        if any(given is not None for given in (out, to, n_bits, names, model, source)):
            raise typer.BadParameter("--page: accepted only with --project")
        _write_page(page, project, as_json=as_json, quiet=quiet)
        return
    if out is None:
        raise typer.BadParameter("expected FILE, or --page FILE.html")
    from cbid.codes import prefix
    from cbid.project import Project

    if model is not None:
        if project is not None or names is not None:
            raise typer.BadParameter("not accepted with --project or --names", param_hint="--model")
        answer = _export_model(out, model, source, to, n_bits)
        echo_result(answer, f"{out}: {answer['bytes']:,} bytes", as_json=as_json, quiet=quiet)
        return
    if source is not None:
        raise typer.BadParameter("only for --model: a project exports its own images", param_hint="--source")
    format = _format_of(out, to)
    with Project.open(find_project(project)) as opened:
        length = opened.n_bits if n_bits is None else n_bits
        opened.weights(length)  # reject an unknown length before the work starts
        ids = opened.ids
        codes = prefix(opened.index.reconstruct(ids), length)
        _write_codes(out, codes, length, format, ids)
        if names is not None:
            _write_names(opened, names)
        size = _size_of(out)
        answer = {"file": str(out), "to": format, "codes": len(ids), "n_bits": length, "bytes": size}
        text = f"{out}: {len(ids):,} codes of {length} bits, {size:,} bytes"
        echo_result(answer, text, as_json=as_json, quiet=quiet)


def _format_of(out: Path, to: str | None) -> str:
    format = to if to is not None else _FORMATS_BY_SUFFIX.get(out.suffix)
    if format is None:
        raise ValueError(f"{out}: unknown format; give --to with one of {', '.join(_formats())}")
    return format


def _write_page(page: Path, project: Path | None, *, as_json: bool, quiet: bool) -> None:
    from cbid.project import Project
    from cbid.report.offline import write_offline_page

    with Project.open(find_project(project)) as opened:
        made = write_offline_page(opened, page)
        answer = {"file": str(made.path), "images": len(opened), "bytes": made.n_bytes, "folder": made.in_folder}
        text = f"{made.path}: {len(opened):,} images, {made.n_bytes:,} bytes; open it in a browser"
        echo_result(answer, text, as_json=as_json, quiet=quiet)


def _write_codes(out: Path, codes: "NDArray[np.uint8]", n_bits: int, format: str, ids: "NDArray[np.int64]") -> None:
    from cbid.storage import code_files

    if format == "npy":
        code_files.save(out, codes)
    elif format == "parquet":
        code_files.save_parquet(out, codes, n_bits, ids)
    else:
        code_files.export(out, codes, n_bits, format, ids)


def _size_of(out: Path) -> int:
    parts = out.rglob("*") if out.is_dir() else [out]
    return sum(part.stat().st_size for part in parts if part.is_file())


def _export_model(out: Path, path: Path, source: Path | None, to: str | None, n_bits: int | None) -> dict[str, Any]:
    """Write a coder as an ONNX file, or the codes of the vectors of a source."""
    import numpy as np

    from cbid.codes import prefix

    model = Model(path, None)
    length = model.n_bits if n_bits is None else n_bits
    model.weights(length)  # reject an unknown length before the work starts
    if source is None:
        if out.suffix != ".onnx" or to is not None:
            raise ValueError(
                f"{out}: a model has no images; give --source with vectors, or a FILE that ends in .onnx"
            )
        coder: Any = model.coder
        if length != model.n_bits:
            coder = coder.truncate(length)
        if not hasattr(coder, "to_onnx"):
            raise ValueError(f"{type(coder).__name__} cannot be written as ONNX: its bits are not hyperplanes")
        coder.to_onnx(out)
        return {"file": str(out), "to": "onnx", "n_bits": length, "bytes": _size_of(out)}
    format = _format_of(out, to)
    batches = [np.stack([query.vector for query in queries]) for queries in read_queries(model, [source])]
    codes = np.concatenate([prefix(model.encode(vectors), length) for vectors in batches])
    _write_codes(out, codes, length, format, np.arange(len(codes)))
    return {"file": str(out), "to": format, "codes": len(codes), "n_bits": length, "bytes": _size_of(out)}


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
