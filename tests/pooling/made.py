"""Made bags for the tests: rows around a few centres, at random places of images of random sizes."""

import numpy as np

from cbid.bags import Bags


def made_bags(sizes=(30, 0, 25, 40), d=6, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(5, d))
    shapes = [(int(h), int(w)) for h, w in rng.integers(8, 40, size=(len(sizes), 2))]
    values = [centres[rng.integers(5, size=m)] + 0.3 * rng.normal(size=(m, d)) for m in sizes]
    frames = [
        np.column_stack([rng.integers(w, size=m), rng.integers(h, size=m), np.full(m, 4)])
        for m, (h, w) in zip(sizes, shapes)
    ]
    return Bags.from_list(values, frames, shapes)
