"""``cbid encode``: the codes of images, printed or written to a file; in memory, in parts, or on a Dask cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbid.commands.options import (
    JobsOption,
    JsonOption,
    Model,
    ModelDescriptorOption,
    ModelOption,
    PrefixOption,
    ProjectOption,
    QuietOption,
    echo,
    echo_result,
    echo_skipped,
    open_project_or_model,
    open_source_for,
    read_queries,
    resumable,
)
from cbid.text import printable

if TYPE_CHECKING:
    from cbid.project import Project


def encode(
    source: Annotated[
        list[Path],
        typer.Argument(metavar="SRC", help="Images, folders, list files, or .npy, .npz and parquet files."),
    ],
    project: ProjectOption = None,
    model: ModelOption = None,
    descriptor: ModelDescriptorOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the codes to this .npy or .parquet file (default: print)."),
    ] = None,
    n_bits: PrefixOption = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Encode on the workers of this Dask scheduler, tcp://HOST:PORT.")
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option(help='Memory limit, such as "2GB"; on a cluster, the limit of each worker.')
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="With --scheduler or --max-memory: replace files made from another source or model."
        ),
    ] = False,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Encode images with the coder of a project, without adding them; or vectors with a coder saved from Python.

    Prints one line per image: its name and its code in hexadecimal. With --out it writes a file instead.

    With --scheduler or --max-memory it encodes one source in parts to a .npy file. The source may be larger than
    memory, and an interrupted run resumes.

    Example: cbid encode new/ --out codes.npy --project photos.cbid

    Example: cbid encode embeddings.npy --model coder.safetensors --out codes.npy
    """
    _check_out(out, source)
    with open_project_or_model(project, model, descriptor) as opened:
        length = opened.n_bits if n_bits is None else n_bits
        opened.weights(length)  # reject an unknown length before the work starts
        if scheduler is not None or max_memory is not None:
            if out is None or out.suffix != ".npy" or len(source) != 1:
                raise ValueError("--scheduler and --max-memory need one SRC and an --out that ends in .npy")
            settings = {"scheduler": scheduler, "n_jobs": n_jobs, "verbose": not quiet, "overwrite": overwrite}
            with resumable():
                n_codes = _encode_in_parts(opened, source[0], out, length, max_memory or "2GB", settings)
            answer: dict[str, Any] = {"n_bits": length, "n": n_codes, "out": out}
        else:
            codes = _encode_in_memory(opened, source, out, length, n_jobs, printed=out is None and not as_json)
            n_codes, answer = len(codes), {"n_bits": length, "codes": codes}
        text = f"{out}: {n_codes:,} codes of {length} bits"
        echo_result(answer, text, as_json=as_json, quiet=quiet or out is None)


def _check_out(out: Path | None, sources: list[Path]) -> None:
    if out is None:
        return
    if out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"--out={out}: expected a name that ends in .npy or .parquet")
    if not out.parent.is_dir():
        raise ValueError(f"--out={out}: the folder {out.parent} does not exist")
    if out.exists() and any(path.exists() and out.samefile(path) for path in sources):
        raise ValueError(f"--out={out}: would overwrite the source; choose another name")


def _encode_in_memory(
    project: "Project | Model",
    sources: list[Path],
    out: Path | None,
    n_bits: int,
    n_jobs: int | None,
    *,
    printed: bool,
) -> list[dict[str, str]]:
    """Print or write the codes; return the name and the code, in hexadecimal, of each image."""
    import numpy as np

    from cbid.codes import prefix
    from cbid.storage import code_files

    entries: list[dict[str, str]] = []
    batches = []
    for queries in read_queries(project, sources, n_jobs=n_jobs):
        codes = prefix(project.encode(np.stack([query.vector for query in queries])), n_bits)
        batches.append(codes)
        for query, code in zip(queries, codes):
            entries.append({"name": query.name, "code": code.tobytes().hex()})
            if printed:
                echo(f"{printable(query.name)}\t{entries[-1]['code']}")
    if out is not None:
        together = np.concatenate(batches)
        if out.suffix == ".npy":
            code_files.save(out, together)
        else:
            code_files.save_parquet(out, together, n_bits)
    return entries


def _encode_in_parts(
    project: "Project | Model", source: Path, out: Path, n_bits: int, max_memory: str, settings: dict[str, Any]
) -> int:
    """Encode a source of any size to ``out``, and return the number of codes.

    The vectors of images go to a file next to ``out`` first.
    """
    from cbid.scale import describe_to, encode_to

    coder = project.coder if n_bits == project.n_bits else project.coder.truncate(n_bits)
    images = open_source_for(project, source)
    vectors, ids = source, None
    if project.descriptor is not None:
        vectors = out.with_suffix(".vectors.npy")
        described = describe_to(images, project.descriptor, vectors, on_error="skip", **settings)
        ids = described.rows
        echo_skipped(described.failures)
    return len(encode_to(vectors, coder, out, ids=ids, max_memory=max_memory, **settings))
