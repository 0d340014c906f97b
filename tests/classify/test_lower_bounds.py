"""Reduced rows bound distances from below, and searches with these bounds are exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid import NBNNClassifier
from cbid.classify.lower_bounds import Reduction, bound_axes, rounding_slack
from cbid.classify.patch_search import FlatSearch, LSHSearch
from tests.classify.bags import local_nbnn, nbnn, squared_distances


def decaying(rng, n, d, *, fall=0.8, centre=0.0, scale=1.0):
    """Rows whose variance falls from axis to axis, along axes of no special direction."""
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (scale * (rng.normal(size=(n, d)) * fall ** np.arange(d)) @ rotation + centre).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 300.0]), st.sampled_from([1e-6, 1.0, 1e6]))
def test_reduced_rows_are_never_farther_apart_than_rows(seed, centre, scale):
    """|A u|^2 + (|r| - |s|)^2 <= |A u|^2 + |r - s|^2 = |u|^2, where r and s are what the axes leave out of two rows
    and u is their difference; up to the rounding that `rounding_slack` allows for."""
    rng = np.random.default_rng(seed)
    rows = decaying(rng, 60, 24, centre=centre * scale, scale=scale)
    rows[:5] = rows[5:10]  # some at distance zero
    axes = bound_axes([rows[:40], rows[40:]])
    assert axes is not None
    reduced = Reduction.around(rows, axes)(rows)
    bounds = squared_distances(reduced, reduced)
    most = float(np.einsum("ij,ij->i", reduced, reduced).max())
    assert (bounds <= squared_distances(rows, rows) + rounding_slack(reduced, most)[:, None]).all()


def test_bounds_settle_most_comparisons():
    """If the axes hold most of the variance, few bounds are below the nearest distance."""
    rng = np.random.default_rng(0)
    rows = decaying(rng, 2000, 64)
    axes = bound_axes([rows])
    reduce = Reduction.around(rows, axes)
    queries = decaying(np.random.default_rng(0), 2100, 64)[2000:]
    nearest = squared_distances(queries, rows).min(axis=1)
    passing = squared_distances(reduce(queries), reduce(rows)) < nearest[:, None]
    assert axes.shape[1] < 16
    assert passing.mean() < 0.02


@pytest.mark.parametrize(
    "rows",
    [
        np.random.default_rng(0).normal(size=(500, 32)).astype(np.float32),  # variance the same along all axes
        np.ones((50, 32), np.float32),
        np.ones((1, 32), np.float32),
        np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32),
        np.random.default_rng(0).normal(size=(50, 1)).astype(np.float32),
        np.full((50, 32), 1e30, np.float32) * np.arange(50, dtype=np.float32)[:, None],  # squares overflow
    ],
    ids=["even", "constant", "one row", "two columns", "one column", "huge"],
)
def test_no_axes_where_bounds_gain_nothing(rows):
    assert bound_axes([rows]) is None


@pytest.mark.parametrize(("centre", "k", "n_threads"), [(0.0, 1, 1), (500.0, 6, 2), (500.0, 1, 1)])
@pytest.mark.parametrize("n", [7, 512, 1301])
def test_flat_search_by_bounds_is_exact(n, centre, k, n_threads):
    rng = np.random.default_rng(n)
    everything = decaying(rng, n + 1500, 40, centre=centre)
    rows, Q = everything[:n], everything[n:]
    Q[:3] = rows[:3]
    axes = bound_axes([everything])
    distances, positions = FlatSearch(rows, axes).query(Q, k, n_threads)
    table = squared_distances(Q, rows)
    order = np.argsort(table, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_allclose(distances, np.take_along_axis(table, order, axis=1), rtol=1e-3, atol=1e-6)


def test_of_equal_rows_the_first_is_nearest():
    rng = np.random.default_rng(0)
    rows = np.tile(decaying(rng, 40, 30), (20, 1))
    axes = bound_axes([rows])
    for structure in (
        FlatSearch(rows, axes),
        LSHSearch(rows, n_tables=1, n_functions=1, bin_width=1e3, seed=0, axes=axes),
    ):
        distances, positions = structure.query(rows[:40], 3, 1)
        np.testing.assert_array_equal(positions, np.arange(40)[:, None] + [0, 40, 80])
        assert (distances == 0).all()


def test_bounds_do_not_change_what_lsh_finds():
    rng = np.random.default_rng(1)
    everything = decaying(rng, 3000, 40)
    rows, Q = everything[:2500], everything[2500:]
    hashing = {"n_tables": 5, "n_functions": 4, "bin_width": 1.0, "seed": 0}
    plain = LSHSearch(rows, **hashing).query(Q, 4, 1)
    found = LSHSearch(rows, **hashing, axes=bound_axes([rows])).query(Q, 4, 1)
    np.testing.assert_array_equal(found[1], plain[1])
    np.testing.assert_array_equal(found[0], plain[0])
    assert (plain[1] >= 0).any()


def test_more_neighbours_than_rows_leave_places_empty():
    rows = decaying(np.random.default_rng(0), 50, 30)
    distances, positions = FlatSearch(rows[:3], bound_axes([rows])).query(rows, 5, 1)
    assert np.isinf(distances[:, 3:]).all()
    assert (positions[:, 3:] == -1).all()
    assert (np.sort(positions[:, :3], axis=1) == [0, 1, 2]).all()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_flat_search_is_exact_far_from_where_the_axes_were_found(scale):
    """Rows elsewhere, in one place, alone, or with one that is far from all others; queries far from all rows."""
    rng = np.random.default_rng(0)
    axes = bound_axes([decaying(rng, 500, 40, scale=scale)])
    own = decaying(rng, 200, 40, fall=0.95, scale=scale)
    outlier = np.concatenate([own, own[:1] + np.float32(1e4 * scale)])
    Q = np.concatenate([own[:20] * np.float32(1.01), own[:5] + np.float32(1e6 * scale), own[:3]])
    for rows in (own + np.float32(300 * scale), np.tile(own[:1], (30, 1)), own[:1], outlier):
        distances, positions = FlatSearch(rows, axes).query(Q, 2, 1)
        table = squared_distances(Q, rows)
        nearest = np.sort(table, axis=1)[:, :2]
        np.testing.assert_allclose(distances[:, : nearest.shape[1]], nearest, rtol=1e-5, atol=1e-12 * scale**2)
        picked = np.take_along_axis(table, np.maximum(positions, 0), axis=1)[:, : nearest.shape[1]]
        np.testing.assert_allclose(picked, nearest, rtol=1e-5, atol=1e-12 * scale**2)


def test_flat_search_of_wide_rows_is_exact():
    everything = decaying(np.random.default_rng(0), 700, 1024, fall=0.99, centre=2.0)
    rows, Q = everything[:600], everything[600:]
    distances, positions = FlatSearch(rows, bound_axes([everything])).query(Q, 1, 1)
    table = squared_distances(Q, rows)
    np.testing.assert_array_equal(positions[:, 0], table.argmin(axis=1))
    np.testing.assert_allclose(distances[:, 0], table.min(axis=1), rtol=1e-5)


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("apart", [0.0, 50.0])
def test_classifiers_with_bounds(apart, local):
    """Against plain numpy; classes near each other, and far."""
    rng = np.random.default_rng(0)
    rows = decaying(rng, 600, 24)
    y = np.repeat(["a", "b", "c"], 5)
    bags = [part + np.float32(apart * "abc".index(label)) for part, label in zip(np.split(rows[:450], 15), y)]
    test = np.split(rows[450:] + np.float32(apart), 5)
    model = NBNNClassifier(local=local, n_neighbors=4).fit(bags, y)
    assert model.index_bytes_ > 0  # reduced rows
    wanted = local_nbnn(bags, y, test, 4) if local else nbnn(bags, y, test)
    np.testing.assert_allclose(model.image_to_class_distances(test), wanted, rtol=1e-4, atol=1e-4)
