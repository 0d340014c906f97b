"""Bags: cutting, taking, sampling, and what they refuse."""

import numpy as np
import pytest

from cbid.bags import Bags


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
        ((np.zeros((3, 2)), np.array([0, 2])), "offsets must start at 0"),
        ((np.zeros((3, 2)), np.array([0, 4, 3])), "must not decrease"),
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
    with pytest.raises(ValueError, match=f"{name} is no array of numbers"):
        Bags(*arguments)


def test_widths_must_agree():
    with pytest.raises(ValueError, match=r"bag 1 has shape \(2, 5\)"):
        Bags.from_list([np.zeros((2, 4)), np.zeros((2, 5))])
    with pytest.raises(ValueError, match="bags is empty"):
        Bags.from_list([])


@pytest.mark.parametrize(
    ("bags", "message"),
    [
        ([[1, 2], [3]], r"bag 0 has shape \(2,\); a row for each descriptor, \(m_i, d\), is accepted"),
        ([[[1, 2]], [3, 4]], r"bag 1 has shape \(2,\); a row"),
        ([[[1, 2]], [[3]]], r"bag 1 has shape \(1, 1\); bag 0 has \(1, 2\): widths must agree"),
        ([[[1, 2]], [[1, 2], [3]]], "bag 1 is no array of numbers"),
        ([[["a"]]], "bag 0 is no array of numbers"),
    ],
)
def test_lists_that_are_no_bags_are_told_why(bags, message):
    with pytest.raises(ValueError, match=message):
        Bags.from_list(bags)
