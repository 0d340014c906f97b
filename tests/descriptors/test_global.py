"""What all descriptors of one vector an image have in common, and their golden file."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from cbid.data import ImageError
from cbid.descriptors import CENTRIST, GIST, HOG, HaarFeatures, PyramidHOG, RawPixels
from tests.descriptors import photographs
from tests.descriptors.golden import PATH, PLACES

DESCRIPTORS = [
    RawPixels(size=(20, 30), color=True),
    HOG(size=(64, 48)),
    HOG(size=(64, 48), voting="hard", sqrt=True),
    PyramidHOG(),
    PyramidHOG(cells=(16, 8), size=(48, 32), signed=True, orientations=8),
    HaarFeatures(n_features=300),
    GIST(size=64, border=16),
    CENTRIST(moments=True),
]
each = pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda d: f"{type(d).__name__}{DESCRIPTORS.index(d)}")


def mixed():
    return [*photographs.gray(), *photographs.color()]


@each
def test_float32_rows_in_order(descriptor):
    values = descriptor.fit_transform(mixed())
    assert values.dtype == np.float32
    assert values.ndim == 2
    assert len(values) == len(mixed())
    assert np.isfinite(values).all()
    for i in (0, 4):
        np.testing.assert_array_equal(descriptor.describe(mixed()[i]), values[i])


@each
def test_types_agree(descriptor):
    for image in (photographs.gray()[0], photographs.color()[0]):
        exact = descriptor.describe(image / 255)
        for other in (image, (image / 255).astype(np.float32)):
            np.testing.assert_allclose(descriptor.describe(other), exact, atol=2e-4 * max(1, np.abs(exact).max()))


@each
def test_image_is_not_changed(descriptor):
    for image in (photographs.color()[0], np.float32(photographs.gray()[0] / 255)):
        before = image.copy()
        descriptor.describe(image)
        np.testing.assert_array_equal(image, before)


@each
def test_views_are_as_good_as_copies(descriptor):
    image = photographs.color()[0][::-1, 10:150].transpose(1, 0, 2)
    np.testing.assert_array_equal(descriptor.describe(image), descriptor.describe(image.copy()))


@each
def test_jobs_change_nothing(descriptor):
    images = [photographs.gray()[0][i : i + 70, i : i + 70] for i in range(80)]
    one, two = (clone(descriptor).set_params(n_jobs=jobs).transform(images) for jobs in (None, 2))
    np.testing.assert_array_equal(one, two)


@each
def test_files_as_arrays(descriptor, tmp_path):
    from PIL import Image

    paths = [tmp_path / f"{i}.png" for i in range(2)]
    images = [photographs.gray()[0], photographs.color()[0]]
    for path, image in zip(paths, images):
        Image.fromarray(image).save(path)
    np.testing.assert_array_equal(descriptor.transform(paths), descriptor.transform(images))


@each
def test_progress_is_shown_on_request(descriptor, capsys):
    clone(descriptor).set_params(verbose=1).transform(photographs.gray())
    assert type(descriptor).__name__ in capsys.readouterr().err
    descriptor.transform(photographs.gray())
    assert not capsys.readouterr().err


@each
def test_settings_name_what_values_depend_on(descriptor):
    settings = json.loads(json.dumps(descriptor.settings()))
    assert settings["descriptor"] == type(descriptor).__name__
    same = clone(descriptor).set_params(n_jobs=3, verbose=1)
    assert same.fingerprint() == descriptor.fingerprint()
    assert len({other.fingerprint() for other in DESCRIPTORS}) == len(DESCRIPTORS)


@each
@pytest.mark.parametrize(
    "image",
    [
        np.zeros((0, 5)),
        np.zeros((5, 5, 4)),
        np.zeros(9),
        np.full((9, 9), 2.0),
        np.full((9, 9), np.nan),
        np.eye(9, dtype=int),
    ],
    ids=["empty", "four channels", "flat", "above 1", "nan", "int64"],
)
def test_no_image(descriptor, image):
    with pytest.raises(ImageError, match="the image has"):
        descriptor.transform([image])


@each
@pytest.mark.parametrize("shape", [(1, 1), (1, 10_000), (10_000, 1)])
def test_slivers_are_described_or_refused_with_their_size(descriptor, shape):
    image = np.random.default_rng(0).random(shape)
    if descriptor.size is None:
        with pytest.raises(
            ImageError, match=f"image 0: the image has {shape[0]} x {shape[1]} pixels: expected at least"
        ):
            descriptor.transform([image])
    else:  # any image can be brought to a size
        assert np.isfinite(descriptor.transform([image])).all()


def golden(name):
    with np.load(PATH) as file:
        return file["image"], file[name]


@pytest.mark.parametrize(
    ("descriptor", "tolerance"),
    [
        (HOG(voting="hard"), 1e-5),
        (PyramidHOG(levels=2, orientations=9, voting="hard", sqrt=False, norm="l1"), 1e-6),
        (GIST(size=96), 1e-5),
        (CENTRIST(levels=1, norm=None), 1e-6),
    ],
)
def test_golden_file(descriptor, tolerance):
    image, expected = golden(type(descriptor).__name__)
    for values in (image, np.float32(image / 255), image / 255):
        np.testing.assert_allclose(descriptor.describe(values), expected, rtol=1e-3, atol=tolerance)


def test_golden_haar_features():
    image, expected = golden("HaarFeatures")
    descriptor = HaarFeatures(kinds=("2-x",), variance=False)
    [(_, places)] = descriptor.rectangles()
    rows = [np.flatnonzero((places == place).all(axis=1))[0] for place in PLACES]
    np.testing.assert_allclose(descriptor.describe(image[:19, :19])[rows], expected, atol=1e-5)
