"""Neighbours of patches, rows over the bags they come from, and bits for noisy rows (docs/method.md, section 8)."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cbid.learning.bits import Bit, TakenBits
from cbid.learning.graph import Graph
from cbid.learning.likeness import fit_rotation
from cbid.learning.neighbourhoods import Neighbourhoods, nearest_members
from cbid.learning.rows import Rows
from cbid.learning.sides import BagSides, PairSides
from cbid.threads import faiss_threads

__all__ = [
    "RotatedBits",
    "cut_into_bags",
    "find_patch_neighbourhoods",
    "rows_from_bags",
]

Indices = NDArray[np.int32]


def find_patch_neighbourhoods(
    X: NDArray[np.float32],
    y: NDArray[np.integer],
    image: NDArray[np.integer],
    *,
    n_classes: int,
    n_hits: int,
    n_misses: int,
    max_rows: int,
    rng: np.random.Generator,
    n_threads: int = 1,
    together: bool = False,
) -> Neighbourhoods:
    """Nearest hits and misses of patches X (n, d) that belong to classes y (n,) and images (n,).

    Hits are patches of the same class in *another* image: those of its own image overlap the patch, and say nothing
    of the class. So patches of a class with one image have no hits; they are misses of others, and no anchors. When
    more than ``max_rows`` comparisons of a patch with another class are possible, a random part of them is kept.

    ``together``: misses are the nearest patches of all other classes together, as in Eq. 2 of the paper. A patch then
    has one comparison, and ``others`` holds its own class, since its misses may be of several.
    """
    hits = np.full((len(y), n_hits), -1, dtype=np.int32)
    members = [np.flatnonzero(y == r).astype(np.int32) for r in range(n_classes)]
    with_hits = [r for r in range(n_classes) if len(np.unique(image[members[r]])) > 1]
    if together:
        anchors = np.flatnonzero(np.isin(y, with_hits)).astype(np.int32)
        if len(anchors) > max_rows:
            anchors = np.sort(rng.choice(anchors, size=max_rows, replace=False))
        others = y[anchors].astype(np.int32)
    else:
        anchors, others = _comparisons(y, members, with_hits, max_rows, rng)
    asked = np.zeros(len(y), dtype=bool)
    asked[anchors] = True
    misses = np.full((len(anchors), n_misses), -1, dtype=np.int32)
    with faiss_threads(n_threads):
        for r in range(n_classes):
            if len(members[r]) == 0:
                continue
            rows = np.flatnonzero(others == r)
            if len(rows):
                among = np.flatnonzero(y != r).astype(np.int32) if together else members[r]
                misses[rows] = nearest_members(X, anchors[rows], among, n_misses)
            own = members[r][asked[members[r]]]
            for i in np.unique(image[own]):
                here = own[image[own] == i]
                hits[here] = nearest_members(X, here, members[r][image[members[r]] != i], n_hits)
    return Neighbourhoods(hits, anchors, others, misses)


def _comparisons(
    y: NDArray[np.integer], members: list[Indices], with_hits: list[int], max_rows: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Every patch that has hits with every other class that has patches, or so many of these at random."""
    anchors = np.flatnonzero(np.isin(y, with_hits)).astype(np.int32)
    there = np.array([r for r, part in enumerate(members) if len(part)], dtype=np.int32)
    anchor, other = np.repeat(anchors, len(there)), np.tile(there, len(anchors))
    kept = np.flatnonzero(y[anchor] != other)
    if len(kept) > max_rows:
        kept = np.sort(rng.choice(kept, size=max_rows, replace=False))
    return anchor[kept], other[kept]


