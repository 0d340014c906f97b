"""Whole sources through a descriptor: order, errors by name, parallel runs, bounded memory."""

import subprocess
import sys

import numpy as np
import pytest

from cbid.bags import Bags
from cbid.data import ImageError, ImageFolder
from cbid.descriptors import describe, describing
from tests.data.pictures import encoded, pgm, picture, png_of_claimed_size, write_tree
from tests.data.plain import Plain
from tests.data.toys import Flat, Means, Rows, ThreadedMeans


@pytest.fixture
def root(tmp_path):
    """Fifty images in two classes; image i is gray of value i."""
    return write_tree(tmp_path / "root", {f"{'ab'[i % 2]}/{i:02d}.pgm": pgm(i) for i in range(50)})


@pytest.mark.parametrize("descriptor", [Means(), ThreadedMeans()])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_values_in_the_order_of_the_source(root, descriptor, n_jobs):
    described = describe(root, descriptor, n_jobs=n_jobs)
    numbers = [int(name[2:4]) for name in described.names]
    np.testing.assert_allclose(described.values, np.repeat(numbers, 2).reshape(-1, 2) / 255, rtol=1e-6)
    assert described.values.dtype == np.float32
    assert described.rows.tolist() == list(range(50))
    assert described.labels.tolist() == [0] * 25 + [1] * 25
    assert described.classes.tolist() == ["a", "b"]
    assert described.failures == []


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_extra_results_of_each_decoded_image(root, n_jobs):
    write_tree(root, {"b/98.pgm": b"no image", "b/99.pgm": pgm(9)})
    described = describe(root, Means(), on_error="skip", n_jobs=n_jobs, extra=np.max)
    assert described.extras == [9 if "99" in name else int(name[2:4]) for name in described.names]
    assert len(described.values) == 51
    assert describe(root, Means(), on_error="skip").extras == []
    with pytest.raises(ValueError, match="extra and cache"):
        describe(root, Means(), extra=np.max, cache=root / "cache")


def test_sources_of_every_kind(root):
    images = ImageFolder(root)
    arrays = np.stack(list(images))
    expected = describe(images, Means()).values
    for source in (root, str(root), arrays, list(arrays), [images.path(i) for i in range(50)], iter(arrays)):
        np.testing.assert_array_equal(describe(source, Means()).values, expected)
    assert list(describe(arrays[:2], Means()).names) == ["image 0", "image 1"]
    with pytest.raises(ValueError, match="the source holds no images"):
        describe([], Means())
    np.save(root / "v.npy", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="3 vectors of 2 values> holds vectors"):
        describe(root / "v.npy", Means())


def test_bags(root, tmp_path):
    write_tree(root, {"b/99.pgm": pgm(9, height=7)})
    described = describe(root, Rows(), n_jobs=2)
    assert isinstance(described.values, Bags)
    assert described.values.sizes.tolist() == [4] * 50 + [7]
    assert described.values.shapes[-1].tolist() == [7, 4]
    np.testing.assert_allclose(described.values[50], 9 / 255, rtol=1e-6)
    stored = describe(root, Rows(), out=tmp_path / "bags").values
    assert sorted(p.name for p in (tmp_path / "bags").iterdir()) == [
        "frames.npy",
        "offsets.npy",
        "shapes.npy",
        "values.npy",
    ]
    for name in ("values", "offsets", "frames", "shapes"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(described.values, name))
        np.testing.assert_array_equal(np.load(tmp_path / "bags" / f"{name}.npy"), getattr(stored, name))


