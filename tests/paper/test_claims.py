"""Claims hold, are within noise, fail, or cannot be tested, by made-up results."""

import numpy as np
import pytest

from cbid.paper import classifiers, descriptors, detection, patches, similarity, verification, windows
from cbid.paper.base import FAILS, HOLDS, NOISE, Claim, Judgement, all_of, by_test
from cbid.paper.coding import PAPER
from cbid.paper.over_bits import ORIGINAL
from tests.paper.made import accuracies, row, together


@pytest.mark.parametrize(
    ("ours", "theirs", "slack", "grade"),
    [
        ([0.70, 0.71, 0.72], [0.60, 0.61, 0.62], 0.0, HOLDS),
        ([0.60, 0.61, 0.62], [0.70, 0.71, 0.72], 0.0, FAILS),
        ([0.70, 0.60, 0.65], [0.60, 0.70, 0.64], 0.0, NOISE),  # one repeat each way
        ([0.695, 0.696, 0.694], [0.70, 0.70, 0.70], 0.0, FAILS),
        ([0.695, 0.696, 0.694], [0.70, 0.70, 0.70], 0.01, HOLDS),  # behind, but by less than allowed
        ([0.7], [0.6], 0.0, NOISE),  # nothing to test with one repeat
        ([0.7, 0.71], [0.6], 0.0, NOISE),
    ],
)
def test_grades_by_paired_tests(ours, theirs, slack, grade):
    assert by_test(np.array(ours), np.array(theirs), slack=slack).grade == grade


def test_a_claim_is_as_good_as_its_worst_part():
    holds, noise, fails = (Judgement(h, "x.", p) for h, p in ((True, 0.01), (True, 0.3), (False, 0.01)))
    assert Judgement(True, "bytes.").grade == HOLDS
    for parts, grade in (((holds,), HOLDS), ((holds, noise), NOISE), ((noise, fails, holds), FAILS)):
        assert all_of(parts).grade == grade
    assert all_of([]) is None


def test_every_claim_names_form_data_and_information():
    from cbid.paper import EXPERIMENTS, get_experiment

    for name in EXPERIMENTS:
        for claim in get_experiment(name).claims:
            assert all((claim.form, claim.data, claim.information)), claim.text
    assert Claim("a", "b", lambda r: None, "f", "d", "i").terms == {
        "Form": "f",
        "Data": "d",
        "Information": "i",
    }


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


def test_the_papers_form_and_the_default():
    fixed = {"set": "scene15", "features": "x", "bits": 64}
    results = together(
        accuracies([0.5, 0.51, 0.5], **fixed, method=PAPER),
        accuracies([0.9, 0.9, 0.91, 0.1, 0.1], **fixed, method="C-BID"),  # Eq. 3 has not run on the last two
    )
    judged = classifiers.paper_form(results)
    assert judged.grade == FAILS
    assert "50.3 against 90.3 %" in judged.figures


def test_where_the_papers_form_runs():
    cells = classifiers.knn_cells(("scene15", "caltech101"), False)
    of = {name: [c for c in cells if c["set"] == name and c["method"] == PAPER] for name in ("scene15", "caltech101")}
    assert {c["bits"] for c in of["scene15"]} == {16, 64}
    assert {c["bits"] for c in of["caltech101"]} == {16}
    assert {c["repeat"] for c in (*of["scene15"], *of["caltech101"])} == {0, 1, 2}
    assert {c["repeat"] for c in cells if c["method"] == "C-BID"} == set(range(5))
    quick = classifiers.svm_cells(("digits", "scene15"), True)
    assert {(c["set"], c["repeat"], c["bits"]) for c in quick if c["method"] == PAPER} == {("digits", 0, 8)}


def test_accuracy_that_falls_on_the_way_fails():
    results = knn({16: 0.6, 64: 0.8, 256: 0.7}, 0.5)
    assert classifiers.grows(results).grade == FAILS
    assert classifiers.grows(knn({16: 0.6, 64: 0.7}, 0.5)).grade == HOLDS


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


