"""The search structures against all distances."""

import sys

import numpy as np
import pytest

from cbid.classify.patch_search import CodeSearch, FlatSearch, KDTreeSearch, LSHSearch
from tests.classify.bags import squared_distances

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 12)).astype(np.float32)
Q = np.concatenate([X[:5], RNG.normal(size=(40, 12))]).astype(np.float32)


def reference(k):
    table = squared_distances(Q, X)
    order = np.argsort(table, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(table, order, axis=1), order


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize(
    "structure",
    [
        FlatSearch(X),
        KDTreeSearch(X, checks=10_000, n_trees=1, seed=0),  # as many comparisons as rows: nothing is missed
        LSHSearch(X, n_tables=1, n_functions=1, bin_width=1000.0, seed=0),  # nearly all in one bucket
    ],
    ids=["flat", "kd-tree", "lsh"],
)
def test_with_nothing_left_out_the_answers_are_exact(structure, k, n_threads):
    distances, positions = structure.query(Q, k, n_threads)
    wanted, order = reference(k)
    np.testing.assert_allclose(distances, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(positions, order)
    assert distances.dtype == np.float32
    assert positions.dtype == np.int64


def test_more_neighbours_than_rows_leave_places_empty():
    for structure in (
        FlatSearch(X[:3]),
        KDTreeSearch(X[:3], checks=10, n_trees=1, seed=0),
        LSHSearch(X[:3], n_tables=1, n_functions=1, bin_width=1000.0, seed=0),
        CodeSearch(np.packbits(X[:3] > 0, axis=1), n_bits=12, weights=None),
    ):
        asked = np.packbits(Q > 0, axis=1) if isinstance(structure, CodeSearch) else Q
        distances, positions = structure.query(asked, 5, 1)
        assert np.isinf(distances[:, 3:]).all()
        assert np.isfinite(distances[:, :3]).all()
        assert (positions[:, 3:] == -1).all()
        assert (np.sort(positions[:, :3], axis=1) == [0, 1, 2]).all()


def test_best_bin_first_gets_nearer_with_more_comparisons():
    rows = RNG.normal(size=(3000, 12)).astype(np.float32)
    exact = FlatSearch(rows).query(Q, 1, 1)[0].sum()
    sums = [KDTreeSearch(rows, checks=n, n_trees=1, seed=0).query(Q, 1, 1)[0].sum() for n in (5, 50, 500)]
    assert sums[0] > sums[1] > sums[2] >= exact * (1 - 1e-5)


def test_kd_trees_repeat_by_their_seed():
    a, b, c = (KDTreeSearch(X, checks=5, n_trees=1, seed=s).query(Q, 3, 1)[1] for s in (1, 1, 2))
    assert (a == b).all()
    assert (a != c).any()


def test_kd_trees_without_opencv_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r"extra .images."):
        KDTreeSearch(X, checks=5, n_trees=1, seed=0)


def test_lsh_looks_where_a_plain_implementation_looks():
    """Buckets as tuples of floors, in a dictionary for each table."""
    settings = {"n_tables": 4, "n_functions": 3, "bin_width": 2.5, "seed": 5}
    structure = LSHSearch(X, **settings)
    rng = np.random.default_rng(5)
    directions = rng.normal(size=(12, 12))
    directions /= np.linalg.norm(directions, axis=0)
    shifts = rng.random(12, dtype=np.float32)

    def buckets(rows):
        floors = np.floor(rows @ (directions / 2.5).astype(np.float32) + shifts).astype(int).reshape(len(rows), 4, 3)
        return [[tuple(bins) for bins in row] for row in floors.tolist()]

    many = np.concatenate([Q, 2 * rng.normal(size=(400, 12)).astype(np.float32)])  # some of them in empty buckets
    stored, table = buckets(X), squared_distances(many, X)
    distances, positions = structure.query(many, 2, 1)
    for q, own in enumerate(buckets(many)):
        shared = [i for i, row in enumerate(stored) if any(a == b for a, b in zip(row, own))]
        nearest = sorted(shared, key=lambda i: (table[q, i], i))[:2]
        assert positions[q].tolist() == nearest + [-1] * (2 - len(nearest))
        np.testing.assert_allclose(distances[q, : len(nearest)], table[q, nearest], rtol=1e-5, atol=1e-6)


def test_lsh_collides_as_often_as_theory_says():
    """Two points c apart share a bin of one direction with probability E[max(0, 1 - |a.u| c / r)]: Datar et al. give
    2 F(r/s) - 1 - 2 / (sqrt(2 pi) r/s) (1 - exp(-(r/s)^2 / 2)) for a.u normal with deviation s / c; on the unit
    sphere of many dimensions a.u is nearly normal with deviation 1 / sqrt(d)."""
    from scipy.stats import norm

    d, c, r = 128, 1.0, 0.25
    u = np.zeros(d, np.float32)
    u[0] = c
    structure = LSHSearch(np.zeros((1, d), np.float32), n_tables=20_000, n_functions=1, bin_width=r, seed=0)
    shared = (structure._keys(u[None]) == structure._keys(np.zeros((1, d), np.float32))).mean()
    ratio = r * np.sqrt(d) / c
    theory = 2 * norm.cdf(ratio) - 1 - 2 / (np.sqrt(2 * np.pi) * ratio) * (1 - np.exp(-(ratio**2) / 2))
    assert abs(shared - theory) < 4 * np.sqrt(theory * (1 - theory) / 20_000) + 0.002


def test_codes_by_weighted_hamming():
    codes, asked = np.packbits(X > 0, axis=1), np.packbits(Q > 0, axis=1)
    weights = np.arange(12) / 4
    table = ((Q[:, None, :] > 0) != (X[None] > 0)) @ weights
    distances, positions = CodeSearch(codes, n_bits=12, weights=weights).query(asked, 4, 1)
    order = np.argsort(table, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(distances, np.take_along_axis(table, order, axis=1).astype(np.float32))
