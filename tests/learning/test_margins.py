"""Margins, their adjoint, and the pair sums against triplet-by-triplet evaluation."""

import numpy as np
import pytest

from benchmarks.textbook import Triplets, coefficients
from cbid.learning.graph import ClassGraph, PairGraph, worth, worths
from cbid.learning.margins import MARGINS, Columns
from cbid.learning.neighbourhoods import find_neighbourhoods
from cbid.learning.rows import rows_from_triplets
from cbid.learning.sides import PairSides

from .problems import blobs, columns_with_bits, make_rows, random_bits, textbook_margins

KINDS = [("mean", "nearest"), ("all", "nearest"), ("mean", "class"), ("all", "class"), ("mean", "whole")]


def rows_as_lists(X, y, triplets, hits):
    """The same rows in the same order, as plain lists: anchor, its hits, its misses, y, r."""
    if hits == "whole":
        everyone = np.arange(len(y))
        return [
            (i, everyone[(y == y[i]) & (everyone != i)], everyone[y == r], y[i], r)
            for i in everyone
            for r in range(y.max() + 1)
            if r != y[i]
        ]
    near = find_neighbourhoods(
        X, y, n_hits=3, n_misses=2, hits=hits, misses=hits, max_rows=10**6, rng=np.random.default_rng(0)
    )
    rows = []
    for i, r, misses in zip(near.anchors, near.others, near.misses):
        if triplets == "mean":
            rows.append((i, near.hits[i], misses, y[i], r))
        else:
            rows.extend((i, [a], [b], y[i], r) for a in near.hits[i] for b in misses)
    return rows


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize(("triplets", "hits"), KINDS)
def test_margins_equal_the_textbook(margin, triplets, hits):
    X, y = blobs()
    H = random_bits(len(y), 4)
    columns = columns_with_bits(make_rows(X, y, triplets, hits), margin, H)
    W = np.random.default_rng(1).random((4, columns.n_weights))
    expected = textbook_margins(H, W, rows_as_lists(X, y, triplets, hits), margin)
    np.testing.assert_allclose(columns.margins(W), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(columns.margins(W, precise=True), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(columns.dense() @ W.ravel(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize(("triplets", "hits"), KINDS)
def test_correlations_are_the_adjoint(margin, triplets, hits, precise):
    """<u, C W> / R = <G(u), W> for any u and W."""
    X, y = blobs(seed=2)
    columns = columns_with_bits(make_rows(X, y, triplets, hits), margin, random_bits(len(y), 5))
    rng = np.random.default_rng(3)
    W, u = rng.random((5, columns.n_weights)), rng.random(len(columns.rows))
    left = np.mean(u * columns.margins(W, precise=True))
    assert np.sum(columns.correlations(u, precise=precise) * W) == pytest.approx(left, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("margin", [margin for margin in MARGINS if margin != "database"])
@pytest.mark.parametrize(("triplets", "hits"), KINDS)
def test_curvature_adds_up_the_rows(margin, triplets, hits, monkeypatch):
    """(1/R) sum_q v_q C_q C_q', from the matrix C itself; also where a block holds few rows."""
    X, y = blobs(seed=2)
    columns = columns_with_bits(make_rows(X, y, triplets, hits), margin, random_bits(len(y), 9))
    assert columns.compares
    v = np.random.default_rng(3).random(len(columns.rows))
    C = columns.dense()
    expected = C.T @ (v[:, None] * C) / len(C)
    np.testing.assert_allclose(columns.curvature(v), expected, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr("cbid.learning.margins._MOST_IN_BLOCK", 7)
    columns = columns_with_bits(columns.rows, margin, random_bits(len(y), 9))
    np.testing.assert_allclose(columns.curvature(v), expected, rtol=1e-4, atol=1e-6)


def test_only_margins_of_one_difference_compare():
    """The margin "database" measures hits and misses by different weights."""
    X, y = blobs()
    found = {margin for margin in MARGINS if columns_with_bits(make_rows(X, y), margin, []).compares}
    assert found == {"shared", "class", "paper"}


@pytest.mark.parametrize(("triplets", "hits"), KINDS)
def test_totals_are_margins_under_weights_of_one(triplets, hits):
    """Also where bits join those that were added up before, and for bits of two kinds."""
    X, y = blobs()
    H = random_bits(len(y), 11)
    columns = Columns(make_rows(X, y, triplets, hits), "shared", len(H))
    for t, h in enumerate(H, 1):
        columns.append(h)
        for bits in (np.arange(t), np.arange(1, t, 2)):
            if len(bits):
                W = np.zeros((t, 1))
                W[bits] = 1
                np.testing.assert_allclose(columns.total(bits), columns.margins(W, precise=True), atol=1e-9)


def graphs_of(rows, columns, u, n):
    pairs = ClassGraph(rows.misses) if rows.hits is rows.misses else PairGraph([rows.misses, rows.hits], n)
    return [pairs.weighted(*sides) for sides in columns.side_weights(u)]


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize(("triplets", "hits"), KINDS)
def test_laplacian_identity(margin, triplets, hits):
    """Pi_r(h) = (1/R) sum_q u_q [coefficient of w_r in rho_q], by the Laplacian and by the rows' own coefficients."""
    X, y = blobs(seed=4)
    rows = make_rows(X, y, triplets, hits)
    H = random_bits(len(y), 6, seed=5)
    columns = columns_with_bits(rows, margin, H)
    u = np.random.default_rng(6).random(len(rows))
    G = columns.correlations(u, precise=True)  # (6, n_weights), tested above against the textbook
    for r, graph in enumerate(graphs_of(rows, columns, u, len(y))):
        one_by_one = [worth(graph, h) for h in H]
        np.testing.assert_allclose(one_by_one, G[:, r], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(worths(graph, np.stack(H, axis=1)), one_by_one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("triplets", "hits"), KINDS)
def test_laplacian_products_agree_with_a_dense_laplacian(triplets, hits):
    """L column by column; symmetric, rows adding up to zero; X' L X; real-valued h as sums over pairs."""
    X, y = blobs(n=30, seed=7)
    rows = make_rows(X, y, triplets, hits)
    columns = columns_with_bits(rows, "shared", random_bits(30, 1))
    (graph,) = graphs_of(rows, columns, np.random.default_rng(8).random(len(rows)), 30)
    L = np.column_stack([graph.laplacian_times(e) for e in np.eye(30, dtype=np.float32)])
    np.testing.assert_allclose(L, L.T, atol=1e-6)
    np.testing.assert_allclose(L.sum(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(graph.laplacian_times(X), L @ X, atol=1e-4)
    np.testing.assert_allclose(graph.quadratic_form(X), X.T @ L @ X, rtol=1e-4, atol=1e-4)
    h = np.random.default_rng(9).standard_normal(30).astype(np.float32)
    C = -L + np.diag(np.diag(L))
    by_pairs = sum(C[i, j] * (h[i] - h[j]) ** 2 for i in range(30) for j in range(i))
    assert h @ graph.laplacian_times(h) == pytest.approx(by_pairs, rel=1e-4)
    # With whole classes both directions of a pair add up before their signs are known, so size is an upper bound.
    assert graph.size >= np.abs(np.tril(C, -1)).sum() * (1 - 1e-5)


@pytest.mark.parametrize(("triplets", "hits"), KINDS)
def test_best_threshold_equals_trying_all(triplets, hits):
    X, y = blobs(n=45, seed=10)
    X[7] = X[11]  # equal projections cannot be parted
    rows = make_rows(X, y, triplets, hits)
    columns = columns_with_bits(rows, "shared", random_bits(45, 1))
    (graph,) = graphs_of(rows, columns, np.random.default_rng(11).random(len(rows)), 45)
    P = X @ np.random.default_rng(12).standard_normal((3, 5)).astype(np.float32)
    thresholds, best = graph.best_thresholds(P)
    for c in range(5):
        values = np.sort(P[:, c])
        tried = [worth(graph, np.where(P[:, c] >= t, 1, -1).astype(np.float32)) for t in values[1:]]
        assert best[c] == pytest.approx(max(tried), rel=1e-4)
        h = np.where(P[:, c] >= thresholds[c], 1, -1).astype(np.float32)
        assert worth(graph, h) == pytest.approx(best[c], rel=1e-4)


def test_a_direction_that_parts_nothing_is_worth_nothing():
    X, y = blobs(n=12)
    rows = make_rows(X, y, hits="whole")
    columns = columns_with_bits(rows, "shared", random_bits(12, 1))
    (graph,) = graphs_of(rows, columns, np.ones(len(rows)), 12)
    assert graph.best_thresholds(np.ones((12, 1), dtype=np.float32))[1] == -np.inf


def test_threads_change_nothing():
    X, y = blobs(n=5000, d=8, k=6, seed=13)
    rows = make_rows(X, y, hits="nearest", n_hits=6, n_misses=6)
    columns = columns_with_bits(rows, "shared", random_bits(5000, 1))
    u = np.random.default_rng(14).random(len(rows))
    h = random_bits(5000, 1, seed=15)[0]
    one, two = (
        PairGraph([rows.misses, rows.hits], 5000, n_threads=t).weighted(*next(columns.side_weights(u)))
        for t in (1, 2)
    )
    assert len(two._cuts) == 3
    np.testing.assert_array_equal(one.laplacian_times(h), two.laplacian_times(h))
    np.testing.assert_array_equal(one.best_thresholds(X), two.best_thresholds(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_packed_distances_of_pairs_equal_listed_ones(dtype):
    """Nineteen bits fill two bytes and a part of the third."""
    rng = np.random.default_rng(8)
    i, j = rng.integers(0, 30, (2, 50)).astype(np.int32)
    store, H, w = PairSides(i, j[:, None], 30).store(24), random_bits(30, 19), rng.random(19).astype(dtype)
    for h in H:
        store.append(h)
    D = np.abs(H[:, i] - H[:, j])  # (19, 50)
    some, u = np.array([3, 7, 7, 49]), rng.standard_normal(50).astype(dtype)
    np.testing.assert_allclose(store.weighted(w), w @ D, rtol=1e-6)
    np.testing.assert_allclose(store.weighted(w, some), w @ D[:, some], rtol=1e-6)
    np.testing.assert_allclose(store.summed(u), D @ u, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(store.summed(u[:4], some), D[:, some] @ u[:4], rtol=1e-5, atol=1e-5)


def test_ready_made_triplets_share_pairs():
    rng = np.random.default_rng(16)
    anchors, positives, negatives = rng.integers(0, 20, (3, 200))
    rows = rows_from_triplets(20, anchors, positives, negatives)
    assert len(rows.hits) == len(set(zip(anchors.tolist(), positives.tolist())))
    h = random_bits(20, 1)[0]
    columns = columns_with_bits(rows, "shared", h[None])
    expected = coefficients(h, Triplets(anchors, positives, negatives))
    np.testing.assert_allclose(columns.margins(np.ones((1, 1))), expected, atol=1e-6)


@pytest.mark.parametrize("margin", ["class", "paper", "database"])
def test_memory_does_not_grow_with_the_square_of_the_classes(margin):
    """One weight vector for each class, gone through one at a time."""
    import tracemalloc

    from cbid import CBID

    n, d = 600, 4
    peaks = []
    for k in (10, 60):
        rng = np.random.default_rng(0)
        y = np.arange(n) % k
        X = rng.standard_normal((k, d))[y] + 0.1 * rng.standard_normal((n, d))
        tracemalloc.start()
        CBID(n_bits=1, margin=margin, n_starts=2, n_climbs=1, nu=1e-3).fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]  # 6 times the classes; one number for each sample and pair of classes doubles it
