"""Compiled loops for gradients and their histograms.

All in one file: numba caches compiled functions on disk, and recompiles only if the file of the outermost function
has changed.

A trilinear vote is shared by the two nearest bins, rows and columns of cells. A row of pixels votes along itself
first; its histograms are then shared among the rows of cells.
"""

import math

import numba
import numpy as np

# Lengths that differ by less are equal; rounding of 8-bit images in float32 causes up to half of that.
_EQUAL = 5e-7


@numba.njit(nogil=True, cache=True)
def differences(planes, scale, dx, dy):  # type: ignore[no-untyped-def]
    height, width, channels = planes.shape
    real = dx.dtype.type
    scale, equal = real(scale), real(_EQUAL / scale)
    x, longest = np.zeros(width, dx.dtype), np.empty(width, dx.dtype)
    for i in range(height):
        above, below = (i, i) if i == 0 or i == height - 1 else (i - 1, i + 1)
        for c in range(channels):
            for j in range(1, width - 1):
                x[j] = real(planes[i, j + 1, c]) - real(planes[i, j - 1, c])
            for j in range(width):
                y = real(planes[below, j, c]) - real(planes[above, j, c])
                length = np.sqrt(x[j] * x[j] + y * y)
                longer = c == 0 or length > longest[j] + equal
                longest[j] = length if longer else longest[j]
                dx[i, j] = x[j] * scale if longer else dx[i, j]
                dy[i, j] = y * scale if longer else dy[i, j]


@numba.njit(nogil=True, cache=True)
def vote(dx, dy, rows, columns, cosines, sines, signed, histograms):  # type: ignore[no-untyped-def]
    height, width = dx.shape
    x, y, lengths = np.empty((3, width), dtype=dx.dtype)
    bins = np.empty(width, dtype=np.int32)
    for i in range(height):
        r = math.floor(rows[i])
        if r < 0 or r >= histograms.shape[0]:
            continue
        # Loops over whole rows of pixels use SIMD.
        for j in range(width):
            a, b = dx[i, j], dy[i, j]
            lower = b < 0 or (b == 0 and a < 0)
            x[j] = -a if lower else a
            y[j] = -b if lower else b
            lengths[j] = np.sqrt(a * a + b * b)
            bins[j] = len(cosines) + 1 if lower and signed else 0
        for k in range(len(cosines)):
            cosine, sine = cosines[k], sines[k]
            for j in range(width):
                bins[j] += y[j] * cosine - x[j] * sine >= 0
        for j in range(width):
            c = math.floor(columns[j])
            if 0 <= c < histograms.shape[1]:
                histograms[r, c, bins[j]] += lengths[j]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def share_votes(dx, dy, signed, first_row, row_shares, first_column, column_shares, cells):  # type: ignore[no-untyped-def]
    """Add the trilinear votes of gradients (h, w) to ``cells`` (rows, columns, orientations).

    first_row (h,), row_shares (h, k), first_column (w,), column_shares (w, k): the ``Shares`` of the two sides. Cells
    with a share of zero are skipped and may lie outside.
    """
    height, width = dx.shape
    n_rows, n_columns, orientations = cells.shape
    half, one = np.float32(0.5), np.float32(1)
    around = np.float32(orientations)
    per_radian = np.float32(orientations / (2 * math.pi if signed else math.pi))
    lower = np.empty(width, np.int32)
    low, high = np.empty(width, np.float32), np.empty(width, np.float32)
    line = np.empty((n_columns, orientations), cells.dtype)
    flat, flat_cells = line.ravel(), cells.reshape(n_rows, n_columns * orientations)
    for i in range(height):
        if not row_shares[i].any():
            continue
        # A loop over the whole row uses SIMD.
        for j in range(width):
            x, y = np.float32(dx[i, j]), np.float32(dy[i, j])
            angle = _angle(x, y) * per_radian
            angle = angle + around if angle < 0 else angle
            below = np.floor(angle - half)
            part = angle - half - below
            length = np.sqrt(x * x + y * y)
            lower[j], low[j], high[j] = np.int32(below), length * (one - part), length * part
        flat[:] = 0
        for j in range(width):
            # Bins wrap around; NaN must not index outside.
            under, above = lower[j], lower[j] + 1
            under = under if 0 <= under < orientations else orientations - 1
            above = above if 0 <= above < orientations else 0
            for k in range(column_shares.shape[1]):
                share = column_shares[j, k]
                if share > 0:
                    c = first_column[j] + k
                    line[c, under] += low[j] * share
                    line[c, above] += high[j] * share
        for k in range(row_shares.shape[1]):
            share = row_shares[i, k]
            if share > 0:
                target = flat_cells[first_row[i] + k]
                for c in range(len(flat)):
                    target[c] += share * flat[c]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def orientation_maps(image, orientations):  # type: ignore[no-untyped-def]
    """Gradient strength (h, w, orientations) of a float32 image, shared between the two next orientations.

    Orientation o points at 360 o / orientations degrees, y upwards. Pixels of the outermost lines have none.
    """
    height, width = image.shape
    maps = np.zeros((height, width, orientations), np.float32)
    one, around = np.float32(1), np.float32(orientations)
    per_radian = np.float32(orientations / (2 * math.pi))
    lower = np.empty(width, np.int32)
    low, high = np.empty(width, np.float32), np.empty(width, np.float32)
    for i in range(1, height - 1):
        # As in share_votes: a SIMD loop over the row, then its pixels.
        for j in range(1, width - 1):
            x, y = image[i, j + 1] - image[i, j - 1], image[i - 1, j] - image[i + 1, j]
            position = _angle(x, y) * per_radian
            position = position + around if position < 0 else position
            below = np.floor(position)
            part = position - below
            length = np.sqrt(x * x + y * y)
            lower[j], low[j], high[j] = np.int32(below), length * (one - part), length * part
        for j in range(1, width - 1):
            under, above = lower[j], lower[j] + 1
            under = under if 0 <= under < orientations else 0  # a full turn, or NaN
            above = above if 0 <= above < orientations else above % orientations
            maps[i, j, under] = low[j]
            maps[i, j, above] = high[j]
    return maps


