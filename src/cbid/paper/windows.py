"""Windows of two classes: the paper's figures of face and of pedestrian classification over code lengths.

- ``FACES``: C-BID over Haar-like features and over pixels, MIT CBCL faces.
- ``PEDESTRIANS``: C-BID over pyramid HOG and over pixels, Daimler-Chrysler pedestrians.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cbid.paper.base import Claim, Experiment, Judgement, Results, Settings
from cbid.paper.coding import CODERS, nearest_neighbours
from cbid.paper.over_bits import ORIGINAL, TOGETHER, Draw, cells_of, compare, run_cells, show_over_bits
from cbid.paper.report import percent

METHODS = ("C-BID", "C-BID, 5 nearest", "C-BID, RBF")
DECIDES = "C-BID, RBF"
METRIC = "mean_class_accuracy"  # the classes differ in size
LENGTHS, QUICK_LENGTHS = (8, 16, 32, 64, 128, 256), (8, 32)

FACE_FEATURES = ("raw pixels", "Haar-like features")
FACE_PARTS = ("validation", "test")  # held out of the same source, as in the paper, and from another source
FULL_FACES = {"cbcl_faces": [Draw(f, "paper", 5, p, most_test=2500) for p in FACE_PARTS for f in FACE_FEATURES]}
QUICK_FACES = {
    "cbcl_faces": [Draw(f, "paper", 1, p, most_train=300, most_test=200) for p in FACE_PARTS for f in FACE_FEATURES]
}
PEDESTRIAN_FEATURES = ("raw pixels", "pHOG of windows")
FULL_PEDESTRIANS = {"daimler": [Draw(f, "paper", 2) for f in PEDESTRIAN_FEATURES]}
QUICK_PEDESTRIANS = {"daimler": [Draw(f, "paper", 1, most_train=300, most_test=300) for f in PEDESTRIAN_FEATURES]}

Draws = Mapping[str, Sequence[Draw]]


def cells(full: Draws, reduced: Draws, present: Sequence[str], quick: bool) -> list[Settings]:
    """Return the cells of a full or a quick run."""
    return cells_of(reduced if quick else full, present, METHODS, QUICK_LENGTHS if quick else LENGTHS)


def beats(results: Results, *, feature: str) -> Judgement | None:
    """Compare C-BID over a feature, at its longest, with that feature and with pixels.

    The kernel form decides; it is the one to use for hand-made features. If a set has two test parts, the held-out
    windows decide, because the paper tests on windows of one source.
    """
    judged = {part: _beats(results.where(part=part), feature) for part in ("validation", "test")}
    found = {("Held out" if part == "validation" else "Test part"): j for part, j in judged.items() if j is not None}
    if not found:
        return None
    return Judgement(next(iter(found.values())).holds, " ".join(f"{part}: {j.figures}" for part, j in found.items()))


def _beats(results: Results, feature: str) -> Judgement | None:
    longest = max(results.lengths(), default=0)
    found = {m: results.measured(METRIC, features=feature, method=m, bits=longest) for m in METHODS}
    theirs = {f: results.measured(METRIC, features=f, method=ORIGINAL) for f in ("raw pixels", feature)}
    ours = found[DECIDES]
    if not len(ours) or not all(len(values) for values in theirs.values()):
        return None
    compared = "; ".join(f"{f} {compare(ours, values)}" for f, values in theirs.items())
    others = ", ".join(f"{m} {percent(v.mean())} %" for m, v in found.items() if m != DECIDES and len(v))
    figures = f"{DECIDES} of {feature}, {longest} bits, against {compared}" + (f" ({others})." if others else ".")
    return Judgement(all(bool(ours.mean() > values.mean()) for values in theirs.values()), figures)


def _experiment(full: Draws, reduced: Draws, claim: str, feature: str, **texts: Any) -> Experiment:
    judge = partial(beats, feature=feature)
    return Experiment(
        sets=tuple(full),
        methods={name: CODERS[name].text for name in METHODS} | {ORIGINAL: "5-NN, Euclidean distance"},
        metrics=(METRIC,),
        cells=partial(cells, full, reduced),
        run=partial(run_cells, classify=nearest_neighbours),
        show=partial(show_over_bits, metric=METRIC),
        together=TOGETHER,
        claims=(Claim(claim, "section on face and pedestrian classification", judge),),
        **texts,
    )


FACES = _experiment(
    FULL_FACES,
    QUICK_FACES,
    "C-BID beats raw pixels and Haar-like features on faces",
    "Haar-like features",
    name="faces",
    title="Faces",
    shows="The paper’s figure of face classification over code lengths.",
    protocol="MIT CBCL, 19 x 19: 2,000 faces and 2,000 other windows of the training part, five draws. Tests: 400 of "
    "each class held out of the training part; and the 472 faces and 2,500 other windows of the test part, from "
    "another source and much harder. 3,000 Haar-like features drawn at random, or pixels. 5-NN.",
    cost=(8.0, 1.0),
)
PEDESTRIANS = _experiment(
    FULL_PEDESTRIANS,
    QUICK_PEDESTRIANS,
    "C-BID beats raw pixels and pHOG on pedestrians",
    "pHOG of windows",
    name="pedestrians",
    title="Pedestrians",
    shows="The paper’s figure of pedestrian classification over code lengths.",
    protocol="Daimler-Chrysler, 36 x 18: one base set trains (4,800 pedestrians and 5,000 others), T1 tests, for "
    "each of the two base sets; never split at random. pHOG with cells of 18, 9 and 3 pixels, or pixels. 5-NN.",
    cost=(20.0, 1.0),
)
