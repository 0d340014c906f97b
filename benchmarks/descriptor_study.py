"""How settings of HOG, pyramid HOG and GIST were chosen: validation accuracy of a linear SVM, one change at a time.

    python -m benchmarks.descriptor_study

Daimler: learned on one base set and scored on the other, both ways; its test set is not touched. Scene-15: of the
1,500 images given to train, 80 of each class to learn from and 20 to score by, three ways; no other is touched.
"""

import numpy as np
from sklearn.base import clone

from benchmarks.results import store
from benchmarks.scene15_descriptors import CACHE, linear
from cbid.descriptors import GIST, HOG, PyramidHOG, describe
from cbid.paper.sets import DataAbsent, open_set

CELLS = {"cells": (18, 9, 3), "orientations": 8}
STUDIES = {
    "daimler": {
        "HOG(cell=6, voting='hard')": HOG(cell=6, voting="hard"),
        "HOG(cell=6)": HOG(cell=6),
        "HOG(cell=6, sqrt=True)": HOG(cell=6, sqrt=True),
        "HOG(cell=3, voting='hard')": HOG(cell=3, voting="hard"),
        "HOG(cell=3)": HOG(cell=3),
        "HOG(cell=3, sqrt=True)": HOG(cell=3, sqrt=True),
        "PyramidHOG(cells=(18, 9, 3), orientations=8)": PyramidHOG(**CELLS),
        "the same, voting='hard'": PyramidHOG(voting="hard", **CELLS),
        "the same, sqrt=False": PyramidHOG(sqrt=False, **CELLS),
        "the same, norm='l2'": PyramidHOG(norm="l2", **CELLS),
        "the same, orientations=16, signed=True": PyramidHOG(cells=(18, 9, 3), orientations=16, signed=True),
        "PyramidHOG()": PyramidHOG(),
    },
    "scene15": {
        "PyramidHOG()": PyramidHOG(),
        "PyramidHOG(voting='hard')": PyramidHOG(voting="hard"),
        "PyramidHOG(sqrt=False)": PyramidHOG(sqrt=False),
        "PyramidHOG(norm='l2')": PyramidHOG(norm="l2"),
        "PyramidHOG(edges=True)": PyramidHOG(edges=True),
        "PyramidHOG(levels=2)": PyramidHOG(levels=2),
        "PyramidHOG(orientations=40, signed=True)": PyramidHOG(orientations=40, signed=True),
        "GIST()": GIST(),
        "GIST(crop=False)": GIST(crop=False),
        "GIST(size=128)": GIST(size=128),
    },
}
PROTOCOLS = {"daimler": ("paper", 2), "scene15": ("held-out", 3)}


def main():
    results = {}
    for name, descriptors in STUDIES.items():
        try:
            data = open_set(name)
        except DataAbsent as reason:
            print(reason)
            continue
        protocol, repeats = PROTOCOLS[name]
        splits = [data.split(protocol, repeat) for repeat in range(repeats)]
        used = np.unique(np.concatenate([rows for split in splits for rows in (split.train, split.validation)]))
        place = np.searchsorted(used, np.arange(len(data.labels)))
        y = data.labels[used]
        results[name] = {}
        for title, descriptor in descriptors.items():
            values = describe(data.images[used], descriptor, cache=CACHE).values
            scores = {}
            for cost, svm in linear(0.1, 1, 10).items():
                scores[cost] = []
                for split in splits:
                    learn, held_out = place[split.train], place[split.validation]
                    fitted = clone(svm).fit(values[learn], y[learn])
                    scores[cost].append(fitted.score(values[held_out], y[held_out]))
            best = max(scores, key=lambda cost: np.mean(scores[cost]))
            results[name][title] = {"values": values.shape[1], "chosen": best, "accuracy": scores}
            print(name, title, values.shape[1], best, np.round(scores[best], 4), flush=True)
        store("descriptor_study", results)


if __name__ == "__main__":
    main()
