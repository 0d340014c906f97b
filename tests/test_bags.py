"""Bags: slicing, sampling, checks and positions."""

import numpy as np
import pytest

from cbid.bags import Bags, are_bags, check_bags, position_scale, positions, with_positions


def made(sizes, d=4):
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(m, d)) for m in sizes]
    frames = [np.column_stack([np.arange(m), np.full(m, i), np.full(m, 16)]) for i, m in enumerate(sizes)]
    return Bags.from_list(values, frames, [(10, 20 + i) for i in range(len(sizes))]), values, frames


def test_rows_come_back_image_by_image():
    bags, values, _ = made([3, 0, 5])
    assert [len(bag) for bag in bags] == [3, 0, 5]
    for bag, given in zip(bags, values):
        np.testing.assert_array_equal(bag, given.astype(np.float32))
    assert bags.owners.tolist() == [0] * 3 + [2] * 5
    np.testing.assert_array_equal(bags[-1], bags[2])
    with pytest.raises(IndexError):
        bags[3]


def test_take_keeps_order_frames_and_shapes():
    bags, values, frames = made([3, 0, 5, 2])
    some = bags.take([3, 0, 3])
    np.testing.assert_array_equal(some.values, np.concatenate([values[i] for i in (3, 0, 3)]).astype(np.float32))
    np.testing.assert_array_equal(some.frames, np.concatenate([frames[i] for i in (3, 0, 3)]).astype(np.float32))
    assert some.shapes.tolist() == [[10, 23], [10, 20], [10, 23]]
    mask = bags.take(np.array([False, True, True, False]))
    assert mask.sizes.tolist() == [0, 5]


def test_sample_draws_without_replacement_and_keeps_small_bags():
    bags, *_ = made([3, 0, 50])
    some = bags.sample(10, np.random.default_rng(1))
    assert some.sizes.tolist() == [3, 0, 10]
    drawn = some.frames[some.offsets[2] :, 0]
    assert (np.diff(drawn) > 0).all()
    assert set(drawn) <= set(range(50))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), np.array([0, 3])), "values has shape"),
        ((np.zeros((3, 2)), np.array([0, 2])), "offsets"),
        ((np.zeros((3, 2)), np.array([0, 4, 3])), "decrease"),
        ((np.zeros((3, 2)), np.array([0, 3]), np.zeros((2, 3))), "frames has shape"),
        ((np.zeros((3, 2)), np.array([0, 3]), None, np.zeros((2, 2))), "shapes has shape"),
    ],
)
def test_parts_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Bags(*arguments)


def test_parts_may_be_lists():
    bags = Bags([[1, 2], [3, 4], [5, 6]], [0, 1, 3], [[0, 0, 16]] * 3, [(10, 20), (30, 40)])
    assert bags[1].tolist() == [[3, 4], [5, 6]]
    parts = (bags.values, bags.offsets, bags.frames, bags.shapes)
    assert [part.dtype for part in parts] == [np.float32, np.int64, np.float32, np.int64]
    assert Bags(np.ones((3, 2)), [0, 3]).sizes.tolist() == [3]
    assert len(Bags(np.ones((0, 2)), [0])) == 0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([["a"]], [0, 1]), "values"),
        (([[1, 2], [3]], [0, 2]), "values"),
        ((None, [0, 2]), "values"),
        (([[1, 2]], [0, 1.5]), "offsets"),
        (([[1, 2]], None), "offsets"),
        (([[1, 2]], [0, 1], "none"), "frames"),
        (([[1, 2]], [0, 1], None, [[0.5, 1]]), "shapes"),
    ],
)
def test_parts_that_are_no_arrays_are_named(arguments, name):
    with pytest.raises(ValueError, match=f"{name} is not an array"):
        Bags(*arguments)


def test_widths_must_agree():
    with pytest.raises(ValueError, match=r"bag 1 has shape \(2, 5\)"):
        Bags.from_list([np.zeros((2, 4)), np.zeros((2, 5))])
    with pytest.raises(ValueError, match="bags is empty"):
        Bags.from_list([])


@pytest.mark.parametrize(
    ("bags", "message"),
    [
        ([[1, 2], [3]], r"bag 0 has shape \(2,\)"),
        ([[[1, 2]], [3, 4]], r"bag 1 has shape \(2,\)"),
        ([[[1, 2]], [[3]]], r"bag 1 has shape \(1, 1\).*\(1, 2\)"),
        ([[[1, 2]], [[1, 2], [3]]], "bag 1 is not an array"),
        ([[["a"]]], "bag 0 is not an array"),
    ],
)
def test_lists_that_are_not_bags_are_explained(bags, message):
    with pytest.raises(ValueError, match=message):
        Bags.from_list(bags)


BAGS = [np.arange(6.0).reshape(3, 2), np.zeros((0, 2)), np.ones((1, 2))]


def test_bags_and_arrays_are_distinguished():
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
        (np.zeros((5, 3)), r"bags is a ndarray of shape \(5, 3\)"),
        (None, "bags is a NoneType"),
        ([np.zeros((2, 4)), np.zeros((2, 5))], r"bag 1 has shape \(2, 5\)"),
        ([np.zeros(4)], r"bag 0 has shape \(4,\)"),
        ([], "bags is empty"),
        ([np.zeros((3, 0))], "0 columns"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_bags(given)


def test_width():
    with pytest.raises(ValueError, match="2 columns: expected 3"):
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


def test_descriptors_end_in_scaled_positions():
    """Lengths 5 and 0: the root mean square is sqrt(12.5). Positions are (0.5, 0.5) and (0, 1)."""
    bags = Bags.from_list([[[3.0, 4.0], [0.0, 0.0]]], [[[20, 5, 8], [0, 10, 8]]], [(10, 40)])
    scale = position_scale(bags, 2.0)
    assert scale == pytest.approx(2 * np.sqrt(12.5))
    joined = with_positions(bags, scale)
    np.testing.assert_allclose(joined.values, [[3, 4, scale / 2, scale / 2], [0, 0, 0, scale]], rtol=1e-6)
    assert joined.values.dtype == np.float32
    assert position_scale(bags, None) == position_scale(bags, 0) == 0
    assert with_positions(bags, 0.0) is bags
