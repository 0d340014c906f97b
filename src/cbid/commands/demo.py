"""``cbid demo``: from a folder of images to a search, on images that come with the libraries."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cbid.commands.fit import tell_fit
from cbid.commands.options import QuietOption, echo, resumable
from cbid.commands.search import matches_table

__all__ = ["demo"]

DESCRIPTOR = "centrist"  # textures, which most of the photographs are of


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")] = Path("cbid-demo"),
    n_bits: Annotated[int, typer.Option("--bits", "-b", min=8, help="Bits of a code.")] = 64,
    serve: Annotated[bool, typer.Option("--serve", help="Then open the search page.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Make a folder of images, learn codes for them, search, and write a report: under two minutes.

    The images are scikit-learn's handwritten digits and squares out of the photographs that come with scikit-image
    and scikit-learn; no network is needed.

    Example: cbid demo --serve
    """
    from cbid.commands.demo_images import make_images
    from cbid.project import Project
    from cbid.report import write_report

    images, path, page = out / "images", out / "images.cbid", out / "report.html"
    if out.exists() and not images.is_dir() and any(out.iterdir()):
        raise ValueError(f"{out} holds other files; give the demo a folder of its own by --out")
    queries = make_images(out)

    def say(text: str) -> None:
        if not quiet:
            echo(text)

    say(f"$ cbid fit {images} --descriptor {DESCRIPTOR} --bits {n_bits} --out {path}")
    with (
        resumable(),
        Project.fit(path, images, descriptor=DESCRIPTOR, n_bits=n_bits, progress=not quiet) as project,
    ):
        if not quiet:
            tell_fit(project)
        for query in queries:
            say("")
            say(f"$ cbid search {query} -k 5 --project {path}")
            found = project.search(project.describe_image(query.read_bytes()), 5)
            say(matches_table(project, found))
        say("")
        say(f"$ cbid report --project {path} --out {page}")
        write_report(project, page)
        say(f"{page}: open it in a browser")
    if serve:
        say(f"$ cbid serve {path}")
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "cbid", "serve", str(path)])
    say("")
    say(f"cbid serve {path}    opens a page to search with (needs the extra 'serve')")
