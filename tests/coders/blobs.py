"""Small labelled sets of vectors."""

import numpy as np


def blobs(n=90, d=5, k=3, seed=0, apart=3.0):
    """Return n vectors around k random centres, with alternating classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((k, d))[y], y
