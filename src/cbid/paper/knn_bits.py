"""k-NN accuracy over the length of codes: C-BID, five hashing methods, and the original features."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from cbid.paper.base import Claim, Experiment, Judgement, Results, Settings
from cbid.paper.coding import CODERS, nearest_neighbours
from cbid.paper.over_bits import (
    FULL,
    METRIC,
    ORIGINAL,
    QUICK,
    TOGETHER,
    cells_of,
    compare,
    lead,
    run_cells,
    show_over_bits,
)
from cbid.paper.page import Page, percent
from cbid.paper.sets import CATALOGUE

OURS = ("C-BID", "C-BID, RBF")
RIVALS = ("spectral hashing", "anchor graphs", "spherical hashing", "self-taught hashing", "Laplacian co-hashing")
LENGTHS, QUICK_LENGTHS = (16, 32, 64, 128, 256), (16, 64)


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    return cells_of(QUICK if quick else FULL, present, (*OURS, *RIVALS), QUICK_LENGTHS if quick else LENGTHS)


def show(results: Results, page: Page) -> None:
    show_over_bits(results, page, METRIC)


def same_as_original(results: Results) -> Judgement | None:
    """64 bits on Scene-15: the default form is the one that counts."""
    scenes = results.where(set="scene15")
    ours, theirs = scenes.measured(METRIC, method="C-BID", bits=64), scenes.measured(METRIC, method=ORIGINAL)
    if not len(ours) or not len(theirs):
        return None
    return Judgement(bool(ours.mean() >= theirs.mean()), f"64 bits, original features: {compare(ours, theirs)}.")


def beats_hashing(results: Results) -> Judgement | None:
    """The default form at the greatest length, on every set, against the best of the five."""
    told, holds = [], []
    for name in results.distinct("set"):
        part = results.where(set=name)
        lengths = [b for b in part.distinct("bits") if b is not None]  # none, while only original features are there
        found = lead(part, METRIC, ("C-BID",), RIVALS, max(lengths)) if lengths else None
        if found is not None:
            told.append(f"{CATALOGUE[name].title}: {found.figures}")
            holds.append(found.holds)
    return Judgement(all(holds), " ".join(told)) if holds else None


def grows(results: Results) -> Judgement | None:
    """Every length at least as accurate as the one before it, on every set; half a percent is noise."""
    told, holds = [], []
    for name in results.distinct("set"):
        part = results.where(set=name, method="C-BID")
        found = {b: values.mean() for b in part.distinct("bits") if len(values := part.measured(METRIC, bits=b))}
        if len(found) > 1:
            shown = ", ".join(f"{percent(mean)} % at {bits}" for bits, mean in found.items())
            told.append(f"{CATALOGUE[name].title}: {shown} bits.")
            holds.append(bool(np.all(np.diff(list(found.values())) > -0.005)))
    return Judgement(all(holds), " ".join(told)) if told else None


EXPERIMENT = Experiment(
    name="knn",
    title="k-NN accuracy over bits",
    shows="The paper’s figure of k-NN accuracy against hashing methods, and its text on 64 bits.",
    sets=tuple(FULL),
    protocol="The paper’s splits: Scene-15 100 training images a class, Caltech-101 15 (at most 20 test), Graz-02 "
    "and Sports-8 50; five repeats, validation images left aside. Where the paper has meta-class features, which "
    "cannot be had, Scene-15 has embeddings of EfficientNet-Lite0 and the others GIST, each in principal axes "
    "that hold 99 % of the variance (at most 256). 5-NN, Hamming distance (weighted for C-BID). Settings of "
    "all methods are their papers’ or the defaults; nothing is tuned.",
    methods={name: CODERS[name].text for name in (*OURS, *RIVALS)} | {ORIGINAL: "5-NN, Euclidean distance"},
    metrics=(METRIC,),
    cells=cells,
    run=partial(run_cells, classify=nearest_neighbours),
    show=show,
    together=TOGETHER,
    claims=(
        Claim("64 bits equal or beat the original features’ k-NN on Scene-15", "section on k-NN", same_as_original),
        Claim("C-BID beats all five hashing methods as bits grow", "section on k-NN", beats_hashing),
        Claim("C-BID becomes better as bits grow", "section on k-NN", grows),
    ),
    cost=(4.0, 0.5),
)
