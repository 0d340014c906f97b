"""Vectors of data sets, split as requested."""

import numpy as np
import pytest

from cbid.paper.base import Context
from cbid.paper.coding import FEATURES, load_vectors, mapped_bags, parts_of
from cbid.paper.sets import open_set
from tests.paper.made import context, write_classes

DIGITS = {"set": "digits", "features": "raw pixels", "axes": None, "repeat": 1, "protocol": "held-out"}


@pytest.fixture
def place(tmp_path):
    return Context(None, tmp_path)


def test_parts_are_those_of_the_protocol(place):
    found = load_vectors(DIGITS, place)
    split = open_set("digits").split("held-out", 1)
    np.testing.assert_array_equal(np.sort(found.train_rows), split.train)
    np.testing.assert_array_equal(found.test_rows, split.test)
    assert (np.diff(found.train_rows) < 0).any()  # in random order
    labels = open_set("digits").labels
    np.testing.assert_array_equal(found.y, labels[found.train_rows])
    np.testing.assert_array_equal(found.yt, labels[found.test_rows])
    pixels = FEATURES["raw pixels"](open_set("digits"), found.train_rows[:5], place)
    np.testing.assert_array_equal(found.X[:5], pixels)


def test_sizes_can_be_reduced(place):
    data = open_set("digits")
    train, _, test = parts_of(data, DIGITS | {"most_train": 7, "most_test": 3, "classes": 4})
    assert np.bincount(data.labels[train]).tolist() == [7] * 4
    assert np.bincount(data.labels[test]).tolist() == [3] * 4
    assert not np.intersect1d(train, test).size


def test_principal_axes_hold_99_percent_of_the_training_variance(place):
    plain, cut = load_vectors(DIGITS, place), load_vectors(DIGITS | {"axes": "pca"}, place)
    total = plain.X.var(axis=0).sum()
    held = np.cumsum(cut.X.var(axis=0)) / total
    assert held[-1] >= 0.99 - 1e-5
    assert held[-2] < 0.99
    assert cut.Xt.shape[1] == cut.X.shape[1]


def test_drawn_by_numbers_from_class_folders(tmp_path):
    write_classes(tmp_path / "graz02", ("bikes", "cars"), 6, size=16)
    settings = {"set": "graz02", "features": "raw pixels", "axes": None, "repeat": 0, "protocol": [2, 1, 3]}
    found = load_vectors(settings, context(tmp_path))
    assert (found.X.shape, found.Xt.shape) == ((4, 256), (6, 256))
    held_out = found.for_validation()
    assert held_out.Xt.shape == (2, 256)
    assert held_out.yt.tolist() == [0, 1]
    assert np.bincount(found.yt).tolist() == [3, 3]


def test_mapped_bags_leave_no_file(tmp_path):
    from cbid.descriptors import DenseSIFT

    write_classes(tmp_path / "graz02", ("bikes", "cars", "people"), 2)
    where, sift = context(tmp_path), DenseSIFT(step=16)
    data = open_set("graz02", tmp_path)
    rows = np.array([4, 1])
    bags = mapped_bags(data, rows, sift, where)
    assert not list(where.cache.glob("bags-*"))
    expected = sift.transform(data.images[rows])
    np.testing.assert_array_equal(bags.values, expected.values)
    np.testing.assert_array_equal(bags.offsets, expected.offsets)
    assert isinstance(bags.values, np.memmap) or isinstance(bags.values.base, np.memmap)
