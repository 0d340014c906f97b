"""``cbid demo``: the whole flow, from a folder of images to a search page, on images that need no download."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbid.commands.fit import echo_fit
from cbid.commands.options import QuietOption, command_line, echo, resumable
from cbid.commands.search import matches_table
from cbid.extras import how_to_install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

# Photographs in the packages scikit-image and scikit-learn. The tiles of one photograph form one class.
_SKIMAGE = ("astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "moon", "rocket")
_SKLEARN = ("china", "flower")
LIKENESS = 0.8  # of the searches: near images of the same class, the most similar first
_TILE_SIZE = 96  # pixels
_TILES_PER_CLASS = 24
_ASKED = ("chelsea", "coffee")  # classes with a query


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to create.")] = Path("cbid-demo"),
    n_bits: Annotated[int, typer.Option("--n-bits", "-b", min=8, help="Length of the codes in bits.")] = 64,
    serve: Annotated[bool, typer.Option("--serve", help="Start the search page at the end.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Create example images, learn codes, search and write a report, in under a minute.

    The images are tiles of the photographs in scikit-image and scikit-learn: the tiles of one photograph form one
    class. The demo needs no network connection.

    Example: cbid demo --serve
    """
    from cbid.project import Project
    from cbid.project.fitting import unfinished
    from cbid.report import write_report

    images, path, page = out / "images", out / "images.cbid", out / "report.html"
    if out.exists() and not images.is_dir() and any(out.iterdir()):
        raise ValueError(f"--out={out}: the folder holds other files; choose a new folder")

    def say(text: str = "") -> None:
        if not quiet:
            echo(text)

    served = command_line("serve", path)
    if serve and page.exists() and _has_bits(path, n_bits):  # the demo has run: only the page is missing
        say(f"$ {served}")
        _serve(path)
        return
    queries = make_images(out)
    say(f"$ {command_line('fit', images, '--n-bits', n_bits, '--out', path)}")
    with resumable(lambda: unfinished(path)), Project.fit(path, images, n_bits=n_bits, progress=not quiet) as project:
        if not quiet:
            echo_fit(project, given=False)
        for query in queries:
            say()
            say(f"$ {command_line('search', query, '-k', 5, '--likeness', LIKENESS, '--project', path)}")
            found = project.search(project.describe_image(query.read_bytes()), 5, likeness=LIKENESS)
            say(matches_table(project, found))
        say()
        say(f"$ {command_line('report', '--project', path, '--out', page)}")
        write_report(project, page)
        say(f"{page}: open it in a browser")
    say()
    if serve:
        say(f"$ {served}")
        _serve(path)
    elif find_spec("fastapi") and find_spec("uvicorn"):
        say("Start a search page with:")
        say(f"  {served}")
    else:
        say(f"A search page needs the extra 'serve': {how_to_install('serve')}")


def _has_bits(path: Path, n_bits: int) -> bool:
    """Return whether there is a finished project with codes of this length."""
    from cbid.project import Project

    try:
        with Project.open(path) as project:
            return project.n_bits == n_bits
    except (ValueError, OSError):
        return False


def _serve(path: Path) -> None:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "cbid", "serve", str(path)])


def make_images(folder: Path) -> list[Path]:
    """Write class folders to ``folder``/images, and query images that are not in them; return the queries."""
    import numpy as np

    queries = folder / "queries"
    queries.mkdir(parents=True, exist_ok=True)
    written = []
    for name, images in _tiles(np.random.default_rng(0)).items():
        class_folder = folder / "images" / name
        class_folder.mkdir(parents=True, exist_ok=True)
        for i, image in enumerate(images[:-1]):
            _write(class_folder / f"{i:03}.png", image)
        if name in _ASKED:
            written.append(queries / f"{name}.png")
            _write(written[-1], images[-1])
    return written


def _write(path: Path, image: "Pixels") -> None:
    from PIL import Image

    if not path.exists():  # keep the modification time, so that cbid fit does not read the image again
        Image.fromarray(image).save(path)


def _tiles(rng: "np.random.Generator") -> dict[str, list["Pixels"]]:
    """Draw tiles that do not overlap from the grid over each photograph."""
    import numpy as np
    import skimage.data
    from sklearn.datasets import load_sample_image

    photographs = {name: np.asarray(getattr(skimage.data, name)()) for name in _SKIMAGE}
    photographs |= {name: np.asarray(load_sample_image(f"{name}.jpg")) for name in _SKLEARN}
    tiles = {}
    for name, photograph in photographs.items():
        size = min(_TILE_SIZE, min(photograph.shape[:2]) // 4)
        n_rows, n_columns = photograph.shape[0] // size, photograph.shape[1] // size
        cells = rng.permutation(n_rows * n_columns)[: _TILES_PER_CLASS + 1]
        tiles[name] = [
            photograph[r * size : (r + 1) * size, c * size : (c + 1) * size]
            for r, c in (divmod(int(cell), n_columns) for cell in cells)
        ]
    return tiles
