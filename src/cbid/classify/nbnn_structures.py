"""The structures of an NBNN classifier, from its settings."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.classify.class_distances import ByClass, ByPartition, ClassDistances, Local
from cbid.classify.flat import FlatSearch, far_centre
from cbid.classify.heads import head_axes
from cbid.classify.lsh import LSHSearch
from cbid.classify.patch_search import CodeSearch, Floats, KDTreeSearch, PatchSearch
from cbid.search.partition import Partition

__all__ = ["class_distances"]

Rows = NDArray[Any]
Weights = NDArray[np.floating] | None


def class_distances(
    parts: list[Rows], classes: NDArray[Any], params: dict[str, Any], coder: Any, seed: int
) -> ClassDistances:
    """How the distances from patches to classes are found, given the rows of each class."""
    weights = _bit_weights(coder, params["weighted"], classes.tolist())
    axes = head_axes(parts) if coder is None and params["search"] in ("exact", "lsh") else None
    flat = coder is None and axes is None and params["search"] in ("exact", "pca")
    centre = far_centre(parts) if flat else None
    if params["local"]:
        if weights is not None and weights.ndim == 2:
            raise ValueError("local=True has one metric for all classes; the coder has weights for each class")
        of_row = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        structure = _structure(np.concatenate(parts), weights, params, coder, seed, axes, centre)
        return Local(structure, of_row, len(parts), params["n_neighbors"])
    if coder is not None:
        return ByPartition(Partition(parts, coder.n_bits_, weights))
    return ByClass([_structure(part, None, params, None, seed, axes, centre) for part in parts])


def _structure(
    rows: Rows,
    weights: Weights,
    params: dict[str, Any],
    coder: Any,
    seed: int,
    axes: Floats | None,
    centre: Floats | None,
) -> PatchSearch:
    if coder is not None:
        return CodeSearch(rows, n_bits=coder.n_bits_, weights=weights)
    if params["search"] == "kd-tree":
        return KDTreeSearch(rows, checks=params["checks"], n_trees=params["n_trees"], seed=seed)
    if params["search"] == "lsh":
        settings = {name: params[name] for name in ("n_tables", "n_functions", "bin_width")}
        return LSHSearch(rows, **settings, seed=seed, axes=axes)
    return FlatSearch(rows, axes, centre)


def _bit_weights(coder: Any, weighted: bool | None, classes: list[Any]) -> Weights:
    """None for plain Hamming, (t,), or (t, n_classes) in the order of ``classes``."""
    weights = None if weighted is False else getattr(coder, "weights_", None)
    if weights is None:
        if weighted:
            raise ValueError(f"weighted=True, but {type(coder).__name__} has no weights_")
        return None
    weights = np.asarray(weights)
    if weights.ndim == 1:
        return weights
    column = {label: c for c, label in enumerate(coder.classes_.tolist())}
    unknown = [label for label in classes if label not in column]
    if unknown:
        raise ValueError(f"the coder has weights for each class it was fitted on; {unknown[0]!r} is none of them")
    return weights[:, [column[label] for label in classes]]