def test_values_in_a_file(root, tmp_path):
    described = describe(root, Means(), out=tmp_path / "v.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), describe(root, Means()).values)
    np.testing.assert_array_equal(described.values, np.load(tmp_path / "v.npy"))
    assert isinstance(described.values.base, np.memmap)


BAD = {
    "a/empty.jpg": (b"", "it is empty"),
    "a/text.jpg": (b"this is text", "expected one of"),
    "b/half.jpg": (encoded(picture(), "JPEG")[:700], "runcated"),
    "b/bomb.png": (png_of_claimed_size(30_000, 30_000), "30000 x 30000 pixels"),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bad_images_are_skipped_by_name(root, n_jobs):
    write_tree(root, {name: content for name, (content, _) in BAD.items()})
    described = describe(root, Means(), on_error="skip", n_jobs=n_jobs)
    assert len(described.values) == len(described.names) == len(described.labels) == 50
    assert [name for name, _ in described.failures] == sorted(BAD)
    for name, reason in described.failures:
        assert BAD[name][1] in reason
    everything = list(ImageFolder(root).names)
    assert [everything[i] for i in described.rows] == list(described.names)
    assert not set(described.names) & set(BAD)
    np.testing.assert_allclose(described.values[:, 0], [int(n[2:4]) / 255 for n in described.names], rtol=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_first_bad_image_raises_by_name(root, n_jobs):
    write_tree(root, {"a/text.jpg": b"this is text"})
    with pytest.raises(ImageError, match=r"^a/text\.jpg: .*JPEG"):
        describe(root, Means(), n_jobs=n_jobs)
    with pytest.raises(ValueError, match="on_error='ignore'"):
        describe(root, Means(), on_error="ignore")


def test_odd_sizes_go_through(tmp_path):
    """One pixel, and 1 x 10,000 both ways."""
    write_tree(tmp_path, {"x/1.pgm": pgm(3, 1, 1), "x/2.pgm": pgm(4, 1, 10_000), "x/3.pgm": pgm(5, 10_000, 1)})
    np.testing.assert_allclose(describe(tmp_path, Means()).values[:, 0], np.array([3, 4, 5]) / 255, rtol=1e-6)


def test_what_a_descriptor_refuses_is_reported_by_name(tmp_path):
    write_tree(tmp_path, {"x/1.pgm": pgm(1), "x/2.pgm": pgm(2, 1, 5), "x/3.pgm": pgm(3, 6, 6), "x/4.pgm": pgm(4)})
    described = describe(tmp_path, Flat(), on_error="skip")
    assert described.rows.tolist() == [0, 3]
    assert described.failures == [
        ("x/2.pgm", "the image has one row; two are needed"),
        ("x/3.pgm", "it gives 36 values, the first image 16; set a size for all images"),
    ]
    with pytest.raises(ImageError, match=r"x/2\.pgm: the image has one row") as caught:
        describe(tmp_path, Flat())
    assert isinstance(caught.value.__cause__.__cause__, ValueError)
    with pytest.raises(ImageError, match="none of 1 images could be described; image 0: the image has one row"):
        describe([np.zeros((1, 4), np.uint8)], Flat(), on_error="skip")


def test_any_error_of_a_descriptor_is_reported_by_name():
    class Faulty(Means):
        def describe(self, image):
            return {}["key"]

    with pytest.raises(ImageError, match="image 0: KeyError: 'key'"):
        describe(np.zeros((2, 4, 4), np.uint8), Faulty())


def test_settings_are_checked_first(root):
    with pytest.raises(ValueError, match="repeat=0"):
        describe(root, Means(repeat=0))


def test_problems_of_the_folder_are_failures_too(root):
    (root / "none").mkdir()
    described = describe(root, Means(), on_error="skip")
    assert described.failures == [("none", "a folder without images")]


def test_progress_is_shown_on_request(root, capsys):
    describe(root, Means())
    assert capsys.readouterr().err == ""
    describe(root, Means(), verbose=1)
    assert "Means" in capsys.readouterr().err


MEASURE = """
import resource, sys
from pathlib import Path
from cbid.descriptors import cache
from cbid.descriptors import describe
from tests.data.plain import Plain
cache._BYTES = 2 * 2**20
root, store = sys.argv[1:]
descriptor = Plain(repeat=10_000)  # 40 kB for each image
few = sorted(Path(root, "x").iterdir())[:200]
describe(few, descriptor, cache=store, out=store + "/few.npy", n_jobs=2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
values = describe(root, descriptor, cache=store, out=store + "/all.npy", n_jobs=2).values
print(values.nbytes / 2**20, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10)
"""


def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    """1,500 images after 200 make 60 MB of values; the peak may rise by what two more chunks would take."""
    write_tree(tmp_path, {f"root/x/{i:04d}.pgm": pgm(i % 256, 2, 2 + i // 256) for i in range(1500)})
    (tmp_path / "store").mkdir()
    command = [sys.executable, "-c", MEASURE, tmp_path / "root", tmp_path / "store"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    values, growth = map(float, done.stdout.split())
    assert values > 55
    assert growth < 15


class Together(Plain):
    """Many images at once, of which it remembers how many."""

    def __init__(self):
        super().__init__()
        self.counts = []

    def describe_many(self, images):
        self.counts.append(len(images))
        return [self.describe(image) for image in images]


def test_many_at_once_and_no_more_than_a_few_megabytes(monkeypatch):
    monkeypatch.setattr(describing, "_BATCH_BYTES", 1000)
    small, large = [np.full((4, 4), i / 100) for i in range(100)], [np.full((16, 16), i / 10) for i in range(10)]
    descriptor = Together()
    found = describe(small + large, descriptor).values[:, 0]
    np.testing.assert_allclose(found, [image.mean() for image in small + large], rtol=1e-6)
    assert max(descriptor.counts) > 1
    assert max(descriptor.counts) <= 1000 // small[0].nbytes + 1
    assert descriptor.counts[-9:] == [1] * 9  # each is more than 1,000 bytes


def test_what_fails_at_once_is_reported_one_by_one():
    class Fails(Together):
        def describe_many(self, images):
            raise RuntimeError

    class TooFew(Together):
        def describe_many(self, images):
            return super().describe_many(images)[1:]

    class Own(Together):
        def describe(self, image):
            return 2 * super().describe(image)

    images = [np.full((4, 4), i / 50) for i in range(50)]
    expected = np.arange(50, dtype=np.float32) / 50
    for descriptor, factor in ((Fails(), 1), (TooFew(), 1), (Own(), 2)):
        np.testing.assert_allclose(describe(images, descriptor).values[:, 0], factor * expected, rtol=1e-6)
