"""Descriptors in parts are those of ``describe``."""

import numpy as np
import pytest

from cbid.data import ImageError, describe
from cbid.descriptors import HOG, DenseSIFT
from cbid.scale import describe_to


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


def test_what_cannot_be_described_is_told(images, tmp_path):
    """The whole of the second part, and one of the third."""
    mixed = [*images[:2], np.full((40, 44), 7.0), "missing.png", images[2], b"no image"]
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
    with pytest.raises(ValueError, match=r"give the name of a \.npy file"):
        describe_to(images, HOG(), tmp_path / "hog")
    with pytest.raises(ValueError, match="on_error='ignore' is not accepted"):
        describe_to(images, HOG(), tmp_path / "hog.npy", on_error="ignore")
