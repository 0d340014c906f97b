"""The images of the demo: what the libraries underneath bring along."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["make_images"]

# Photographs that scikit-image and scikit-learn hold in the package itself; each is a class of squares.
_SKIMAGE = ("astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "moon", "rocket")
_SKLEARN = ("china", "flower")
_TILE, _TILES = 96, 24  # pixels of a square, and squares of a photograph
_DIGITS = 40  # of each digit
_SCALE = 8  # digits have 8 x 8 pixels


def make_images(folder: Path) -> list[Path]:
    """Class folders in ``folder``/images, and query images that are in none of them; returns the queries."""
    rng = np.random.default_rng(0)
    queries = folder / "queries"
    queries.mkdir(parents=True, exist_ok=True)
    found = []
    for name, images in {**_digits(), **_photographs(rng)}.items():
        where = folder / "images" / name
        where.mkdir(parents=True, exist_ok=True)
        for i, image in enumerate(images[:-1]):
            _write(where / f"{i:03}.png", image)
        if name in ("digit 7", "gravel"):
            found.append(queries / f"{name.replace(' ', '-')}.png")
            _write(found[-1], images[-1])
    return found


def _write(path: Path, image: NDArray[np.uint8]) -> None:
    from PIL import Image

    if not path.exists():  # an image that is there keeps its time, and is not read again
        Image.fromarray(image).save(path)


def _digits() -> dict[str, list[NDArray[np.uint8]]]:
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    large = np.kron(data.images, np.ones((1, _SCALE, _SCALE)))  # 0..16
    pixels = (255 - np.rint(large * 255 / 16)).astype(np.uint8)
    return {f"digit {d}": list(pixels[data.target == d][: _DIGITS + 1]) for d in range(10)}


def _photographs(rng: np.random.Generator) -> dict[str, list[NDArray[np.uint8]]]:
    """Squares that do not overlap, drawn from the grid over each photograph."""
    import skimage.data
    from sklearn.datasets import load_sample_image

    photographs = {name: np.asarray(getattr(skimage.data, name)()) for name in _SKIMAGE}
    photographs |= {name: np.asarray(load_sample_image(f"{name}.jpg")) for name in _SKLEARN}
    tiles = {}
    for name, photograph in photographs.items():
        side = min(_TILE, min(photograph.shape[:2]) // 4)
        rows, columns = photograph.shape[0] // side, photograph.shape[1] // side
        places = rng.permutation(rows * columns)[: _TILES + 1]
        tiles[name] = [
            photograph[r * side : (r + 1) * side, c * side : (c + 1) * side]
            for r, c in (divmod(int(place), columns) for place in places)
        ]
    return tiles
