"""The methods of the comparison, each with the settings it may choose from.

Every method has at most four settings, its paper's or its defaults first, and picks one on the validation split of
the data set, at 32 bits. ``gamma`` is given in units of 1 / (total variance of X), and translated.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks import searchers
from cbid import coders

MOST_SETTINGS = 4


@dataclass(frozen=True)
class Method:
    """make: a coder class, or a searcher of benchmarks/searchers.py. fixed: settings that are not chosen. only: a
    further setting for one data set. weighted: its paper ranks by the weighted Hamming distance."""

    family: str
    make: Callable[..., Any]
    settings: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    fixed: dict[str, Any] = field(default_factory=dict)
    only: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: int = 5
    weighted: bool = False

    def settings_for(self, data: str) -> list[dict[str, Any]]:
        return [*self.settings, *(settings for name, settings in self.only.items() if name == data)]

    @property
    def searches(self) -> bool:
        return getattr(self.make, "__module__", "") == searchers.__name__


def _each(name: str, *values: Any) -> list[dict[str, Any]]:
    """The defaults, then other values of one setting."""
    return [{}, *({name: value} for value in values)]


OURS, TUNED, SUPERVISED, TRIVIAL = "C-BID", "C-BID, tuned", "supervised", "trivial"
UNSUPERVISED, INDEPENDENT, PRACTICE = "unsupervised", "data-independent", "today's practice"

METHODS: dict[str, Method] = {
    # Nothing set, and class bits alone: nothing is chosen for C-BID. Both rank by their learned weights.
    "C-BID": Method(OURS, coders.CBID, weighted=True),
    "C-BID, likeness=0": Method(OURS, coders.CBID, fixed={"likeness": 0}, weighted=True),
    # Settings chosen like those of rivals; no part of the comparison of what leads.
    "C-BID, RBF": Method(
        TUNED,
        coders.CBID,
        [{}, {"n_anchors": 2000}, {"ridge": 1e-2, "n_anchors": 2000}, {"smoothing": 1e-3, "n_anchors": 2000}],
        fixed={"likeness": 0, "kernel": "rbf", "whitening": 1e-4},  # the default at the time of the stored results
    ),
    "CCA-ITQ": Method(SUPERVISED, coders.CCAITQ, _each("reg", 1e-2, 1e-1, 1.0)),
    "KSH": Method(
        SUPERVISED,
        coders.KSH,
        [
            {},
            {"gamma": 1.0, "n_anchors": 1000},
            {"gamma": 1.0, "n_anchors": 2000},
            {"gamma": 6.0, "n_anchors": 2000},
        ],
    ),
    "SDH": Method(SUPERVISED, coders.SDH, _each("ridge", 1.0, 10.0, 100.0), fixed={"kernel": None}),
    "SDH, RBF": Method(
        SUPERVISED,
        coders.SDH,
        [
            {},
            {"n_anchors": 2000},
            {"gamma": 3.0, "n_anchors": 2000},
            {"gamma": 1.0, "ridge": 1e-3, "n_anchors": 2000},
        ],
    ),
    "COSDISH": Method(
        SUPERVISED,
        coders.COSDISH,
        [{}, {"ridge": 100.0}, {"n_columns": 300}, {"n_columns": 300, "ridge": 100.0}],
    ),
    "COSDISH, RBF": Method(
        SUPERVISED,
        coders.COSDISH,
        [
            {},
            {"ridge": 1e-2, "n_columns": 300},
            {"ridge": 1e-2, "n_columns": 300, "n_anchors": 2000},
            {"gamma": 1.0, "ridge": 1e-3, "n_columns": 300, "n_anchors": 2000},
        ],
        fixed={"kernel": "rbf"},
    ),
    # The best of its second round takes hours on the other sets.
    "FastHash": Method(
        SUPERVISED,
        coders.FastHash,
        _each("depth", 6),
        only={"fashion": {"depth": 6, "n_trees": 400, "n_sweeps": 5}},
    ),
    "PiCoDes": Method(SUPERVISED, coders.PiCoDes, [{}, {"C": 1e-2}], fixed={"n_iter": 3}),
    "LDA-sign": Method(SUPERVISED, coders.LDASign, _each("reg", 1e-2, 1e-1, 1.0)),
    "MC-bit": Method(SUPERVISED, coders.MCBit, _each("C", 0.1, 10.0, 100.0)),
    "argmax of a linear SVM": Method(TRIVIAL, coders.ArgmaxCode, _each("C", 0.1, 10.0, 100.0)),
    "LSH of its scores": Method(TRIVIAL, coders.ScoreLSH, _each("C", 0.1, 10.0, 100.0)),
    "LSI": Method(UNSUPERVISED, coders.LSI, _each("threshold", "zero")),
    "PCA-sign": Method(UNSUPERVISED, coders.PCASign),
    "ITQ": Method(UNSUPERVISED, coders.ITQ),
    "spectral hashing": Method(UNSUPERVISED, coders.SpectralHashing),
    "multidimensional spectral hashing": Method(
        UNSUPERVISED, coders.MultidimensionalSpectralHashing, _each("outer", True), weighted=True
    ),
    "anchor graphs, 1 layer": Method(
        UNSUPERVISED, coders.AnchorGraphHashing, _each("n_nearest", 2, 10), fixed={"n_layers": 1}
    ),
    "anchor graphs, 2 layers": Method(UNSUPERVISED, coders.AnchorGraphHashing, _each("n_nearest", 2, 10)),
    "spherical hashing": Method(UNSUPERVISED, coders.SphericalHashing),
    "self-taught hashing": Method(
        UNSUPERVISED, coders.SelfTaughtHashing, [{}, {"n_neighbors": 25}, {"C": 10.0}, {"n_neighbors": 25, "C": 10.0}]
    ),
    "Laplacian co-hashing": Method(UNSUPERVISED, coders.LaplacianCoHashing),
    "spline regression": Method(UNSUPERVISED, coders.SplineRegressionHashing, _each("mu", 0.1, 10.0, 100.0)),
    "K-means hashing": Method(UNSUPERVISED, coders.KMeansHashing, _each("bits_per_subspace", 2)),
    "LSH": Method(INDEPENDENT, coders.LSH, _each("center", False)),
    "p-stable LSH": Method(INDEPENDENT, coders.PStableLSH, _each("p", 1)),
    "shift-invariant kernel LSH": Method(INDEPENDENT, coders.ShiftInvariantLSH, _each("gamma", 0.1, 0.3, 1.0)),
    "float vectors": Method(PRACTICE, searchers.floats),
    "signs": Method(PRACTICE, coders.SignEmbedding),
    "signs, floats look again": Method(PRACTICE, searchers.rescored_signs),
    "PQ (faiss)": Method(PRACTICE, searchers.product_quantiser, [{"rotate": False}, {"rotate": True}]),
    "RaBitQ (faiss)": Method(PRACTICE, searchers.rabitq),
}
