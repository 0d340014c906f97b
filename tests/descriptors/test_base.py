"""What all descriptors share: inputs, order, settings, errors."""

import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cbid.bags import Bags
from cbid.data import ImageError, ImageFolder
from cbid.descriptors import GIST, DenseSIFT, KernelDescriptors, PyramidHOG
from tests.data.pictures import pgm, write_tree
from tests.data.toys import Flat, Means, Rows, ThreadedMeans

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 6, 5), dtype=np.uint8)


@pytest.mark.parametrize("descriptor", [Means(), Means(n_jobs=2), ThreadedMeans(n_jobs=2)])
def test_images_in_every_form(descriptor, tmp_path):
    expected = np.column_stack([IMAGES.mean(axis=(1, 2)), IMAGES.max(axis=(1, 2))]) / 255
    write_tree(tmp_path, {f"{i:02d}.pgm": b"P5 5 6 255 " + image.tobytes() for i, image in enumerate(IMAGES)})
    folder = ImageFolder(tmp_path)
    for X in (IMAGES, list(IMAGES), IMAGES / 255, folder, [folder.path(i) for i in range(40)]):
        values = descriptor.fit(X).transform(X)
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, expected, rtol=1e-5)
    color = np.repeat(IMAGES[:, :, :, None], 3, axis=3)
    np.testing.assert_allclose(descriptor.transform(color), expected, rtol=1e-5)


def test_bags_of_local_descriptors():
    bags = Rows().transform(IMAGES)
    assert isinstance(bags, Bags)
    assert bags.sizes.tolist() == [6] * 40
    np.testing.assert_allclose(bags[3], IMAGES[3][:, :4] / 255, rtol=1e-6)


def test_settings_make_the_fingerprint():
    assert Means().fingerprint() == Means(n_jobs=2, verbose=1).fingerprint()
    assert Means(repeat=2).fingerprint() == Means(repeat=np.int64(2)).fingerprint()
    assert len({d.fingerprint() for d in (Means(), Means(repeat=2), ThreadedMeans(), Flat())}) == 4

    class Means2(Means):
        version = 2

    Means2.__name__ = "Means"
    assert Means2().fingerprint() != Means().fingerprint()
    assert Means().settings() == {"descriptor": "Means", "version": 1, "repeat": 1}


def test_as_scikit_learn_has_it():
    descriptor = clone(Means(repeat=2))
    assert descriptor.repeat == 2
    values = make_pipeline(Means(), StandardScaler()).fit_transform(IMAGES)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-5)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a.jpg", r"X='a\.jpg'"),
        ([], "holds no images"),
        (IMAGES[0], r"image 0: the image has shape \(5,\)"),
        ([IMAGES[0], IMAGES[0].astype(int)], "image 1: the image has type int64"),
        ([IMAGES[0], IMAGES[0] / 100], "image 1: the image has values from"),
        (["no.jpg"], r"no\.jpg: No such file"),
    ],
)
def test_what_is_refused(X, message):
    with pytest.raises(ValueError, match=message):
        Means().transform(X)
    with pytest.raises(ValueError, match="repeat=0"):
        Means(repeat=0).fit(IMAGES)


def test_images_of_different_sizes_are_reported():
    with pytest.raises(ImageError, match="image 1: it gives 16 values, the first image 30"):
        Flat().transform([IMAGES[0], IMAGES[0][:4, :4]])


def test_bytes_of_files_are_images_too():
    np.testing.assert_allclose(Means().transform([pgm(51), pgm(255)])[:, 0], [0.2, 1], rtol=1e-6)


@pytest.mark.parametrize(
    "descriptor",
    [GIST(), DenseSIFT(), PyramidHOG(edges=True), KernelDescriptors(sides=[16]), KernelDescriptors(sides=[32])],
    ids=["gist", "sift", "phog", "kernel", "kernel, resized"],
)
def test_without_opencv_the_extra_is_named(descriptor, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match="pip install 'pillow"):
        descriptor.fit_transform([np.random.default_rng(0).random((64, 64))])
