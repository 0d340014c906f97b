"""Experiments on small sets in the layouts of the real ones, from cells to the report."""

import dataclasses
import io
import json

import numpy as np
import pytest
from PIL import Image

from cbid import CBID
from cbid.evaluation import accuracy
from cbid.paper import classifiers, descriptors, detection, galleries, learning_curves, patches, similarity
from cbid.paper.base import Context, Results, Row
from cbid.paper.coding import PAPER
from cbid.paper.report import Page, new_figure, plot_style
from cbid.paper.verification import verification_helps
from tests.paper.made import context, striped, write_classes


def shown(experiment, cells, where, tmp_path):
    """Runs cells as the runner would, and shows them."""
    rows = []
    for task in experiment.tasks(cells):
        rows += [Row(settings, _plain(result), 0.0) for settings, result in experiment.run(task, where)]
    page = Page("x", tmp_path / "plots", where, True)
    with plot_style():
        experiment.show(Results(rows), page)
    assert page.tables
    assert all((tmp_path / "plots" / name).exists() for name in page.files)
    return Results(rows), page


def _plain(result):
    """As read from a file."""
    from cbid.paper.raw import to_json

    return json.loads(json.dumps(result, default=to_json))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    root = tmp_path_factory.mktemp("photographs")
    write_classes(root / "graz02", ("bikes", "cars", "people"), 12)
    write_classes(root / "sports8", ("badminton", "polo"), 16)
    return root


def test_patches(photographs, tmp_path, monkeypatch):
    monkeypatch.setattr("cbid.paper.patches.MOST_BITS", 16)
    where = context(photographs)
    sizes = {"train": 4, "test": 3, "classes": 3, "step": 8, "queries": 20}
    cells = [{"set": "graz02", "repeat": 0, "method": m, **sizes} for m in ("exact", "cbid16", "itq128")]
    results, _ = shown(patches.EXPERIMENT, cells, where, tmp_path)
    assert results.measured("accuracy", method="exact")[0] > 0.8  # stripes at three angles
    by_method = {row["method"]: row for row in results}
    per_patch = {m: row["bytes"] / row["patches"] for m, row in by_method.items()}
    assert per_patch == pytest.approx({"exact": 512, "cbid16": 2, "itq128": 16})
    assert all(row["seconds_per_image_and_class"] > 0 for row in results)


def test_samples_keep_their_places():
    images = [striped(0.3, i) for i in range(3)]
    seen = []
    found = patches.sampled(images, 10, 0, seen.append, step=8)
    assert found.sizes.tolist() == [10, 10, 10]
    assert found.shapes.tolist() == [[64, 64]] * 3
    whole = seen[0]
    for i in range(3):
        rows = slice(whole.offsets[i], whole.offsets[i + 1])
        for value, frame in zip(found[i], found.frames[found.offsets[i] : found.offsets[i + 1]]):
            at = np.flatnonzero((whole.frames[rows] == frame).all(axis=1))
            assert len(at) == 1
            np.testing.assert_array_equal(whole.values[rows][at[0]], value)


def test_descriptors_by_samples_and_forms(photographs, tmp_path):
    cells = [
        {
            "set": "sports8",
            "features": f,
            "repeat": 0,
            "test": 8,
            "validation": 2,
            "words": 8,
            "step": 24,
            "samples": n,
            "method": m,
            "bits": b,
        }
        for f in ("GIST", descriptors.KDES)
        for n, m, b in ((4, descriptors.ORIGINAL, None), (4, "C-BID", 8), (4, "exponential, l1", 8), (4, PAPER, 3))
        if (f, m) != (descriptors.KDES, PAPER)
    ]
    results, page = shown(descriptors.EXPERIMENT, cells, context(photographs), tmp_path)
    for row in (row for row in results if row["method"] != PAPER):
        assert 0.6 < row["precision_at_10"] <= 0.8  # eight of ten can be right; chance has 0.5
        assert len(row["predicted"]) == 16
    assert page.tables[1]["title"] == "Losses and penalties"


def test_test_images_do_not_depend_on_the_number_of_samples(photographs):
    base = {"set": "sports8", "features": "GIST", "repeat": 0, "test": 6, "validation": 2, "words": 8, "step": 24}
    truths = []
    for n in (2, 6):
        cell = base | {"samples": n, "method": descriptors.ORIGINAL, "bits": None}
        ((_, result),) = descriptors.run([cell], context(photographs))
        truths.append(result["truth"].tolist())
    assert truths[0] == truths[1]


