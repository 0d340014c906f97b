"""What codes do with the stored images: predictions, near-duplicates, the meaning of a bit, decisive parts."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cbid.checks import check_integer, check_share
from cbid.codes import unpack
from cbid.data.images import as_rgb, resize_longest, to_uint8
from cbid.project.evaluating import predict, sample_queries
from cbid.project.snapshot import Snapshot
from cbid.project.table import LABEL_SEPARATOR

MAX_PAIRS = 1_000_000  # near-duplicates held in memory
_SIDE = 224  # longer side in pixels of a picture whose parts are hidden
MAX_GRID = 12  # parts along each side
_GRIDS = (MAX_GRID, 10, 8, 7, 6, 5, 4)  # the finest that fits into the time
_FEWEST_PARTS = 16  # hidden also if the time has run out


class Predictions(NamedTuple):
    """Held-out images, their labels and the classes that the training images vote for ("": no vote), all (n,)."""

    ids: NDArray[np.int64]
    labels: NDArray[np.str_]
    predicted: NDArray[np.str_]


class BitClasses(NamedTuple):
    """For each class: its name, the number of its images, and the number of those whose bit is 1."""

    classes: list[str]
    images: NDArray[np.int64]
    ones: NDArray[np.int64]


class Occlusion(NamedTuple):
    """What hiding each part of a picture does to its bits.

    heat : (g, g) from 0 to 1: the share of the weight of the bits, by how far each moves to its threshold
    flipped : (g, g) the number of bits that change
    n_bits : the number of bits considered
    """

    heat: NDArray[np.float64]
    flipped: NDArray[np.int64]
    n_bits: int


def predictions(snapshot: Snapshot, train: NDArray[np.int64], held: NDArray[np.int64]) -> Predictions:
    """Return what the evaluation of the fit predicts for the held-out images, with the current labels."""
    stored = snapshot.stored()
    held = sample_queries(held, snapshot.manifest.settings.get("seed", 0))
    held = held[stored.labels[np.searchsorted(stored.ids, held)] != ""]
    labels = stored.labels[np.searchsorted(stored.ids, held)]
    if not len(held) or not len(train):
        empty = np.empty(0, dtype="<U1")
        return Predictions(np.empty(0, dtype=np.int64), empty, empty)
    vectors = snapshot.vectors(stored.ids)
    names = stored.labels[np.searchsorted(stored.ids, train)]
    predicted = predict(
        (vectors[held], snapshot.index.reconstruct(held), labels),
        (vectors[train], snapshot.index.reconstruct(train), names),
        n_bits=snapshot.n_bits,
        weights=snapshot.weights(snapshot.n_bits, "weighted"),
    )
    shown = [np.char.replace(names, LABEL_SEPARATOR, ", ") for names in (labels, predicted)]
    return Predictions(held, shown[0], shown[1])


def duplicates(snapshot: Snapshot, radius: int, similarity: float) -> list[tuple[list[int], float]]:
    """Return groups of ids that are connected by near pairs, each with the similarity of its least similar pair.

    A pair is near if its codes differ in at most ``radius`` bits and its raw vectors have at least this similarity:
    1 less their distance divided by the sum of their norms. The most similar groups come first.
    """
    check_integer("radius", radius, 0, snapshot.n_bits)
    check_share("similarity", similarity)
    pairs = snapshot.index.pairs(radius, weighted=False, limit=MAX_PAIRS)
    if not len(pairs):
        return []
    vectors = snapshot.vectors(np.array([pairs.right.max()]))
    alike = np.empty(len(pairs))
    for start in range(0, len(pairs), 4096):
        part = slice(start, start + 4096)
        a, b = (vectors[ids[part]].astype(np.float64) for ids in (pairs.left, pairs.right))
        norms = np.linalg.norm(a, axis=1) + np.linalg.norm(b, axis=1)
        alike[part] = 1 - np.linalg.norm(a - b, axis=1) / np.maximum(norms, 1e-300)
    near = alike >= similarity
    left, right, alike = pairs.left[near], pairs.right[near], alike[near]
    ids, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    links = coo_array((np.ones(len(left)), (places[: len(left)], places[len(left) :])), shape=(len(ids), len(ids)))
    group = connected_components(links, directed=False)[1]
    least = np.ones(group.max(initial=-1) + 1)
    np.minimum.at(least, group[places[: len(left)]], alike)
    order = np.argsort(group, kind="stable")
    members = np.split(ids[order], np.flatnonzero(np.diff(group[order])) + 1) if len(ids) else []
    found = [(one.tolist(), float(value)) for one, value in zip(members, least)]
    return sorted(found, key=lambda entry: (-entry[1], entry[0]))


def bit_classes(snapshot: Snapshot, s: int) -> BitClasses:
    """Return how many images of each class have the value 1 in bit s, over all stored images with a label."""
    check_integer("s", s, 0, snapshot.n_bits - 1)
    stored = snapshot.stored()
    column = (snapshot.index.reconstruct(stored.ids)[:, s // 8] >> (7 - s % 8)) & 1
    texts, places = np.unique(stored.labels, return_inverse=True)
    members = stored.members(texts.tolist())  # an image counts for each of its labels
    counts = [np.bincount(places, weights, minlength=len(texts)) @ members for weights in (None, column)]
    images, ones = (count.astype(np.int64) for count in counts)
    return BitClasses(list(stored.classes), images, ones)


def occlude(
    snapshot: Snapshot,
    describe: Callable[[NDArray[Any]], NDArray[np.float32]],
    image: NDArray[Any],
    other: NDArray[np.uint8],
    weights: NDArray[np.float64],
    *,
    own: NDArray[np.uint8] | None = None,
    grid: int | None = None,
    seconds: float = 4.0,
) -> Occlusion:
    """Hide the parts of a picture one after the other, and see what happens to the bits it shares with another code.

    Each part of a grid is replaced by the mean colour of the picture, and the picture is described again. A bit whose
    value falls from z to z' counts 1 - z'/z, between 0 (unchanged or stronger) and 1 (it changes), times its weight.

    Parameters
    ----------
    snapshot : Snapshot
    describe : function of an image, returns its vector (d,)
    image : array (h, w) or (h, w, 3)
    other : array (b,) uint8
        The code of the other image.
    weights : array (n_bits,)
        Weights of the bits; those with weight 0 are not considered.
    own : array (b,) uint8 or None, default=None
        The code of the picture, if it is known; the picture may be a thumbnail, whose bits can differ from it.
    grid : int or None, default=None
        Parts along each side; None chooses the finest grid that fits into the time.
    seconds : float, default=4
        Time to spend. If it runs out on the way, the parts that are left have the values of the nearest part that was
        hidden.
    """
    picture = resize_longest(as_rgb(to_uint8(image)), _SIDE)
    whole = describe(picture)  # the first call may have to load a network
    begun = time.perf_counter()
    if grid is None:
        describe(picture)
        n_parts = seconds / max(time.perf_counter() - begun, 1e-4)
        grid = next((g for g in _GRIDS if g * g <= n_parts), _GRIDS[-1])
    check_integer("grid", grid, 1, MAX_GRID)
    values = snapshot.coder.project(whole[None])[0].astype(np.float64)
    bits = snapshot.coder.project(describe(image)[None])[0] >= 0 if own is None else unpack(own, snapshot.n_bits) > 0
    shared = (bits == (unpack(other, snapshot.n_bits) > 0)) & (bits == (values >= 0)) & (weights > 0)
    fill = picture.reshape(-1, 3).mean(axis=0).astype(np.uint8)
    rows, columns = (np.linspace(0, side, grid + 1).astype(int) for side in picture.shape[:2])
    hidden, parts = [], _spread(grid)
    for place, (i, j) in enumerate(parts):
        if place >= _FEWEST_PARTS and time.perf_counter() - begun > seconds:
            break
        changed = picture.copy()
        changed[rows[i] : rows[i + 1], columns[j] : columns[j + 1]] = fill
        hidden.append(describe(changed))
    apart = np.linalg.norm(parts[:, None] - parts[: len(hidden)], axis=2)
    nearest = np.empty((grid, grid), dtype=np.int64)
    nearest[tuple(parts.T)] = apart.argmin(axis=1)
    moved = snapshot.coder.project(np.stack(hidden)).astype(np.float64)[:, shared]
    before, weight = values[shared], weights[shared]
    ratio = moved / np.where(before == 0, 1e-300, before)
    heat = np.clip(1 - ratio, 0, 1) @ weight / max(weight.sum(), 1e-300)
    flipped = ((moved >= 0) != (before >= 0)).sum(axis=1)
    return Occlusion(heat[nearest], flipped[nearest], int(shared.sum()))


def _spread(grid: int) -> NDArray[np.int64]:
    """Return the rows and columns (grid * grid, 2) of all parts, in an order whose beginnings are spread evenly."""
    i, j = np.indices((grid, grid)).reshape(2, -1)
    sparse = [(i + j) % 2, i % 2 + j % 2, i % 4 + j % 4]
    return np.stack([i, j], axis=1)[np.lexsort([part > 0 for part in sparse])]
