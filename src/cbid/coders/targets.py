"""What a coder is asked to learn, checked: class labels, sets of labels, trees of labels, triplets, graded pairs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d

from cbid.label_trees import LabelTree, parse_tree
from cbid.labels import are_label_sets, encode_label_sets, encode_partial_labels, is_list_of_objects, single_labels

__all__ = ["Labels", "Level", "check_classes", "check_indices_of", "check_pairs", "level_ends", "read_labels"]

# Bits of a coarse level of a tree, for each of its nodes and at least; and at most this share of the code.
_BITS_PER_NODE, _LEAST_BITS, _MOST_SHARE = 1.0, 16, 0.5


@dataclass(frozen=True)
class Level:
    """A level of a tree above the classes: the node of each class (k,), the number of nodes."""

    nodes: NDArray[np.int64]
    n_nodes: int


@dataclass(frozen=True)
class Labels:
    """Labels of n samples.

    classes : (k,)
    numbers : (n,) class number of each sample, -1 without a label; with several labels, number of its set of labels
    sets : (n, k) of 0 and 1 if samples have several labels, else None
    tree : the tree over the classes, or None
    shared : (k, k) share of the tree's levels on which two classes are in one node, or None
    coarser : levels of the tree above the classes that ask a question of their own, coarse to fine
    asked : for each level of the tree the place in ``coarser`` that answers it; len(coarser) for the classes
    """

    classes: NDArray[Any]
    numbers: NDArray[np.int64]
    sets: csr_matrix | None = None
    tree: LabelTree | None = None
    shared: NDArray[np.float64] | None = None
    coarser: Sequence[Level] = ()
    asked: Sequence[int] = field(default=())


def read_labels(y: Any, n: int, missing_label: Any = None, tree: Any = None) -> Labels:
    """Return the labels of n samples from what ``fit`` was given, y=None included."""
    if y is None:
        if tree is not None:
            raise ValueError(f"tree={tree!r}: expected labels y, which are missing")
        return Labels(np.empty(0), np.full(n, -1, dtype=np.int64))
    if getattr(y, "ndim", 1) > 2:
        raise ValueError(
            f"y has shape {y.shape}: expected a label for each sample, or a matrix (n, labels) of 0 and 1"
        )
    if are_label_sets(y):
        return _read_sets(y, n, tree)
    if not is_list_of_objects(y) and not isinstance(y, np.ma.MaskedArray):
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f":
            assert_all_finite(y[~np.isnan(y)], input_name="y")
    check_consistent_length(np.empty(n), y)
    classes, numbers = encode_partial_labels(y, missing_label)
    return _with_tree(Labels(classes, numbers), tree)


def _read_sets(Y: Any, n: int, tree: Any) -> Labels:
    classes, matrix = encode_label_sets(Y)
    if matrix.shape[0] != n:
        raise ValueError(f"Y has {matrix.shape[0]:,} rows: expected {n:,}, one for each sample of X")
    empty = int((np.diff(matrix.indptr) == 0).sum())
    if empty:
        warnings.warn(f"{empty:,} of {n:,} samples have no label in Y and are learned as unlabelled", stacklevel=5)
    numbers = single_labels(matrix)
    if numbers is not None:
        return _with_tree(Labels(classes, numbers), tree)
    if tree is not None:
        raise ValueError(f"tree={tree!r}: expected None with several labels per sample")
    # Samples with the same labels have the same number.
    kinds: dict[bytes, int] = {}
    cuts = zip(matrix.indptr, matrix.indptr[1:])
    sets = [matrix.indices[start:stop].tobytes() for start, stop in cuts]
    numbers = np.array([kinds.setdefault(s, len(kinds)) if s else -1 for s in sets], dtype=np.int64)
    if len(kinds) < 2:
        raise ValueError("Y has the same labels for all samples: expected at least two different sets of labels")
    if np.bincount(matrix.indices).max() < 2:
        raise ValueError("Y has no label that two samples share: expected samples that belong together")
    return Labels(classes, numbers, sets=matrix)


def _with_tree(labels: Labels, tree: Any) -> Labels:
    if tree is None:
        return labels
    if not len(labels.classes):
        raise ValueError(f"tree={tree!r}: expected labels y, which are missing")
    parsed = parse_tree(tree, labels.classes.tolist())
    nodes, places = parsed.levels(labels.classes.tolist())
    coarser: list[Level] = []
    asked = []
    for names, below, place in zip(nodes[:-1], nodes[1:], places[:-1]):
        asked.append(len(coarser))  # a level of one node, or that the next one does not split, is answered with it
        if 1 < len(names) < len(below):
            coarser.append(Level(place, len(names)))
    shared = parsed.shared_levels(labels.classes.tolist()) / len(nodes)
    return Labels(labels.classes, labels.numbers, None, parsed, shared, coarser, [*asked, len(coarser)])


def level_ends(n_bits: int, coarser: Sequence[Level]) -> list[int]:
    """Return the number of class bits after which the bits of each coarser level end, out of ``n_bits``."""
    wanted = np.cumsum([max(_LEAST_BITS, _BITS_PER_NODE * level.n_nodes) for level in coarser])
    most = _MOST_SHARE * n_bits
    scale = min(1.0, most / wanted[-1]) if len(wanted) else 1.0
    return [max(place, int(end * scale)) for place, end in enumerate(wanted, 1)]


def check_classes(classes: NDArray[Any], numbers: NDArray[np.integer]) -> None:
    """Raise unless there are at least two classes, with two members each."""
    if len(classes) < 2:
        raise ValueError(f"y has one class ({classes.tolist()[0]!r}); learning needs at least two")
    alone = classes[np.bincount(numbers) == 1]
    if len(alone):
        names = ", ".join(repr(name) for name in alone[:5].tolist()) + (", ..." if len(alone) > 5 else "")
        raise ValueError(f"y has classes with one member, which have no hit: {names}; at least two are needed each")


def check_indices_of(n: int, what: str, **indices: ArrayLike) -> list[NDArray[np.int64]]:
    """Return arrays of row numbers of X (n, d), all of the same length; ``what`` they are parts of."""
    checked = []
    for name, given in indices.items():
        index = np.asarray(given)
        if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
            raise ValueError(f"{name} has shape {index.shape} and dtype {index.dtype}; give row numbers of X, (m,)")
        if index.min() < 0 or index.max() >= n:
            raise ValueError(f"{name} holds {index.min()}..{index.max()}; X has rows 0..{n - 1}")
        checked.append(index.astype(np.int64))
    lengths = {name: len(index) for name, index in zip(indices, checked)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{what} need as many {', '.join(lengths)}, not {lengths}")
    return checked


def check_pairs(
    n: int, left: ArrayLike, right: ArrayLike, similarity: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return pairs of different rows of X, each once, and their similarity in [0, 1]."""
    a, b = check_indices_of(n, "pairs", left=left, right=right)
    grades = np.asarray(similarity)
    if grades.shape != a.shape or grades.dtype.kind not in "biuf":
        raise ValueError(
            f"similarity has shape {grades.shape} and dtype {grades.dtype}: expected {len(a):,} numbers from 0 to 1, "
            "one for each pair"
        )
    grades = grades.astype(np.float64)
    wrong = np.flatnonzero(~((grades >= 0) & (grades <= 1)))
    if len(wrong):
        raise ValueError(f"similarity[{wrong[0]}]={grades[wrong[0]]:g}: expected a number from 0 to 1")
    alone = np.flatnonzero(a == b)
    if len(alone):
        raise ValueError(f"pair {alone[0]} is of sample {a[alone[0]]} with itself: expected two different samples")
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((grades, high, low))
    low, high, grades = low[order], high[order], grades[order]
    again = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    split = np.flatnonzero(again & (grades[1:] != grades[:-1]))
    if len(split):
        i = split[0]
        raise ValueError(
            f"similarity contradicts itself: samples {low[i]} and {high[i]} have {grades[i]:g} and "
            f"{grades[i + 1]:g}: expected one value for a pair"
        )
    first = np.concatenate([[True], ~again])
    low, high, grades = low[first], high[first], grades[first]
    if grades.min() == grades.max():
        raise ValueError(f"similarity is {grades[0]:g} for all pairs: expected at least two different values")
    return low, high, grades