@pytest.mark.parametrize("method", classifiers.POOLED)
def test_pooled_descriptors(photographs, method):
    cell = {"set": "graz02", "features": "GIST", "protocol": [6, 0, 4], "repeat": 0, "bits": None, "method": method}
    ((_, result),) = classifiers.run_svm([cell | {"words": 8, "axes": "pca"}], context(photographs))
    assert accuracy(result["truth"], result["predicted"]) > 0.8
    assert result["bytes"] == 4 * 21 * 8


def test_a_turntable(tmp_path):
    for n in range(1, 4):
        folder = tmp_path / "coil20" / "images" / f"obj{n}"
        folder.mkdir(parents=True)
        for pose in range(0, 72, 4):
            buffer = io.BytesIO()
            angle = np.deg2rad(5 * pose) / 2  # stripes come back after half a turn
            Image.fromarray(striped(angle, n, 32) // n).save(buffer, "PNG")
            (folder / f"obj{n}__{pose}.png").write_bytes(buffer.getvalue())
    cells = [{"set": "coil20", "method": "C-BID, 5 nearest", "repeat": 0, "bits": 16, "classes": None}]
    results, _ = shown(similarity.EXPERIMENT, cells, context(tmp_path), tmp_path)
    row = results.rows[0]
    assert np.shape(row["distances"]) == (12, 3 * 14)
    assert row["class"] == sorted(row["class"])
    assert row["pose"][:14] == sorted(row["pose"][:14])
    assert 0 <= np.min(row["distances"]) <= np.max(row["distances"]) <= 1


def stood(rng, height, width, *corners):
    """Noise with bright ellipses of 96 x 32 pixels at these corners (left, top)."""
    values = 90 + rng.normal(0, 12, (height, width))
    y, x = (np.indices((96, 32)) + 0.5) / np.array([96, 32])[:, None, None] * 2 - 1
    for left, top in corners:
        values[top : top + 96, left : left + 32] += 100 * (x**2 + y**2 < 1)
    return np.clip(values, 0, 255).astype(np.uint8)


def test_detection_and_continuing(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    folder = tmp_path / "inria_person"
    pictures = {f"train/positive/{i}": stood(rng, 160, 96, (32, 32)) for i in range(12)}
    pictures |= {f"train/negative/{i}": stood(rng, 200, 160) for i in range(2)}
    boxes = {"a": [[40, 50, 72, 146]], "b": [[20, 30, 52, 126], [100, 60, 132, 156]]}
    pictures |= {f"test/images/{n}": stood(rng, 200, 160, *(box[:2] for box in boxes[n])) for n in boxes}
    for name, image in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{name}.png")
    (folder / "test" / "boxes.json").write_text(json.dumps({f"{n}.png": {"boxes": b} for n, b in boxes.items()}))
    monkeypatch.setattr(detection, "QUICK_LENGTH", 8)
    cells = detection.cells(["inria_person"], True)
    results, _ = shown(detection.EXPERIMENT, cells, context(tmp_path), tmp_path)
    assert [row["method"] for row in results] == [
        "HOG + SVM",
        "HOG itself",
        "C-BID",
        "C-BID, 5 nearest",
        "LSH",
        "SDH",
    ]
    rates = results.measured(detection.METRIC)
    assert rates[0] == 1  # nothing else looks like it, so that 8 bits of a dozen windows can only lose
    assert (rates <= 1).all()
    assert [(row["n_images"], row["n_objects"]) for row in results] == [(2, 3)] * 6
    judged = verification_helps(results)
    assert not judged.holds
    assert "8 bits: " in judged.figures
    assert "the control, a second SVM on HOG" in judged.figures
    # What was learned and found is there: photographs are not read again.
    monkeypatch.setattr(detection.AnnotatedImages, "read", lambda *_: pytest.fail("read again"))
    again = [_plain(result) for _, result in detection.run(cells[:2], context(tmp_path))]
    assert again == [row.result for row in results.rows[:2]]
    # Learning continues after the stored bits, which stay the same.
    longer = [cells[2], cells[2] | {"bits": 12}]
    assert _plain(next(detection.run(longer, context(tmp_path)))[1]) == results.rows[2].result
    # Codes that ended early are no codes of the length that was asked for; the detector itself still exists.
    monkeypatch.setattr(detection, "_learned_bits", lambda *_: CBID(n_bits=1).fit(np.eye(4), [0, 0, 1, 1]))
    run = detection.run([cells[0], cells[2]], context(tmp_path))
    assert _plain(next(run)[1]) == results.rows[0].result
    with pytest.raises(RuntimeError, match="learning ended at 1 of 8 bits"):
        next(run)


def test_tud_brussels_is_tested_with_the_detectors_of_inria():
    assert detection.cells(["tud_brussels"], True) == []
    both = detection.cells(["inria_person", "tud_brussels"], True)
    assert {c["set"] for c in both} == {"inria_person", "tud_brussels"}
    assert (detection.TRAINED_ON, detection.UPSAMPLED["tud_brussels"]) == ("inria_person", 2.0)


def test_work_of_detection_is_kept_apart_by_set_place_and_revision(tmp_path, monkeypatch):
    for place in "ab":
        for part in ("positive", "negative"):
            (tmp_path / place / "inria_person" / "train" / part).mkdir(parents=True)
        (tmp_path / place / "inria_person" / "test" / "images").mkdir(parents=True)
        (tmp_path / place / "inria_person" / "test" / "boxes.json").touch()
    settings = {"set": "inria_person", "photographs": None, "windows": None, "negatives": 8}

    def folder(place, **changes):
        return detection.work_folder(settings | changes, 0, Context(str(tmp_path / place), tmp_path / "cache"))

    found = {folder("a"), folder("b"), folder("a", negatives=None)}
    assert folder("a") in found
    assert len(found) == 3
    monkeypatch.setattr(detection, "EXPERIMENT", dataclasses.replace(detection.EXPERIMENT, revision=2))
    assert folder("a") not in found


def small(cells, **sizes):
    return [c | sizes for c in cells if c["set"] == "digits"]


def test_photographs_may_be_left_out(tmp_path):
    page = Page("x", tmp_path, context(tmp_path), True, photographs=False)
    figure, _ = new_figure()
    page.plot(figure, "people", "A crowd.", photographs=True)
    page.plot(figure, "curves", "Curves.")
    note, plot = page.parts
    assert "A crowd. Photographs" in note
    assert plot.startswith("<figure>")
    assert sorted(path.name for path in tmp_path.glob("*")) == ["x_curves.png", "x_curves.svg"]


class Same:
    """A coder that gives all images one code: every neighbour is a tie."""

    n_bits_ = 8

    def encode(self, X):
        return np.zeros((len(X), 1), np.uint8)


def test_ties_in_galleries_do_not_follow_the_order_of_the_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(galleries, "code_lengths", lambda *args: iter([(32, Same())]))
    cells = galleries.EXPERIMENT.cells(["digits"], True)[:1]
    ((_, result),) = galleries.run(cells, context(tmp_path))
    labels = context(tmp_path).open("digits").labels[np.array(result["ids"])[0]]
    assert len(set(labels.tolist())) > 3  # in the order of the set all ten would be of the first class


def test_the_protocol_of_the_literature(tmp_path):
    """Database: all 30 images but 10 queries; the training images are among them."""
    from tests.paper.sets.test_layouts import write_cifar

    write_cifar(tmp_path / "cifar10")
    fixed = {"train": 10, "queries": 10, "most": None}
    cells = [c | fixed for c in galleries.RETRIEVAL.cells(["cifar10"], True) if c["method"] == "ITQ"]
    results, page = shown(galleries.RETRIEVAL, [c | {"bits": 8} for c in cells], context(tmp_path), tmp_path)
    assert [row["database"] for row in results] == [20]
    assert 0 < results.rows[0]["map"] <= 1
    assert page.tables[0]["rows"][0][0] == "ITQ"


def test_galleries_of_digits(tmp_path):
    cells = [c for c in small(galleries.EXPERIMENT.cells(["digits"], True)) if c["method"] in ("C-BID", "LSI")]
    results, page = shown(galleries.EXPERIMENT, cells, context(tmp_path), tmp_path)
    assert len(page.files) == galleries.QUERIES
    for row in results:
        assert np.shape(row["ids"]) == (len(row["queries"]), galleries.SHOWN)
        assert not set(np.ravel(row["ids"])) & set(row["queries"])
    (table,) = page.tables
    shares = {name: float(share) for name, share in table["rows"]}
    assert shares["C-BID"] > shares["LSI"]


def test_learning_curves_of_digits(tmp_path):
    cells = small(learning_curves.EXPERIMENT.cells(["digits"], True), bits=8)
    results, _ = shown(learning_curves.EXPERIMENT, cells, context(tmp_path), tmp_path)
    for row in results:
        assert len(row["objective"]) == len(row["gap"]) == len(row["seconds"]) == len(row["distinct"]) <= 8
        assert np.all(np.diff(row["objective"]) <= 1e-3 * np.array(row["objective"][:-1]))  # to the fitted tolerance
        assert np.all(np.diff(row["seconds"]) >= 0)


def test_a_bit_and_its_opposite_are_one():
    bits = np.array([[1, -1, 1, 1], [1, -1, -1, 1], [-1, 1, 1, -1]])
    assert learning_curves.distinct_bits(bits) == [1, 1, 2, 2]
