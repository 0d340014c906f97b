"""Pedestrians against other windows: C-BID over pyramid HOG and over pixels, at several lengths."""

from functools import partial

from cbid.paper.base import Claim, Experiment
from cbid.paper.coding import CODERS, nearest_neighbours
from cbid.paper.over_bits import TOGETHER, Draw, run_cells
from cbid.paper.windows import METHODS, METRIC, beats, cells_of_windows, show

FEATURES = ("raw pixels", "pHOG of windows")
FULL = {"daimler": [Draw(f, "paper", 2) for f in FEATURES]}
QUICK = {"daimler": [Draw(f, "paper", 1, most_train=300, most_test=300) for f in FEATURES]}

EXPERIMENT = Experiment(
    name="pedestrians",
    title="Pedestrians",
    shows="The paper’s figure of pedestrian classification over code lengths.",
    sets=("daimler",),
    protocol="Daimler-Chrysler, 36 x 18: one base set trains (4,800 pedestrians and 5,000 others), T1 tests, for "
    "either base set; never split at random. pHOG with cells of 18, 9 and 3 pixels, or pixels. 5-NN.",
    methods={name: CODERS[name].text for name in METHODS} | {"original features": "5-NN, Euclidean distance"},
    metrics=(METRIC,),
    cells=partial(cells_of_windows, FULL, QUICK),
    run=partial(run_cells, classify=nearest_neighbours),
    show=show,
    together=TOGETHER,
    claims=(
        Claim(
            "C-BID beats raw pixels and pHOG on pedestrians",
            "section on face and pedestrian classification",
            partial(beats, feature="pHOG of windows"),
        ),
    ),
    cost=(20.0, 1.0),
)
