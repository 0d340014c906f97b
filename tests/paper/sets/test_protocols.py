"""Splits: counts, what never mixes, and that they are the same everywhere."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.data.image_sets import ImageItems
from cbid.paper.sets.base import NamedSet, SetInfo, by_part, by_pose_block, per_class, query_poses, shuffled


def made(sizes, protocols=None, **parts):
    """A set of tiny images, ``sizes`` of each class; image i is of value i % 251."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    images = ImageItems(np.arange(len(labels), dtype=np.uint8)[:, None, None] % 251 + np.zeros((1, 2, 2), np.uint8))
    images.labels, images.classes = labels, np.array([f"class {c}" for c in range(len(sizes))])
    info = SetInfo("toy", "Toy", "none", "nowhere", "none", lambda path: (images, {}), protocols or {})
    return NamedSet(info, Path("."), images, {name: (lambda value=value: value) for name, value in parts.items()})


def check(split, n):
    """Sorted parts that do not meet."""
    everything = np.concatenate([split.train, split.validation, split.test])
    assert len(np.unique(everything)) == len(everything)
    for part in (split.train, split.validation, split.test):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
        assert len(part) == 0 or (part[0] >= 0 and part[-1] < n)


@given(
    st.lists(st.integers(6, 15), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(0, 2),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_counts_of_every_class(sizes, train, validation, test):
    data = made(sizes)
    split = data.split_by(per_class(train, validation, test))
    check(split, len(data))
    for label, size in enumerate(sizes):
        counts = [(data.labels[part] == label).sum() for part in (split.train, split.validation, split.test)]
        rest = size - train - validation
        assert counts == [train, validation, rest if test is None else min(test, rest)]


def test_repeats_differ_and_are_the_same_each_time():
    data = made([40, 40], {"paper": per_class(10, 5)})
    splits = [data.split("paper", repeat) for repeat in range(5)]
    again = [data.split("paper", repeat) for repeat in range(5)]
    for one, two in zip(splits, again):
        np.testing.assert_array_equal(one.train, two.train)
    assert len({tuple(split.train) for split in splits}) == 5
    overlap = np.mean([np.isin(splits[0].train, other.train).mean() for other in splits[1:]])
    assert 0.1 < overlap < 0.45  # a quarter, were it drawn at random


def test_the_order_is_that_of_a_hash_of_the_name():
    """The definition, written out; with the value it has on every machine."""
    names = [f"image {i}" for i in range(20)]
    order = shuffled(np.arange(20), names, "set/paper/0")
    keys = [hashlib.blake2b(f"set/paper/0/{name}".encode(), digest_size=8).hexdigest() for name in names]
    assert [keys[i] for i in order] == sorted(keys)
    assert order[:6].tolist() == [11, 15, 18, 19, 2, 6]
    assert shuffled(np.arange(0), [], "x").tolist() == []


def test_global_random_state_has_no_say():
    data = made([20, 20])
    np.random.seed(1)  # noqa: NPY002
    one = data.split_by(per_class(5))
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(one.train, data.split_by(per_class(5)).train)
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_an_image_more_moves_no_other():
    """Every drawn image of the larger set is either new or was drawn before."""
    small, large = made([30]), made([31])
    before, after = (set(data.split_by(per_class(10)).train.tolist()) for data in (small, large))
    assert len(before & after) >= 9


def test_larger_draws_hold_smaller_ones():
    """One's own protocols share one order, so that training sets of growing size are nested."""
    data = made([30, 30])
    few, many = (set(data.split_by(per_class(count)).train.tolist()) for count in (5, 10))
    assert few < many


def test_too_few_images_are_reported_with_their_class():
    with pytest.raises(ValueError, match=r"class 'class 1' of Toy has 5 images; expected 4 to train, 1 to validate"):
        made([9, 5]).split_by(per_class(4, 1))
    made([9, 6]).split_by(per_class(4, 1))


def test_a_given_division_is_kept():
    division = np.array((["train"] * 6 + ["test"] * 4) * 2)
    data = made([10, 10], set=division)
    split = data.split_by(per_class(4, 2, given=True))
    check(split, 20)
    assert (division[split.train] == "train").all()
    assert (division[split.validation] == "train").all()
    np.testing.assert_array_equal(split.test, np.flatnonzero(division == "test"))
    split = data.split_by(by_part("text", "set", (["train"], [], ["test"])))
    np.testing.assert_array_equal(split.train, np.flatnonzero(division == "train"))
    assert len(split.validation) == 0


def test_the_same_bytes_are_in_one_part_only():
    """Images 0 and 251 are equal, and so on: with distinct, the second of each pair takes no part."""
    data = made([300])
    split = data.split_by(per_class(100, 50), distinct=True)
    check(split, 300)
    values = [{data.images[i].tobytes() for i in part} for part in (split.train, split.validation, split.test)]
    assert not values[0] & values[1] | values[0] & values[2] | values[1] & values[2]
    assert sum(map(len, (split.train, split.validation, split.test))) == 251
    assert sum(map(len, vars(data.split_by(per_class(100, 50))).values())) == 300


def test_query_poses():
    """Twelve poses of 30 degrees; 355 is nearest to 0 from the other side."""
    pose = np.tile(np.arange(12) * 30, 2)
    pose[0], pose[11] = 20, 355
    data = made([12, 12], pose=pose)
    split = data.split_by(query_poses((0, 90, 180, 270)))
    check(split, 24)
    assert split.test.tolist() == [3, 6, 9, 11, 12, 15, 18, 21]
    assert len(split.train) == 16
    few = [data.split_by(query_poses((0, 90), train=5), repeat) for repeat in range(2)]
    assert [len(split.train) for split in few] == [10, 10]
    assert few[0].train.tolist() != few[1].train.tolist()
    with pytest.raises(ValueError, match=r"has 10 images .* 2 queries; expected 11"):
        data.split_by(query_poses((0, 90), train=11))


def test_blocks_of_poses():
    pose = np.arange(72) * 5
    data = made([72], pose=pose)
    tested = []
    for repeat in range(5):
        split = data.split_by(by_pose_block(90, 45, 5), repeat)
        check(split, 72)
        assert [len(split.test), len(split.validation), len(split.train)] == [18, 9, 45]
        start = pose[split.test] - pose[split.test][0]
        assert len(np.flatnonzero(np.diff(start) != 5)) <= 1  # in a row, but for the turn at 360
        tested += split.test.tolist()
    assert len(set(tested)) > 60


def test_names_that_are_not_known_are_reported():
    data = made([10], {"paper": per_class(2)})
    with pytest.raises(ValueError, match="protocol='papers'"):
        data.split("papers")
    with pytest.raises(ValueError, match="repeat=5"):
        data.split("paper", 5)
