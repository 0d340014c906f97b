"""Pictures of four classes that are easy to tell apart."""

import numpy as np

from tests.data.pictures import encoded

KINDS = ("checks", "rings", "spots", "stripes")
_COLOURS = {"checks": (214, 158, 46), "rings": (49, 130, 206), "spots": (72, 160, 100), "stripes": (190, 75, 110)}


def shape(kind, seed, size=64):
    """Return a picture (size, size, 3) uint8; the seed shifts, scales and tints it."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    y, x = np.mgrid[:size, :size] / size
    dx, dy, scale = *rng.uniform(-0.2, 0.2, 2), rng.uniform(0.85, 1.15)
    if kind == "checks":
        wave = np.sin(18 * scale * (x + dx)) * np.sin(18 * scale * (y + dy))
    elif kind == "rings":
        wave = np.sin(34 * scale * np.hypot(x - 0.5 + dx / 2, y - 0.5 + dy / 2))
    elif kind == "spots":
        wave = np.cos(12 * scale * (x + dx)) + np.cos(12 * scale * (y + dy)) - 1
    else:
        wave = np.sin(24 * scale * (x + 0.15 * y + dx))
    colour = np.array(_COLOURS[kind]) + rng.normal(0, 12, 3)
    ink = 1 / (1 + np.exp(-6 * wave))[..., None]
    return np.clip(ink * colour + (1 - ink) * 246 + rng.normal(0, 4, (size, size, 3)), 0, 255).astype(np.uint8)


def png(kind, seed, size=64):
    return encoded(shape(kind, seed, size), "PNG")
