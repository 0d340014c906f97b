"""Hits and misses against brute force, ties, small classes."""

import numpy as np
import pytest

from cbid.learning.neighbourhoods import find_neighbourhoods

SETTINGS = {"n_hits": 3, "n_misses": 2, "hits": "nearest", "misses": "nearest", "max_rows": 10**6}


def find(X, y, **changes):
    return find_neighbourhoods(
        np.asarray(X, dtype=np.float32), np.asarray(y), **{**SETTINGS, **changes}, rng=np.random.default_rng(0)
    )


def brute_nearest(X, candidates, i, count):
    distance = ((X[candidates] - X[i]) ** 2).sum(axis=1)
    return [candidates[j] for j in np.lexsort((candidates, distance))][:count]


def test_nearest_equals_brute_force():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((90, 4)).astype(np.float32), rng.integers(0, 3, 90)
    near = find(X, y)
    for i in range(90):
        own = np.flatnonzero((y == y[i]) & (np.arange(90) != i))
        assert near.hits[i].tolist() == brute_nearest(X, own, i, 3)
    assert len(near.anchors) == 90 * 2
    for i, r, found in zip(near.anchors, near.others, near.misses):
        assert r != y[i]
        assert found.tolist() == brute_nearest(X, np.flatnonzero(y == r), i, 2)


def test_overall_misses_are_the_nearest_of_all_other_classes_for_every_class():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((60, 4)).astype(np.float32), rng.integers(0, 3, 60)
    near = find(X, y, misses="overall")
    assert sorted(zip(near.anchors.tolist(), near.others.tolist())) == [
        (i, r) for i in range(60) for r in range(3) if r != y[i]
    ]
    for i, found in zip(near.anchors, near.misses):
        assert found.tolist() == brute_nearest(X, np.flatnonzero(y != y[i]), i, 2)


def test_tight_classes_far_apart_keep_their_nearest():
    """Distances a thousandth of the offset: the fast formula alone would lose them in float32."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], 60)
    X = (rng.standard_normal((3, 128))[y] + 1e-3 * rng.standard_normal((180, 128))).astype(np.float32)
    near = find(X, y)
    for i in range(180):
        own = np.flatnonzero((y == y[i]) & (np.arange(180) != i))
        assert near.hits[i].tolist() == brute_nearest(X.astype(np.float64), own, i, 3)


def test_ties_go_to_the_smaller_number():
    """All distances are equal, so the first members of each class are chosen."""
    y = np.repeat([0, 1], 8)
    near = find(np.zeros((16, 2)), y)
    assert near.hits[0].tolist() == [1, 2, 3]
    assert near.hits[7].tolist() == [0, 1, 2]
    assert (near.misses[near.others == 1] == [8, 9]).all()


def test_duplicates_of_a_sample_never_stand_for_itself():
    near = find(np.zeros((12, 2)), np.repeat([0, 1], 6))
    assert (near.hits != np.arange(12)[:, None]).all()


def test_class_draws_are_distinct_members_and_not_the_sample():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 400)
    near = find(rng.standard_normal((400, 3)), y, hits="class", misses="class", n_hits=7, n_misses=7)
    assert (y[near.hits] == y[:, None]).all()
    assert (near.hits != np.arange(400)[:, None]).all()
    assert all(len(set(row)) == 7 for row in near.hits)
    assert (y[near.misses] == near.others[:, None]).all()
    # Every member of a class is drawn about equally often: 7 of about 99 others, 100 times.
    drawn = np.bincount(near.hits.ravel(), minlength=400)
    assert drawn.max() < 25


def test_a_small_class_uses_what_it_has_with_one_warning():
    X, y = np.arange(22.0)[:, None], np.array([0] * 20 + [1] * 2)
    with pytest.warns(UserWarning, match="1 of 2 classes have fewer than 4 members") as record:
        near = find(X, y)
    assert len(record) == 1
    assert near.hits[20].tolist() == [21, -1, -1]
    assert near.misses[near.others == 1].tolist() == [[20, 21]] * 20


def test_max_rows_keeps_a_random_part_of_every_class():
    rng = np.random.default_rng(4)
    y = rng.integers(0, 5, 200)
    near = find(rng.standard_normal((200, 2)), y, max_rows=100)
    assert 90 <= len(near.anchors) <= 110
    assert set(near.others) == set(range(5))
    assert (y[near.anchors] != near.others).all()
