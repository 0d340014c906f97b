"""Small image folders, and projects made of them in a second."""

import numpy as np
from PIL import Image

from cbid.descriptors import RawPixels
from cbid.project import Project

COLOURS = {"blue": (40, 60, 200), "green": (40, 200, 60), "red": (200, 50, 40)}
TINY = RawPixels(size=(5, 5), color=True)  # 75 values
N_BITS = 24  # three bytes, and prefixes of 8 and 16 bits


def picture(colour, seed, side=24):
    """A field of that colour with coarse noise."""
    rng = np.random.default_rng(seed)
    noise = np.kron(rng.normal(0, 40, (side // 4, side // 4, 3)), np.ones((4, 4, 1)))
    return np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8)


def write_images(folder, n=8, *, first=0, colours=tuple(COLOURS)):
    """``n`` PNG files in each class folder, numbered from ``first``."""
    for number, colour in enumerate(colours):
        (folder / colour).mkdir(parents=True, exist_ok=True)
        for i in range(first, first + n):
            Image.fromarray(picture(colour, 1000 * number + i)).save(folder / colour / f"{i:03}.png")
    return folder


def fitted(path, source, **settings):
    return Project.fit(path, source, **{"descriptor": TINY, "n_bits": N_BITS, **settings})
