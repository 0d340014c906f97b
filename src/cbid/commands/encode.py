"""``cbid encode``: the codes of images, without adding them."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbid.commands.options import JobsOption, JsonOption, ProjectOption, QuietOption, echo, echo_json, find_project
from cbid.commands.queries import queries

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
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Encode images with the coder of a project: one line each, name and code in hexadecimal digits, or a file.

    Example: cbid encode new/ --out codes.npy --project photos.cbid
    """
    from cbid import codes_io
    from cbid.codes import prefix
    from cbid.project import Project

    if out is not None and out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"--out={out} is not accepted; give a name that ends in .npy or .parquet")
    with Project.open(find_project(project)) as opened:
        length = opened.n_bits if n_bits is None else n_bits
        opened.weights(length)  # refuses what is no length of this code
        names: list[str] = []
        parts: list[Any] = []
        for batch in queries(opened, source, jobs=jobs):
            codes = prefix(opened.encode(np.stack([asked.vector for asked in batch])), length)
            names += [asked.name for asked in batch]
            parts.append(codes)
            if out is None and not as_json:
                for asked, code in zip(batch, codes):
                    echo(f"{asked.name}\t{code.tobytes().hex()}")
        if out is not None:
            together = np.concatenate(parts)
            if out.suffix == ".npy":
                codes_io.save(out, together)
            else:
                codes_io.save_parquet(out, together, length)
            if not quiet and not as_json:
                echo(f"{out}: {len(together):,} codes of {length} bits")
        if as_json:
            lines = [code.tobytes().hex() for part in parts for code in part]
            echo_json({"n_bits": length, "codes": [{"name": n, "code": c} for n, c in zip(names, lines)]})