def test_windows_must_beat_both_features_on_their_part():
    def part(name, pixels, feature):
        fixed = {"metric": windows.METRIC, "part": name}
        return [
            *accuracies([0.9, 0.91], **fixed, features="pHOG", method=windows.DECIDES, bits=32),
            *accuracies([0.4, 0.4], **fixed, features="pHOG", method=windows.DECIDES, bits=8),
            *accuracies([pixels, pixels], **fixed, features="raw pixels", method=ORIGINAL, bits=None),
            *accuracies([feature, feature], **fixed, features="pHOG", method=ORIGINAL, bits=None),
        ]

    def judged(tested, *parts):
        return windows.beats(together(*parts), feature="pHOG", part=tested)

    assert judged("test", part("test", 0.7, 0.8)).grade == HOLDS
    assert judged("test", part("test", 0.7, 0.97)).grade == FAILS
    assert judged("test", part("test", 0.97, 0.8)).grade == FAILS
    both = part("test", 0.7, 0.97), part("validation", 0.7, 0.8)
    assert (judged("test", *both).grade, judged("validation", *both).grade) == (FAILS, HOLDS)
    assert judged("validation", both[0]) is None


def halves(method, bits, repeat, grid):
    fixed = {"set": "inria_person", "method": method, "bits": bits, "repeat": repeat}
    return row({"halves": {"1": grid} if method != verification.BASELINE else {"0": {"0": grid}}}, **fixed)


def test_gains_are_of_settings_chosen_on_the_other_half():
    """Weight .5 is best on the first half, .25 on the second: gains .46 - .41 and .44 - .4, mean 4.5 points."""
    rows = []
    for seed in range(3):
        rows.append(halves(verification.BASELINE, None, seed, [0.4, 0.41]))
        rows.append(halves("C-BID", 8, seed, {"0.25": [0.44, 0.49 + seed / 1000], "0.5": [0.5, 0.46]}))
        rows.append(halves(verification.CONTROL, None, seed, {"0.25": [0.42, 0.42], "0.5": [0.3, 0.3]}))
    part = together(rows)
    np.testing.assert_allclose(verification.clean_gains(part, "C-BID", 8), [4.5, 4.5, 4.5])
    np.testing.assert_allclose(verification.clean_gains(part, verification.CONTROL, None), [1.5, 1.5, 1.5])
    assert verification.verification_helps(part).grade == HOLDS
    assert "+4.5 (+4.5, +4.5, +4.5) points; the control" in verification.verification_helps(part).figures
    assert verification.codes_help(part).grade == HOLDS
    assert verification.gain_as_published(part).grade == FAILS
    assert verification.verification_helps(together(rows[:1])) is None
    assert [line[0] for line in verification.clean_table(part)[2]] == ["C-BID, 8 bits", "HOG itself"]


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
    assert [j(svm()).grade for j in judged] == [NOISE] * 3  # one repeat
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
    assert similarity.ordered(made, "C-BID, 5 nearest").holds
    result["distances"] = np.array([[0.3, 0.2, 0.7]])
    assert not similarity.ordered(made, "C-BID, 5 nearest").holds
    assert similarity.ordered(made, "C-BID") is None


def test_groups_of_poses_are_tested_over_queries():
    """Three queries at 0 degrees; their database is an image near, one at 180, and one of another class."""
    distances = np.array([[0.1, 0.3, 0.7], [0.12, 0.29, 0.72], [0.09, 0.31, 0.71]])
    result = {"distances": distances, "query_class": [0] * 3, "query_pose": [0] * 3}
    result |= {"class": [0, 0, 1], "pose": [5, 180, 0]}
    made = together([row(result, set="coil20", method="C-BID, 5 nearest", repeat=0)])
    assert similarity.ordered(made, "C-BID, 5 nearest").grade == HOLDS
    np.testing.assert_allclose(similarity.by_query(made.rows[0]), distances)


def test_losses_and_penalties():
    fixed = {"metric": "precision_at_10", "features": "GIST", "bits": 64, "samples": 10}
    forms = descriptors.FORMS
    results = together(*(accuracies([v, v + 0.001], **fixed, method=m) for m, v in zip(forms, (0.7, 0.71, 0.6, 0.7))))
    assert descriptors.forms_alike(results).grade == FAILS
    results = together(*(accuracies([0.7, 0.701], **fixed, method=m) for m in forms))
    assert descriptors.forms_alike(results).grade == HOLDS
