"""Claims hold, do not hold, or cannot be tested, by made-up results."""

import numpy as np
import pytest

from cbid.paper import classifiers, descriptors, detection, patches, similarity, windows
from cbid.paper.over_bits import ORIGINAL
from tests.paper.made import accuracies, row, together


def knn(ours, rivals, original=0.6):
    fixed = {"set": "scene15", "features": "x"}
    return together(
        *(accuracies([v, v + 0.01], **fixed, method="C-BID", bits=b) for b, v in ours.items()),
        *(accuracies([rivals, rivals], **fixed, method=m, bits=b) for m in classifiers.RIVALS for b in ours),
        accuracies([original, original], **fixed, method=ORIGINAL, bits=None),
    )


@pytest.mark.parametrize(
    ("ours", "rivals", "expected"),
    [
        ({64: 0.65, 256: 0.7}, 0.6, (True, True, True)),
        ({64: 0.55, 256: 0.7}, 0.8, (False, False, True)),
        ({64: 0.75, 256: 0.7}, 0.6, (True, True, False)),
    ],
)
def test_nearest_neighbours(ours, rivals, expected):
    results = knn(ours, rivals)
    judged = (classifiers.same_as_original, classifiers.beats_hashing, classifiers.grows)
    assert tuple(judge(results).holds for judge in judged) == expected


def test_original_features_alone_judge_nothing():
    results = together(accuracies([0.6], set="scene15", features="x", method=ORIGINAL, bits=None))
    judged = (classifiers.same_as_original, classifiers.beats_hashing, classifiers.grows)
    assert [judge(results) for judge in judged] == [None] * 3


def test_a_gain_without_its_baseline_is_a_dash():
    curve = {"thresholds": [1.0], "false_positives": [0.0], "detection_rates": [0.5], "n_images": 2, "n_objects": 3}
    fixed = {"set": "inria_person", "photographs": None, "windows": None, "negatives": None}
    there = [row(curve | {"worst": []}, **fixed, method="HOG + SVM", bits=None, repeat=0)]
    there += [row(curve | {"worst": []}, **fixed, method="LSH", bits=8, repeat=seed) for seed in (0, 1)]
    for rows, gains in ((there, ["", "+0.0 (+0.0)"]), (there[1:], ["–"])):
        assert [line[2] for line in detection.table_of(together(rows), "inria_person")[2]] == gains


def test_windows_must_beat_both_features():
    """The held-out part decides, the test part is told beside it."""

    def part(name, pixels, feature):
        fixed = {"metric": windows.METRIC, "part": name}
        return [
            *accuracies([0.9], **fixed, features="pHOG", method=windows.DECIDES, bits=32),
            *accuracies([0.4], **fixed, features="pHOG", method=windows.DECIDES, bits=8),
            *accuracies([pixels], **fixed, features="raw pixels", method=ORIGINAL, bits=None),
            *accuracies([feature], **fixed, features="pHOG", method=ORIGINAL, bits=None),
        ]

    def judged(*parts):
        return windows.beats(together(*parts), feature="pHOG")

    assert judged(part("test", 0.7, 0.8)).holds
    assert not judged(part("test", 0.7, 0.95)).holds
    assert not judged(part("test", 0.95, 0.8)).holds
    both = judged(part("test", 0.7, 0.95), part("validation", 0.7, 0.8))
    assert both.holds
    assert "Held out: " in both.figures
    assert "Test part: " in both.figures


def svm(cbid=0.8, pooled=0.81, anchors=0.7, original=0.7, pooled_bytes=10_000):
    fixed = {"set": "scene15", "features": "x"}
    return together(
        [row({"accuracy": cbid, "bytes": 64, "n_bits": 512}, **fixed, method="C-BID", bits=512, repeat=0)],
        accuracies([anchors], **fixed, method="anchor graphs", bits=512),
        accuracies([original], **fixed, method=ORIGINAL, bits=None),
        [row({"accuracy": pooled, "bytes": pooled_bytes}, **fixed, method="LLC", bits=None, repeat=0)],
    )


def test_support_vectors():
    judged = (classifiers.beats_original, classifiers.comparable, classifiers.anchors_fall_behind)
    assert [j(svm()).holds for j in judged] == [True, True, True]
    assert [j(svm(cbid=0.65)).holds for j in judged] == [False, False, False]
    assert not classifiers.comparable(svm(pooled_bytes=500)).holds  # not an order of magnitude less


def test_patches_on_every_set():
    def table(scene):
        def of(name, method, value, size, seconds):
            result = {"accuracy": value, "bytes": size, "seconds_per_image_and_class": seconds}
            return [row(result, set=name, method=method, repeat=0)]

        return together(
            of("caltech101-five", "exact", 0.8, 5000, 9.0),
            of("caltech101-five", "cbid32", 0.7, 40, 0.1),
            of("caltech101-five", "cbid128", 0.9, 160, 0.2),
            of("caltech101-five", "bbf", 0.99, 5000, 1.0),  # on one set alone, so that it has no mean
            of("scene15", "exact", 0.6, 5000, 9.0),
            of("scene15", "cbid32", 0.5, 40, 0.1),
            of("scene15", "cbid128", scene, 160, 0.2),
        )

    assert patches.against(table(0.7), "cbid128", "exact").holds
    assert not patches.against(table(0.5), "cbid128", "exact").holds
    assert patches.best_on_average(table(0.7)).holds
    assert not patches.best_on_average(table(0.4)).holds
    small = patches.smaller_and_faster(table(0.7))
    assert small.holds
    assert "125 times less storage" in small.figures
    assert "90 times less time" in small.figures


def test_descriptors_at_every_number_of_samples():
    def results(last):
        return together(
            accuracies([0.6], "precision_at_10", features="GIST", method="C-BID", bits=256, samples=10),
            accuracies([last], "precision_at_10", features="GIST", method="C-BID", bits=256, samples=20),
            *(
                accuracies(
                    [0.5], "precision_at_10", features="GIST", method=descriptors.ORIGINAL, bits=None, samples=n
                )
                for n in (10, 20)
            ),
        )

    assert descriptors.beats_descriptor(results(0.7), "GIST", 256, 0.0).holds
    assert not descriptors.beats_descriptor(results(0.495), "GIST", 256, 0.0).holds
    assert descriptors.beats_descriptor(results(0.495), "GIST", 256, 0.01).holds
    assert descriptors.beats_descriptor(results(0.7), "GIST", 512, 0.0) is None


def test_groups_of_poses():
    """Query at 350 degrees: 10 is near (the circle closes), 180 is not; the other class counts at any pose."""
    result = {
        "distances": np.array([[0.1, 0.2, 0.7]]),
        "query_class": [0],
        "query_pose": [350],
        "class": [0, 0, 1],
        "pose": [10, 180, 350],
    }
    made = together([row(result, set="coil20", method="C-BID, 5 nearest", repeat=0)])
    assert list(similarity.means_of(made.rows[0]).values()) == pytest.approx([0.1, 0.2, 0.7])
    assert similarity.ordered(made).holds
    result["distances"] = np.array([[0.3, 0.2, 0.7]])
    assert not similarity.ordered(made).holds
