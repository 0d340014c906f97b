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

__all__ = ["Heads", "heads_of", "slack"]

Floats = NDArray[np.float32]

_SAMPLE = 20_000  # rows that the axes are found from
_SHARE = 0.88  # of the variance that the axes hold: the more, the fewer rows need a second look
_CHUNK = 8192  # rows at a time
_ROUNDING = 3e-5  # of squares in float32, with some to spare


@dataclass(frozen=True)
class Heads:
    """mean: (d,), axes: (d, m), float32."""

    mean: Floats
    axes: Floats

    @classmethod
    def fit(cls, parts: Sequence[Floats]) -> Self | None:
        """Axes for the rows of all parts; None where heads would take more than half of the room of the rows."""
        width = parts[0].shape[1]
        n = sum(len(part) for part in parts)
        if n < 2:
            return None
        step = -(-n // _SAMPLE)
        sample = np.concatenate([part[::step] for part in parts])
        with np.errstate(over="ignore", invalid="ignore"):
            variance = float(sample.var(axis=0, dtype=np.float64).sum())
        if not 1e-30 < variance < 1e30:  # nothing varies, or float32 has no digits for the squares
            return None
        mean, found = principal_axes(sample, width // 2)
        held = np.cumsum(found.lengths**2) / variance
        enough = np.flatnonzero(held >= _SHARE)
        if not len(enough) or enough[0] + 2 > width // 2:
            return None
        return cls(mean.astype(np.float32), np.ascontiguousarray(found.vectors[: enough[0] + 1].T, np.float32))

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


def heads_of(rows: Floats, heads: Heads | None) -> Floats:
    """Heads of rows (n, d); (n, 0), which bound nothing, where there are no axes."""
    return np.empty((len(rows), 0), np.float32) if heads is None else heads(rows)


def slack(asked: Floats, most: float) -> Floats:
    """What squared distances of heads may come out too large by: from queries (q, m) to rows whose squared length is
    at most ``most``."""
    return np.float32(_ROUNDING) * (np.einsum("ij,ij->i", asked, asked) + np.float32(most))