@numba.njit(nogil=True, cache=True, inline="always", error_model="numpy")
def _angle(x, y):  # type: ignore[no-untyped-def]
    """atan2(y, x) in float32, without branches: the polynomial 4.4.49 of Abramowitz and Stegun, true to 2e-8."""
    a, b = abs(x), abs(y)
    longer, shorter = max(a, b), min(a, b)
    q = shorter / (longer if longer > 0 else np.float32(1))
    s = q * q
    p = np.float32(0.0028662257) * s - np.float32(0.0161657367)
    p = p * s + np.float32(0.0429096138)
    p = p * s - np.float32(0.0752896400)
    p = p * s + np.float32(0.1065626393)
    p = p * s - np.float32(0.1420889944)
    p = p * s + np.float32(0.1999355085)
    p = p * s - np.float32(0.3333314528)
    p = p * s * q + q
    p = np.float32(math.pi / 2) - p if b > a else p
    p = np.float32(math.pi) - p if x < 0 else p
    return -p if y < 0 else p


@numba.njit(nogil=True, cache=True)
def mean_votes(planes, scale, dx, dy, votes, means):  # type: ignore[no-untyped-def]
    """Fill ``means`` with ``orientation_histograms`` / pixels per cell; see ``prepared`` and ``votes_of_cells``."""
    trilinear, signed, cell, row_shares, column_shares, (rows, columns), (cosines, sines) = votes
    differences(planes, scale, dx, dy)
    sums = np.zeros(means.shape)  # float64, as there
    if trilinear:
        share_votes(dx, dy, signed, *row_shares, *column_shares, sums)  # type: ignore[call-arg]
    else:
        vote(dx, dy, rows, columns, cosines, sines, signed, sums)
    means[:] = sums / (cell * cell)


@numba.njit(nogil=True, cache=True)
def describe_each(planes, scale, dx, dy, votes, cells, norm, blocks):  # type: ignore[no-untyped-def]
    """Describe several images in one call that releases the GIL."""
    for i in range(len(planes)):
        mean_votes(planes[i], scale, dx, dy, votes, cells)
        normalise(cells, norm, blocks[i])


@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})  # lets the sums use SIMD
def normalise(cells, norm, blocks):  # type: ignore[no-untyped-def]
    e = np.float32(1e-5)
    rows, columns, side, _, orientations = blocks.shape
    for r in range(rows):
        for c in range(columns):
            block = blocks[r, c].reshape(side * side * orientations)
            total = np.float32(0)
            for i in range(side):
                for j in range(side):
                    for o in range(orientations):
                        v = cells[r + i, c + j, o]
                        block[(i * side + j) * orientations + o] = v
                        total += v * v if norm < 2 else v
            if norm < 2:
                block /= np.sqrt(total + e * e)
            else:
                block /= total + e
            if norm == 0:
                total = np.float32(0)
                for k in range(len(block)):
                    block[k] = min(block[k], np.float32(0.2))
                    total += block[k] * block[k]
                block /= np.sqrt(total + e * e)
            elif norm == 3:
                for k in range(len(block)):
                    block[k] = np.sqrt(block[k])
