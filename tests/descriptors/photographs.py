"""Photographs that come inside scikit-image's wheel, so that no test downloads anything."""

from functools import cache

from skimage import data


@cache
def gray():
    """Three photographs, (h, w) uint8, of sides that no cell divides."""
    return [data.camera()[30:225, 100:303], data.coins()[:150, 7:208], data.brick()[:140, :133]]


@cache
def color():
    """Three photographs, (h, w, 3) uint8."""
    return [data.astronaut()[:203, 120:301], data.chelsea()[40:190, 90:293], data.coffee()[:155, 200:361]]
