"""``describe_to`` gives the values of ``describe``."""

import numpy as np
import pytest
from PIL import Image

from cbid.data import ImageError
from cbid.data.image_sets import ImageItems
from cbid.descriptors import HOG, DenseSIFT, describe
from cbid.descriptors.describing import NothingDescribed
from cbid.scale import describe_to
from cbid.scale.encoding import Describe


@pytest.fixture(scope="module")
def images():
    return [np.random.default_rng(i).random((40, 44)) for i in range(7)]


def test_vectors(images, tmp_path):
    found = describe_to(images, HOG(), tmp_path / "hog.npy", part_images=3)
    expected = describe(images, HOG())
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.rows, np.arange(7))
    assert list(found.names) == list(expected.names)
    assert found.failures == []


def test_bags(images, tmp_path):
    found = describe_to(images, DenseSIFT(), tmp_path / "sift", part_images=3)
    expected = describe(images, DenseSIFT())
    for name in ("values", "offsets", "frames", "shapes"):
        np.testing.assert_array_equal(getattr(found.values, name), getattr(expected.values, name))


def test_failures_are_reported(images, tmp_path):
    """All images of the second part fail, and one of the third."""
    mixed = [*images[:2], np.full((40, 44), 7.0), "missing.png", images[2], b"no image", [[1, 2], [3]]]
    with pytest.raises(ImageError, match="image 2"):
        describe_to(mixed, HOG(), tmp_path / "hog.npy", part_images=2)
    for _ in range(2):  # computed, and found again
        found = describe_to(
            mixed, HOG(), tmp_path / "hog.npy", part_images=2, on_error="skip", overwrite=not found_before(tmp_path)
        )
        expected = describe(mixed, HOG(), on_error="skip")
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.rows, [0, 1, 4])
        assert found.failures == expected.failures


def found_before(folder):
    return (folder / "hog.npy").exists()


def test_bad_arguments(tmp_path, images):
    with pytest.raises(ValueError, match=r"out=.*hog"):
        describe_to(images, HOG(), tmp_path / "hog")
    with pytest.raises(ValueError, match="on_error='ignore'"):
        describe_to(images, HOG(), tmp_path / "hog.npy", on_error="ignore")


@pytest.fixture
def folders(tmp_path):
    """Two folders of six images each, of the same names."""
    for seed, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        rng = np.random.default_rng(seed)
        for i in range(6):
            Image.fromarray(rng.integers(0, 255, (40, 44), np.uint8)).save(tmp_path / name / f"{i}.png")
    return tmp_path / "a", tmp_path / "b"


def test_another_folder_of_the_same_names_is_another_source(folders, tmp_path, monkeypatch):
    a, b = folders
    out = tmp_path / "hog.npy"
    describe_to(a, HOG(), out)
    with pytest.raises(FileExistsError, match=r"hog.npy"):
        describe_to(b, HOG(), out)
    found = describe_to(b, HOG(), out, overwrite=True)
    np.testing.assert_array_equal(found.values, describe(b, HOG()).values)


def test_parts_of_another_folder_are_not_mixed_in(folders, tmp_path, monkeypatch):
    a, b = folders
    compute = Describe.__call__

    def until_4(self, start, stop):
        if start == 4:
            raise KeyboardInterrupt
        return compute(self, start, stop)

    with monkeypatch.context() as patch:
        patch.setattr(Describe, "__call__", until_4)
        with pytest.raises(KeyboardInterrupt):
            describe_to(a, HOG(), tmp_path / "hog.npy", part_images=2)
    with pytest.raises(FileExistsError, match=r"\(changed: images\)"):
        describe_to(b, HOG(), tmp_path / "hog.npy", part_images=2)


def test_a_changed_file_is_another_image(folders, tmp_path):
    a, b = folders
    describe_to(a, HOG(), tmp_path / "hog.npy")
    (a / "3.png").write_bytes((b / "3.png").read_bytes())
    with pytest.raises(FileExistsError):
        describe_to(a, HOG(), tmp_path / "hog.npy")


def test_arrays_are_identified_by_content(images, tmp_path):
    out = tmp_path / "hog.npy"
    describe_to(images[:3], HOG(), out)
    describe_to([image.copy() for image in images[:3]], HOG(), out)  # the same
    with pytest.raises(FileExistsError):
        describe_to(images[3:6], HOG(), out)


def test_the_source_is_no_output(tmp_path):
    pictures = np.random.default_rng(0).random((3, 40, 44))
    np.save(tmp_path / "x.npy", pictures)
    for source in (
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        ImageItems(np.load(tmp_path / "x.npy", mmap_mode="r")),
    ):
        with pytest.raises(ValueError, match=r"x.npy is the source itself"):
            describe_to(source, HOG(), tmp_path / "x.npy", overwrite=True)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), pictures)


def test_nothing_described(tmp_path):
    broken = [b"no image", b"none either"]
    with pytest.raises(NothingDescribed, match="image 0: ") as raised:
        describe_to(broken, HOG(), tmp_path / "hog.npy", on_error="skip", part_images=1)
    assert [name for name, _ in raised.value.failures] == ["image 0", "image 1"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part_images", [1, 2, 10])
def test_images_of_another_width_are_named(images, tmp_path, part_images):
    """Images 2 and 4; one of them is the first image of a part for ``part_images`` of 1 and 2."""
    large = [np.random.default_rng(i).random((64, 64)) for i in range(2)]
    mixed = [*images[:2], *large[:1], images[2], large[1], *images[3:6]]
    expected = describe(mixed, HOG(), on_error="skip")
    assert [name for name, _ in expected.failures] == ["image 2", "image 4"]
    found = describe_to(mixed, HOG(), tmp_path / "hog.npy", on_error="skip", part_images=part_images)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert found.failures == expected.failures
    with pytest.raises(ImageError, match=r"image 2: .*1764 values"):
        describe_to(mixed, HOG(), tmp_path / "other.npy", part_images=part_images)


def test_bags_of_another_width_are_named(images, tmp_path):
    class Odd(DenseSIFT):
        def describe(self, image):
            values, frames, shape = super().describe(image)
            return (values[:, :5] if image.shape == (64, 64) else values), frames, shape

    mixed = [images[0], np.random.default_rng(0).random((64, 64)), images[1]]
    found = describe_to(mixed, Odd(), tmp_path / "sift", on_error="skip", part_images=1)
    assert found.rows.tolist() == [0, 2]
    assert [name for name, _ in found.failures] == ["image 1"]
