"""Lower bounds of distances: the leading principal coordinates of a row, and the length of what they leave out.

The *head* of a row x around the mean m is (A (x - m), |(x - m) - A'A (x - m)|), with orthonormal axes A. Its first
values are coordinates of x; two lengths differ by at most the distance of what they are lengths of. So heads are
never farther apart than rows, whatever the axes. Along principal axes most of them are nearly as far apart, and a
comparison of a few values settles what takes all of them otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cbid.learning.axes import principal_axes

__all__ = ["ROUNDING", "TINY", "Heads", "head_axes", "slack"]

Floats = NDArray[np.float32]

_SAMPLE = 20_000  # rows that the axes are found from
_SHARE = 0.88  # of the variance that the axes hold: the more, the fewer rows need a second look
_NARROWEST, _WIDEST = 4, 1024  # values of a row: fewer leave nothing to gain, of more the axes take long to find
_CHUNK = 8192  # rows at a time
# What squared distances of heads may come out too large by: a share of the squared lengths of both, several times
# what float32 loses in the products, and more than it loses where squares are next to nothing.
ROUNDING, TINY = 3e-5, 1e-36


def head_axes(parts: Sequence[Floats]) -> Floats | None:
    """Axes (d, m) along which the rows of the parts vary most, each part around its own mean.

    None where heads would take more than half of the room of the rows, and for rows of more than 1,024 values.
    """
    width = parts[0].shape[1]
    n = sum(len(part) for part in parts)
    if n < 2 or not _NARROWEST <= width <= _WIDEST:
        return None
    step = -(-n // _SAMPLE)
    sample = np.concatenate([part[::step] - _mean(part[::step]) for part in parts])
    variance = float(np.einsum("ij,ij->", sample, sample, dtype=np.float64)) / len(sample)
    if not 1e-30 < variance < 1e30:  # nothing varies, or float32 has no digits for the squares
        return None
    found = principal_axes(sample, width // 2)[1]
    enough = np.flatnonzero(np.cumsum(found.lengths**2) >= _SHARE * variance)
    if not len(enough) or enough[0] + 2 > width // 2:
        return None
    return np.ascontiguousarray(found.vectors[: enough[0] + 1].T, np.float32)


def _mean(rows: Floats) -> Floats:
    return rows.mean(axis=0, dtype=np.float64).astype(np.float32)


@dataclass(frozen=True)
class Heads:
    """mean: (d,), axes: (d, m), float32. Bounds hold around any mean; the nearer to the rows, the less is rounded."""

    mean: Floats
    axes: Floats

    @classmethod
    def around(cls, rows: Floats, axes: Floats) -> Self:
        """Around the mean of these rows."""
        return cls(_mean(rows), axes)

    def __call__(self, rows: Floats) -> Floats:
        """Heads (n, m + 1) of rows (n, d)."""
        m = self.axes.shape[1]
        out = np.empty((len(rows), m + 1), np.float32)
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            centred = rows[part] - self.mean
            out[part, :m] = centred @ self.axes
            # As the rest itself: a difference of squares would lose its digits.
            centred -= out[part, :m] @ self.axes.T
            out[part, m] = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        return out


def slack(asked: Floats, most: float) -> Floats:
    """What squared distances may come out too large by: from heads (q, m) of queries to those of rows whose squared
    length is at most ``most``."""
    return np.float32(ROUNDING) * (np.einsum("ij,ij->i", asked, asked) + np.float32(most)) + np.float32(TINY)