def cut_into_bags(image: NDArray[np.integer], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The bag of every patch, (n,): each image's patches, shuffled, cut into bags of ``size`` (or less, the last)."""
    order = rng.permutation(len(image))
    order = order[np.argsort(image[order], kind="stable")]  # images in order, their patches shuffled
    ordered = image[order]
    place = np.arange(len(image)) - np.searchsorted(ordered, ordered)  # inside the image
    starts = place % size == 0
    bag = np.empty(len(image), dtype=np.int64)
    bag[order] = np.cumsum(starts) - 1
    return bag


def rows_from_bags(
    near: Neighbourhoods, y: NDArray[np.integer], bag: NDArray[np.integer], *, n_classes: int, total: bool = False
) -> Rows:
    """A row per (bag, other class): both sides are means over the patches of the bag that are compared with it.

    bag : (n,) the bag of every patch; the patches of a bag are of one class
    total : sums instead of means
    """
    n = len(y)
    keys, row = np.unique(bag[near.anchors].astype(np.int64) * n_classes + near.others, return_inverse=True)
    hits = BagSides(PairSides(near.anchors, near.hits[near.anchors], n), row.astype(np.int32), total=total)
    misses = BagSides(PairSides(near.anchors, near.misses, n), row.astype(np.int32), total=total)
    own = np.empty(len(keys), dtype=np.int32)
    own[row] = y[near.anchors]
    side = np.arange(len(keys), dtype=np.int32)
    return Rows(
        hits, misses, hit=side, miss=side, own=own, other=(keys % n_classes).astype(np.int32), n_classes=n_classes
    )


# Turns of a rotation, the samples it is fitted on for each axis, and how many rotations are tried for one bit.
_TURNS, _SAMPLES_PER_AXIS, _MOST_ROTATIONS = 50, 200, 8
# Two directions that differ in less than this share of the samples are the same bit.
_SAME = 0.01


class RotatedBits:
    """Bits that are directions of rotations of the leading axes, as in iterative quantisation, rotation by rotation.

    Rows of patches are noisy: a hyperplane that is fitted to them follows the noise. Directions of a rotation are
    balanced and decorrelated whatever the rows say; the rows choose their order and their weights. With as many bits
    as axes the code is the rotation itself; further bits come from further rotations, from other random starts.

    Parameters
    ----------
    Z : (n, d) float32
        Features in the order of their variance.
    n_axes : int
        How many of them are rotated.
    seed : int
        Each rotation draws from its own generator, so a bit depends on its number alone.
    """

    def __init__(self, Z: NDArray[np.float32], *, n_axes: int, seed: int) -> None:
        self.Z, self.n_axes, self.seed = Z[:, :n_axes], min(n_axes, Z.shape[1]), seed
        self.width = Z.shape[1]
        self._rotation = -1, 0
        self._R = np.empty((self.n_axes, 0))
        self._H = np.empty((len(Z), 0), np.float32)

    def best(self, graphs: Iterable[Graph], taken: TakenBits, rng: np.random.Generator) -> Bit | None:
        """Return the free direction of the present rotation that the rows ask for most; None if none is left."""
        first = len(taken) // self.n_axes
        for number in range(first, first + 2 * _MOST_ROTATIONS):
            # With few axes all rotations end as the same one: random directions follow then.
            self._turn_to(number, _TURNS if number < first + _MOST_ROTATIONS else 0)
            free = [
                c
                for c in range(self.n_axes)
                if not taken.holds(self._H[:, c]) and taken.nearest(self._H[:, c]) > _SAME * len(self.Z)
            ]
            if free:
                break
        else:
            return None
        graph = next(iter(graphs))  # one weight vector serves all classes
        H = self._H[:, free]
        worth = np.einsum("ij,ij->j", H, graph.laplacian_times(H), dtype=np.float64) / 2
        column = free[int(worth.argmax())]
        beta = np.zeros(self.width)
        beta[: self.n_axes] = self._R[:, column]
        return Bit(beta, 0.0, self._H[:, column], float(worth.max()))

    def _turn_to(self, number: int, n_iter: int) -> None:
        if (number, n_iter) == self._rotation:
            return
        rng = np.random.default_rng([self.seed, 2**20 + number])
        size = min(len(self.Z), _SAMPLES_PER_AXIS * self.n_axes)
        sample = self.Z[np.sort(rng.choice(len(self.Z), size, replace=False))].astype(np.float64)
        self._R = fit_rotation(sample, self.n_axes, n_iter=n_iter, rng=rng)
        self._H = np.where(self.Z @ self._R.astype(np.float32) >= 0, np.float32(1), np.float32(-1))
        self._rotation = number, n_iter
