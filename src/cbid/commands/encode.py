"""``cbid encode``: the codes of images, without adding them; here, in bounded memory, or on a Dask cluster."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbid.commands.options import (
    JobsOption,
    JsonOption,
    ProjectOption,
    QuietOption,
    echo,
    echo_json,
    find_project,
    resumable,
)
from cbid.commands.queries import open_for, queries
from cbid.data.names import printable

__all__ = ["encode"]


def encode(
    source: Annotated[
        list[Path], typer.Argument(metavar="SRC...", help="Images, folders, lists, .npy, .npz, parquet.")
    ],
    project: ProjectOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", show_default=False, help="A .npy or .parquet file; otherwise lines of text."),
    ] = None,
    n_bits: Annotated[
        int | None, typer.Option("--bits", "-b", min=1, show_default=False, help="Only the first bits of the codes.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(show_default=False, help="Address of a Dask scheduler, tcp://HOST:PORT; its workers encode."),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(show_default=False, help='Most memory to take, such as "2GB"; of each worker on a cluster.'),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="With these two: replace a file, or parts of one, made of something else."),
    ] = False,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Encode images with the coder of a project: one line each, name and code in hexadecimal digits, or a file.

    With --scheduler or --max-memory one source goes to a .npy file in parts: what was stopped goes on when it is
    called again, and more may be encoded than memory holds.

    Example: cbid encode new/ --out codes.npy --project photos.cbid
    """
    from cbid.codes import prefix
    from cbid.project import Project
    from cbid.storage import code_files

    if out is not None and out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"--out={out} is not accepted; give a name that ends in .npy or .parquet")
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"--out={out} is not accepted: there is no folder {out.parent}; make it first")
    if out is not None and out.exists() and any(given.exists() and out.samefile(given) for given in source):
        raise ValueError(f"--out={out} is the source itself; give another name")
    with Project.open(find_project(project)) as opened:
        length = opened.n_bits if n_bits is None else n_bits
        opened.weights(length)  # refuses what is no length of this code
        if scheduler is not None or max_memory is not None:
            if out is None or out.suffix != ".npy" or len(source) != 1:
                raise ValueError("--scheduler and --max-memory take one SRC, and --out with a name that ends in .npy")
            settings = {"scheduler": scheduler, "n_jobs": jobs, "verbose": not quiet, "overwrite": overwrite}
            with resumable():
                n = _encode_in_parts(opened, source[0], out, length, max_memory or "2GB", settings)
            if as_json:
                echo_json({"n_bits": length, "n": n, "out": out})
            elif not quiet:
                echo(f"{out}: {n:,} codes of {length} bits")
            return
        names: list[str] = []
        parts: list[Any] = []
        for batch in queries(opened, source, jobs=jobs):
            codes = prefix(opened.encode(np.stack([asked.vector for asked in batch])), length)
            names += [asked.name for asked in batch]
            parts.append(codes)
            if out is None and not as_json:
                for asked, code in zip(batch, codes):
                    echo(f"{printable(asked.name)}\t{code.tobytes().hex()}")
        if out is not None:
            together = np.concatenate(parts)
            if out.suffix == ".npy":
                code_files.save(out, together)
            else:
                code_files.save_parquet(out, together, length)
            if not quiet and not as_json:
                echo(f"{out}: {len(together):,} codes of {length} bits")
        if as_json:
            lines = [code.tobytes().hex() for part in parts for code in part]
            echo_json({"n_bits": length, "codes": [{"name": n, "code": c} for n, c in zip(names, lines)]})


def _encode_in_parts(
    opened: Any, source: Path, out: Path, n_bits: int, max_memory: str, settings: dict[str, Any]
) -> int:
    """The number of codes that are in the file in the end. Images are described to a file beside it first."""
    from cbid.scale import describe_to, encode_to

    coder = opened.coder if n_bits == opened.n_bits else opened.coder.truncate(n_bits)
    images = open_for(opened, source)
    vectors, ids = source, None
    if opened.descriptor is not None:
        vectors = out.with_suffix(".vectors.npy")
        described = describe_to(images, opened.descriptor, vectors, on_error="skip", **settings)
        ids = described.rows
        for name, reason in described.failures:
            typer.echo(f"cbid: left out {printable(name)}: {reason}", err=True)
    return len(encode_to(vectors, coder, out, ids=ids, max_memory=max_memory, **settings))
