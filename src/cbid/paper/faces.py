"""Faces against other windows: C-BID over Haar-like features and over pixels, at several lengths."""

from functools import partial

from cbid.paper.base import Claim, Experiment
from cbid.paper.coding import CODERS, nearest_neighbours
from cbid.paper.over_bits import TOGETHER, Draw, run_cells
from cbid.paper.windows import METHODS, METRIC, beats, cells_of_windows, show

FEATURES = ("raw pixels", "Haar-like features")
PARTS = ("validation", "test")  # held out of the same source, as in the paper; and of another source
FULL = {"cbcl_faces": [Draw(f, "paper", 5, part, most_test=2500) for part in PARTS for f in FEATURES]}
QUICK = {"cbcl_faces": [Draw(f, "paper", 1, p, most_train=300, most_test=200) for p in PARTS for f in FEATURES]}

EXPERIMENT = Experiment(
    name="faces",
    title="Faces",
    shows="The paper’s figure of face classification over code lengths.",
    sets=("cbcl_faces",),
    protocol="MIT CBCL, 19 x 19: 2,000 faces and 2,000 other windows of the training part, drawn five times. Tested "
    "on 400 of each that were held out of it, and on the 472 faces and 2,500 other windows of the test part, which "
    "are of another source and much harder. 3,000 Haar-like features drawn at random, or pixels. 5-NN.",
    methods={name: CODERS[name].text for name in METHODS} | {"original features": "5-NN, Euclidean distance"},
    metrics=(METRIC,),
    cells=partial(cells_of_windows, FULL, QUICK),
    run=partial(run_cells, classify=nearest_neighbours),
    show=show,
    together=TOGETHER,
    claims=(
        Claim(
            "C-BID beats raw pixels and Haar-like features on faces",
            "section on face and pedestrian classification",
            partial(beats, feature="Haar-like features"),
        ),
    ),
    cost=(8.0, 1.0),
)
