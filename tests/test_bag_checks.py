"""What counts as bags, and errors that name the image."""

import numpy as np
import pytest

from cbid.bag_checks import are_bags, check_bags, positions
from cbid.bags import Bags

BAGS = [np.arange(6.0).reshape(3, 2), np.zeros((0, 2)), np.ones((1, 2))]


def test_bags_and_arrays_are_told_apart():
    assert are_bags(Bags.from_list(BAGS))
    assert are_bags(BAGS)
    assert are_bags(tuple(BAGS))
    assert are_bags(np.zeros((2, 5, 3)))
    assert not are_bags(np.zeros((5, 3)))
    assert not are_bags([[1.0, 2.0], [3.0, 4.0]])
    assert not are_bags([])
    assert not are_bags("bags")


def test_lists_become_bags():
    bags = check_bags(BAGS)
    assert bags.sizes.tolist() == [3, 0, 1]
    assert check_bags(bags) is bags
    assert check_bags(np.zeros((2, 5, 3))).sizes.tolist() == [5, 5]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_name_the_image(value):
    bad = [bag.copy() for bag in BAGS]
    bad[2][0, 1] = value
    with pytest.raises(ValueError, match="image 2 has a descriptor with NaN or infinity: row 0 of its bag"):
        check_bags(bad)
    bad[0][1, 0] = value
    with pytest.raises(ValueError, match="image 0 has a descriptor with NaN or infinity: row 1"):
        check_bags(bad)


@pytest.mark.parametrize("value", [1e19, -3e38])
def test_values_whose_squares_overflow_name_the_image(value):
    bad = [bag.copy() for bag in BAGS]
    bad[2][0, 1] = value
    with pytest.raises(ValueError, match=rf"image 2 has a descriptor of length {abs(value):.3g}".replace("+", r"\+")):
        check_bags(bad)
    bad[2][0, 1] = 9e18
    check_bags(bad)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((5, 3)), r"bags is a ndarray of shape \(5, 3\); give Bags"),
        (None, "bags is a NoneType; give Bags"),
        ([np.zeros((2, 4)), np.zeros((2, 5))], r"bag 1 has shape \(2, 5\)"),
        ([np.zeros(4)], r"bag 0 has shape \(4,\)"),
        ([], "bags is empty"),
        ([np.zeros((3, 0))], "no column"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_bags(given)


def test_width():
    with pytest.raises(ValueError, match="descriptors of 2 columns; 3 are expected"):
        check_bags(BAGS, n_features=3)


def test_positions_are_shares_of_width_and_height():
    frames = [[[0, 0, 8], [20, 5, 8]], np.zeros((0, 3)), [[30, 10, 8]]]
    bags = Bags.from_list(
        [np.zeros((2, 2)), np.zeros((0, 2)), np.zeros((1, 2))], frames, [(10, 40), (0, 0), (20, 40)]
    )
    np.testing.assert_allclose(positions(bags), [[0, 0], [0.5, 0.5], [0.75, 0.5]])


def test_positions_need_frames_and_shapes():
    with pytest.raises(ValueError, match="bags have no frames and shapes"):
        positions(Bags.from_list(BAGS))
    frames = [np.zeros((len(bag), 3)) for bag in BAGS]
    with pytest.raises(ValueError, match="bags have no shapes"):
        positions(Bags.from_list(BAGS, frames))
    with pytest.raises(ValueError, match=r"image 2 has descriptors but shape \[0, 5\]"):
        positions(Bags.from_list(BAGS, frames, [(3, 3), (3, 3), (0, 5)]))
    frames[0][2, 1] = np.nan
    with pytest.raises(ValueError, match="image 0 has a frame with NaN"):
        positions(Bags.from_list(BAGS, frames, [(3, 3)] * 3))
