"""Nearest hits and nearest misses of every sample (docs/method.md, section 2).

Members are found class by class, so the largest array is (anchors, n_misses) per class and no n x n matrix is
ever formed. faiss finds a shortlist, which is ranked again by direct differences: the formula of fast searches,
||x||^2 + ||y||^2 - 2 x.y, loses the small distances of tight classes.
"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbid.threads import faiss_threads

__all__ = ["Neighbourhoods", "find_neighbourhoods", "nearest_members", "of_unit_size", "squared_distances"]

Indices = NDArray[np.int32]


@dataclass(frozen=True)
class Neighbourhoods:
    """Hits and misses as sample numbers; -1 fills the place of a member that a small class lacks.

    hits : (n, n_hits), row i holds H_i
    anchors, others : (m,), row j is about sample ``anchors[j]`` and class ``others[j]``
    misses : (m, n_misses), row j holds M_(anchors[j], others[j])
    """

    hits: Indices
    anchors: Indices
    others: Indices
    misses: Indices


def find_neighbourhoods(
    X: NDArray[np.float32],
    y: NDArray[np.integer],
    *,
    n_hits: int,
    n_misses: int,
    hits: str,
    misses: str,
    max_rows: int,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> Neighbourhoods:
    """Hits and misses of all samples; labels y are 0..k-1.

    ``hits`` and ``misses`` say how members are chosen inside a class: "nearest" in X, or "class" for a random
    draw. ``misses`` "overall" are the nearest of all other classes together, the same for every class r: the other
    reading of the paper's "25 triplets per image". When n (k - 1) exceeds ``max_rows`` a random
    part of the (sample, other class) combinations is kept.
    """
    n, k = len(y), int(y.max()) + 1
    classes = [np.flatnonzero(y == r).astype(np.int32) for r in range(k)]
    _warn_small_classes(classes, n_hits, n_misses)
    choose_hits = _choosers(X, rng)[hits]
    overall = _overall_misses(X, y, classes, n_misses, n_threads) if misses == "overall" else None
    choose_misses = _choosers(X, rng)["nearest" if misses == "overall" else misses]
    share = min(1.0, max_rows / (n * (k - 1)))

    found_hits = np.full((n, n_hits), -1, dtype=np.int32)
    anchors, others, found_misses = [], [], []
    with faiss_threads(n_threads) if "nearest" in (hits, misses) else nullcontext():
        for r, members in enumerate(classes):
            found_hits[members] = choose_hits(members, members, n_hits, True)
            rest = np.flatnonzero(y != r).astype(np.int32)
            if share < 1:
                rest = np.sort(rng.choice(rest, size=max(1, round(share * len(rest))), replace=False))
            anchors.append(rest)
            others.append(np.full(len(rest), r, dtype=np.int32))
            found_misses.append(choose_misses(rest, members, n_misses, False) if overall is None else overall[rest])
    return Neighbourhoods(found_hits, np.concatenate(anchors), np.concatenate(others), np.concatenate(found_misses))


def _overall_misses(
    X: NDArray[np.float32], y: NDArray[np.integer], classes: list[Indices], count: int, n_threads: int
) -> Indices:
    """Return the nearest samples of any other class, (n, count)."""
    found = np.full((len(y), count), -1, dtype=np.int32)
    with faiss_threads(n_threads):
        for r, members in enumerate(classes):
            others = np.flatnonzero(y != r).astype(np.int32)
            found[members] = nearest_members(X, members, others, count)
    return found


def _warn_small_classes(classes: list[Indices], n_hits: int, n_misses: int) -> None:
    need = max(n_hits + 1, n_misses)
    small = sum(len(members) < need for members in classes)
    if small:
        warnings.warn(
            f"{small} of {len(classes)} classes have fewer than {need} members, as n_hits={n_hits} and "
            f"n_misses={n_misses} ask for; they use all they have",
            stacklevel=2,
        )


Chooser = Callable[[Indices, Indices, int, bool], Indices]


def _choosers(X: NDArray[np.float32], rng: np.random.Generator) -> dict[str, Chooser]:
    """The ways to choose, for each of ``anchors``, ``count`` of ``members``; ``inside`` leaves out itself."""

    def nearest(anchors: Indices, members: Indices, count: int, inside: bool) -> Indices:
        return nearest_members(X, anchors, members, count, inside=inside)

    def at_random(anchors: Indices, members: Indices, count: int, inside: bool) -> Indices:
        pool = len(members) - inside
        places = _distinct(len(anchors), pool, min(count, pool), rng)
        if inside:
            # Numbers 0..pool-1 stand for the others: step over the anchor's own place.
            own = np.searchsorted(members, anchors)
            places += places >= own[:, None]
        return _pad(members[places], count)

    return {"nearest": nearest, "class": at_random}


def nearest_members(
    X: NDArray[np.float32], anchors: Indices, members: Indices, count: int, *, inside: bool = False
) -> Indices:
    """For each of ``anchors`` the ``count`` nearest ``members`` (ascending), all rows of X; -1 where there are fewer.

    ``inside``: anchors are members themselves, and no sample is its own neighbour.
    """
    import faiss  # slow to import, and whole classes or random draws do without

    centre = X[members].mean(axis=0)  # around which a tight class has its digits
    ask = min(2 * count + inside, len(members))
    # faiss keeps the smaller number among equal distances, and members are in ascending order.
    found = members[faiss.knn(X[anchors] - centre, X[members] - centre, ask)[1]]
    distances = squared_distances(X, anchors, found)
    if inside:
        distances[found == anchors[:, None]] = np.inf  # the sample itself goes last, and is cut off
    order = np.lexsort((found, distances), axis=1)[:, : min(count, len(members) - inside)]
    return _pad(np.take_along_axis(found, order, axis=1), count)


def of_unit_size(X: NDArray[np.floating]) -> NDArray[np.float32]:
    """X moved to its mean and divided by one number, so that no distance overflows in float32; order is unchanged."""
    centred = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    size = float(np.abs(centred).max()) or 1.0
    return np.ascontiguousarray(centred / X.dtype.type(size), dtype=np.float32)


def squared_distances(X: NDArray[np.float32], anchors: Indices, found: Indices) -> NDArray[np.float64]:
    """Squared distances of each anchor to its found samples, by differences, a slice of anchors at a time."""
    distances = np.empty(found.shape)
    step = max(1, 2**24 // (found.shape[1] * X.shape[1]))
    for start in range(0, len(anchors), step):
        part = slice(start, start + step)
        difference = X[anchors[part], None, :] - X[found[part]]
        distances[part] = np.einsum("ijk,ijk->ij", difference, difference, dtype=np.float64)
    return distances


def _pad(found: Indices, width: int) -> Indices:
    return np.pad(found, ((0, 0), (0, width - found.shape[1])), constant_values=-1).astype(np.int32)


def _distinct(rows: int, pool: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each row, ``count`` distinct numbers below ``pool``."""
    if pool <= 4 * count:
        return np.argsort(rng.random((rows, pool)), axis=1)[:, :count]
    drawn = rng.integers(pool, size=(rows, count))
    again = np.arange(rows)
    while len(again):  # a row repeats a number with probability below one half, so this ends soon
        ordered = np.sort(drawn[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        drawn[again] = rng.integers(pool, size=(len(again), count))
    return drawn
