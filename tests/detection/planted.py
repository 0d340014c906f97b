"""Rings in noise: objects that a detector of small windows learns quickly."""

from functools import cache

import numpy as np

from cbid.coders import LSH
from cbid.detection import Annotation, CBIDVerifier, SlidingWindowDetector

SIDE, BORDER = 32, 4
SETTINGS = {"window": (SIDE, SIDE), "border": BORDER, "scales_per_octave": 4, "n_random": 20, "n_hard": 10, "C": 0.1}


def ring(side=SIDE, border=BORDER):
    """A bright ring as wide as the window without its border, as a mask (side, side) in 0..1."""
    y, x = np.indices((side, side)) - (side - 1) / 2
    radius = side / 2 - border * side / SIDE - 1.5 * side / SIDE
    return np.exp(-(((np.hypot(x, y) - radius) / (1.5 * side / SIDE)) ** 2))


def noise(rng, height, width):
    return 90 + rng.normal(0, 12, (height, width))


def as_image(values):
    return np.clip(values, 0, 255).astype(np.uint8)


@cache
def training():
    """Windows of rings with 8 pixels of context, and photographs of noise with bars in it."""
    rng = np.random.default_rng(0)
    positives = []
    for _ in range(60):
        window = noise(rng, SIDE + 16, SIDE + 16)
        window[8:-8, 8:-8] += rng.uniform(60, 120) * ring()
        positives.append(as_image(window))
    return positives, [photograph(rng)[0] for _ in range(4)]


def photograph(rng, n_rings=0):
    """A photograph of 120 x 160 with bars, and with rings of 24 to 48 pixels at distinct places; and their boxes."""
    values = noise(rng, 120, 160)
    values[:, 70:76] += 80
    values[56:60, :] += 80
    boxes = []
    for left, top in [(4, 4), (90, 4), (4, 66), (100, 66)][:n_rings]:
        side = int(rng.integers(SIDE, 49))
        values[top : top + side, left : left + side] += 100 * ring(side)
        inset = BORDER * side / SIDE
        boxes.append([left + inset, top + inset, left + side - inset, top + side - inset])
    return as_image(values), Annotation(np.array(boxes).reshape(-1, 4))


@cache
def detector(verified=False):
    """A fitted detector; verified by codes of random hyperplanes."""
    verifier = CBIDVerifier(coder=LSH(n_bits=128)) if verified else None
    return SlidingWindowDetector(**SETTINGS, verifier=verifier).fit(*training())


@cache
def scenes():
    """Three photographs with rings, and their annotations."""
    rng = np.random.default_rng(1)
    return [photograph(rng, n) for n in (1, 3, 4)]
