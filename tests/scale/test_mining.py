"""Hits and misses mined in spans are those that are found in memory."""

import numpy as np
import pytest

from cbid.learning.neighbourhoods import find_neighbourhoods, of_unit_size
from cbid.scale import mine_to


def brute(X, y, anchor, of, count):
    """By the definition: rows of class ``of`` by distance, then by number, the anchor itself left out."""
    rows = np.flatnonzero(y == of)
    rows = rows[rows != anchor]
    return rows[np.lexsort((rows, ((X[rows] - X[anchor]) ** 2).sum(axis=1)))][:count]


@pytest.fixture
def mined(vectors, tmp_path, monkeypatch):
    monkeypatch.setattr("cbid.scale.mining._SPAN_BYTES", 4 * 12 * 90)  # 90 members at a time
    X, y = vectors
    X, y = X[:400].astype(np.float64), y[:400]
    X[7] = X[8] = X[9]  # copies, which are no reason to name oneself
    return X, y, mine_to(X, tmp_path / "near", labels=y, n_hits=4, n_misses=3, part_rows=70)


def test_they_are_the_nearest(mined):
    X, y, found = mined
    assert found.hits.shape == (400, 4)
    assert found.misses.shape == (400, 4, 3)
    for anchor in range(400):
        np.testing.assert_array_equal(found.hits[anchor], brute(X, y, anchor, y[anchor], 4))
        for r in range(4):
            expected = [-1] * 3 if r == y[anchor] else brute(X, y, anchor, r, 3)
            np.testing.assert_array_equal(found.misses[anchor, r], expected)


def test_they_are_those_found_in_memory(mined):
    X, y, found = mined
    settings = {"n_hits": 4, "n_misses": 3, "hits": "nearest", "misses": "nearest", "max_rows": 10**9}
    expected = find_neighbourhoods(of_unit_size(X), y, rng=np.random.default_rng(0), **settings)
    for name in ("hits", "anchors", "others", "misses"):
        np.testing.assert_array_equal(getattr(found.neighbourhoods(), name), getattr(expected, name))


def test_small_classes_and_rows_without_a_label(tmp_path):
    """Row 0 alone in its class, row 3 of no class: -1 where there is nobody."""
    X = np.array([[0.0], [1.0], [2.0], [2.1]])
    labels = np.array(["a", "b", "b", None], dtype=object)
    found = mine_to(X, tmp_path / "near", labels=labels, n_hits=1, n_misses=2)
    assert found.hits.tolist() == [[-1], [2], [1], [-1]]
    assert found.misses.tolist() == [
        [[-1, -1], [1, 2]],
        [[0, -1], [-1, -1]],
        [[0, -1], [-1, -1]],
        [[0, -1], [2, 1]],
    ]


def test_bad_arguments(vectors, tmp_path):
    with pytest.raises(ValueError, match="labels is None and the source has none"):
        mine_to(vectors[0], tmp_path / "near")
    with pytest.raises(ValueError, match="n_hits=0 is not accepted"):
        mine_to(vectors[0], tmp_path / "near", labels=vectors[1], n_hits=0)
    with pytest.raises(ValueError, match=r"source has shape \(0, 12\)"):
        mine_to(vectors[0][:0], tmp_path / "near", labels=[])
    with pytest.raises(ValueError, match="labels has None for every row"):
        mine_to(vectors[0], tmp_path / "near", labels=np.full(1000, None))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_told(vectors, tmp_path, monkeypatch, bad):
    monkeypatch.setattr("cbid.scale.mining._SPAN_BYTES", 4 * 12 * 90)
    X = vectors[0].copy()
    X[777, 3] = bad
    with pytest.raises(ValueError, match="source holds NaN or infinity in row 777"):
        mine_to(X, tmp_path / "near", labels=vectors[1])
    with pytest.raises(ValueError, match="too large to be compared"):
        mine_to(np.full((4, 2), 1.7e308), tmp_path / "near", labels=[0, 0, 1, 1])


def test_rows_without_a_label_are_no_anchors(tmp_path):
    labels = np.array(["a", "b", "b", None], dtype=object)
    found = mine_to(np.arange(4.0)[:, None], tmp_path / "near", labels=labels, n_hits=1, n_misses=1).neighbourhoods()
    assert found.anchors.tolist() == [1, 2, 0]
    assert found.others.tolist() == [0, 0, 1]
    assert found.misses.tolist() == [[0], [0], [1]]


def test_other_ids_are_another_job(vectors, tmp_path):
    X, y = vectors
    for ids in (np.arange(50), np.arange(50) + 1):
        np.savez_compressed(tmp_path / "x.npz", X=X[:50], y=y[:50], ids=ids)
        if ids[0]:
            with pytest.raises(FileExistsError):
                mine_to(tmp_path / "x.npz", tmp_path / "near")
        mine_to(tmp_path / "x.npz", tmp_path / "near", overwrite=True)
        np.testing.assert_array_equal(np.load(tmp_path / "near" / "ids.npy"), ids)
