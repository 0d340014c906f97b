import numpy as np
import pytest
from skimage.feature import haar_like_feature, haar_like_feature_coord
from skimage.transform import integral_image

from cbid.descriptors import HaarFeatures
from tests.descriptors import photographs


def reference(image, kind):
    """scikit-image's values by the top, left, height and width of their first rectangle."""
    height, width = image.shape
    places, _ = haar_like_feature_coord(width, height, f"type-{kind}")
    values = haar_like_feature(integral_image(image.astype(float)), 0, 0, width, height, f"type-{kind}")
    found = {}
    for rectangles, value in zip(places, values):
        (top, left), (bottom, right) = rectangles[0]
        found[top, left, bottom - top + 1, right - left + 1] = value
    return found


@pytest.mark.parametrize("shape", [(9, 7), (6, 12)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_all_equal_skimage(shape, dtype):
    image = photographs.gray()[0][50 : 50 + shape[0], 60 : 60 + shape[1]]
    image = image if dtype == np.uint8 else (image / 255).astype(dtype)
    scale = 255 if dtype == np.uint8 else 1
    descriptor = HaarFeatures(size=shape, variance=False)
    values, first = descriptor.describe(image), 0
    for kind, places in descriptor.rectangles():
        expected = reference(image / scale, kind)
        assert {tuple(place) for place in places.tolist()} == set(expected)
        wanted = [expected[tuple(place)] for place in places.tolist()]
        np.testing.assert_allclose(values[first : first + len(places)], wanted, atol=1e-5)
        first += len(places)
    assert first == len(values)


def test_numbers_of_viola_and_jones():
    assert HaarFeatures(size=(24, 24)).describe(np.zeros((24, 24))).shape == (162_336,)
    assert HaarFeatures().describe(np.zeros((19, 19))).shape == (63_960,)


def test_a_bright_half():
    """The right half of 4 x 6 is white: of two rectangles of 4 x 3 side by side the positive has 12 white pixels."""
    image = np.zeros((4, 6))
    image[:, 3:] = 1
    descriptor = HaarFeatures(size=(4, 6), kinds=["2-x"], variance=False)
    [(_, places)] = descriptor.rectangles()
    [whole] = np.flatnonzero((places == [0, 0, 4, 3]).all(axis=1))
    assert descriptor.describe(image)[whole] == 12


def test_light_and_contrast_do_not_matter_with_variance():
    image = photographs.gray()[1][:19, :19] / 255
    descriptor = HaarFeatures()
    np.testing.assert_allclose(descriptor.describe(image * 0.4 + 0.3), descriptor.describe(image), atol=2e-4)
    np.testing.assert_array_equal(descriptor.describe(np.full((19, 19), 0.4)), 0)


def test_a_choice_is_a_part_of_all():
    image = photographs.gray()[0]
    everything = HaarFeatures(size=(12, 10))
    some = HaarFeatures(size=(12, 10), n_features=500, random_state=3)
    values = {}
    first = 0
    for kind, places in everything.rectangles():
        for i, place in enumerate(places.tolist()):
            values[kind, *place] = first + i
        first += len(places)
    chosen = [values[kind, *place] for kind, places in some.rectangles() for place in places.tolist()]
    assert len(set(chosen)) == 500
    np.testing.assert_array_equal(some.describe(image), everything.describe(image)[chosen])
    again, other = (HaarFeatures(size=(12, 10), n_features=500, random_state=s).describe(image) for s in (3, 4))
    np.testing.assert_array_equal(again, some.describe(image))
    assert (other != again).any()


def test_a_choice_from_a_large_window():
    assert HaarFeatures(size=(100, 100), n_features=50).describe(photographs.color()[0]).shape == (50,)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size": (2, 9)}, r"size\[0\]=2"),
        ({"size": (100, 100)}, "set n_features"),
        ({"kinds": ()}, "kinds="),
        ({"kinds": ("2-x", "5")}, r"kinds\[1\]='5'"),
        ({"size": (3, 3), "n_features": 10_000}, "n_features=10000"),
        ({"random_state": None}, "random_state=None"),
        ({"variance": "yes"}, "variance='yes'"),
    ],
)
def test_settings_that_are_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        HaarFeatures(**params).fit(None)
