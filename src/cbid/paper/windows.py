"""Windows of two classes: the paper's figures of face and of pedestrian classification over code lengths.

- ``FACES``: C-BID over Haar-like features and over pixels, MIT CBCL faces.
- ``PEDESTRIANS``: C-BID over pyramid HOG and over pixels, Daimler-Chrysler pedestrians.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from cbid.paper.base import CLASS_BITS, Claim, Experiment, Judgement, Results, Settings, by_test, on_every
from cbid.paper.coding import CODERS, nearest_neighbours
from cbid.paper.over_bits import ORIGINAL, TOGETHER, Draw, cells_of, run_cells, show_over_bits
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


@on_every
def beats(results: Results, *, feature: str, part: str) -> Iterator[Judgement]:
    """Compare C-BID over a feature, at its longest, with that feature and with pixels, on one part of the windows.

    The kernel form decides; it is the one to use for hand-made features.
    """
    tested = results.where(part=part)
    longest = max(tested.lengths(), default=0)
    found = {m: tested.measured(METRIC, features=feature, method=m, bits=longest) for m in METHODS}
    others = ", ".join(f"{m} {percent(v.mean())} %" for m, v in found.items() if m != DECIDES and len(v))
    for name in ("raw pixels", feature):
        theirs = tested.measured(METRIC, features=name, method=ORIGINAL)
        if len(found[DECIDES]) and len(theirs):
            text = f"{DECIDES} of {feature}, {longest} bits{f' ({others})' if others else ''}, {name}: "
            yield by_test(found[DECIDES], theirs, text)
            others = ""


_claim = partial(
    Claim,
    source="section on face and pedestrian classification",
    form="the present code’s kernel form (RBF over at most 2,000 anchors); the paper’s bits are hyperplanes",
    information="labels of all training windows; the features it is compared with need none",
)


def _experiment(full: Draws, reduced: Draws, claims: Sequence[Claim], **texts: Any) -> Experiment:
    return Experiment(
        sets=tuple(full),
        methods={name: CODERS[name].text for name in METHODS} | {ORIGINAL: "5-NN, Euclidean distance"},
        metrics=(METRIC,),
        cells=partial(cells, full, reduced),
        run=partial(run_cells, classify=nearest_neighbours),
        scope=CLASS_BITS,
        show=partial(show_over_bits, metric=METRIC),
        together=TOGETHER,
        independent=(ORIGINAL,),
        claims=claims,
        **texts,
    )


FACES = _experiment(
    FULL_FACES,
    QUICK_FACES,
    (
        _claim(
            "C-BID beats raw pixels and Haar-like features on faces, on held-out windows of one source",
            judge=partial(beats, feature="Haar-like features", part="validation"),
            data="MIT CBCL faces in place of the faces of Viola and Jones",
        ),
        _claim(
            "The same on the test part of MIT CBCL, from another source (not in the paper)",
            judge=partial(beats, feature="Haar-like features", part="test"),
            data="MIT CBCL faces, its own test part",
        ),
    ),
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
    (
        _claim(
            "C-BID beats raw pixels and pHOG on pedestrians",
            judge=partial(beats, feature="pHOG of windows", part="test"),
            data="Daimler-Chrysler, as in the paper: two base sets, so two repeats",
        ),
    ),
    name="pedestrians",
    title="Pedestrians",
    shows="The paper’s figure of pedestrian classification over code lengths.",
    protocol="Daimler-Chrysler, 36 x 18: one base set trains (4,800 pedestrians and 5,000 others), T1 tests, for "
    "each of the two base sets; never split at random. pHOG with cells of 18, 9 and 3 pixels, or pixels. 5-NN.",
    cost=(20.0, 1.0),
)
