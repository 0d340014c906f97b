"""Rows from graded similarity: what they compare, their margins, and their optimum by an independent solver."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from cbid.learning.bits import SIGMOIDS, relaxed_objective
from cbid.learning.column_generation import ClassRows
from cbid.learning.graded import (
    TREE_UNIT,
    UNIT,
    LabelSimilarity,
    label_weights,
    rows_from_label_sets,
    rows_from_pairs,
)
from cbid.learning.graph import ClassGraph, PairGraph
from cbid.learning.losses import make_loss
from cbid.learning.margins import Columns
from cbid.learning.penalties import make_penalty
from cbid.learning.rows import rows_from_classes
from cbid.learning.weights import Part, Problem, fit_weights

from .problems import blobs, columns_with_bits, random_bits


def some_labels(n=40, k=5, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.random((n, k)) < 0.3
    Y[np.arange(n), rng.integers(k, size=n)] = True
    return csr_matrix(Y.astype(np.uint8))


def members(rows, side):
    sides = rows.hits
    return sides.mean.indices[sides.mean.indptr[side] : sides.mean.indptr[side + 1]]


def test_similarity_is_the_weighted_share_of_common_labels():
    """Samples {0, 1} and {1, 2}: label 1 over labels 0, 1 and 2, by their weights log(1 + 4 / count)."""
    labels = csr_matrix(np.array([[1, 1, 0], [0, 1, 1], [0, 1, 0], [0, 0, 0]], dtype=np.uint8))
    weights = label_weights(labels)
    np.testing.assert_allclose(weights, np.log1p([4, 4 / 3, 4]))
    found = LabelSimilarity(labels)(np.array([0, 2, 0, 3]), np.array([1, 2, 3, 3]))
    np.testing.assert_allclose(found, [weights[1] / weights.sum(), 1, 0, 0])


@given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=2, max_size=8))
def test_similarity_by_the_definition(sets):
    labels = csr_matrix(np.array([[label in entry for label in range(6)] for entry in sets], dtype=np.uint8))
    weights = label_weights(labels)
    i, j = (part.ravel() for part in np.indices((len(sets), len(sets))))
    found = LabelSimilarity(labels)(i, j)
    for a, b, value in zip(i, j, found):
        shared, union = sets[a] & sets[b], sets[a] | sets[b]
        assert value == pytest.approx(sum(weights[list(shared)]) / sum(weights[list(union)]))
        assert (value == pytest.approx(1)) == (sets[a] == sets[b])


def test_rows_of_label_sets_compare_higher_with_lower_similarity():
    labels = some_labels()
    similarity_of = LabelSimilarity(labels)
    rows = rows_from_label_sets(labels, max_rows=10**6, rng=np.random.default_rng(0))
    anchor = rows.hits.anchor
    assert len(rows) > 500
    assert (anchor[rows.hit] == anchor[rows.miss]).all()
    similarity = np.empty(len(rows.hits))
    for side, i in enumerate(anchor):
        others = members(rows, side)
        assert i not in others
        values = similarity_of(np.full(len(others), i), others)
        similarity[side] = values.mean()
        assert (values > 0).all() or not values.any()
    assert (similarity[rows.hit] > similarity[rows.miss]).all()
    np.testing.assert_allclose(rows.required, UNIT * (similarity[rows.hit] - similarity[rows.miss] - 1))
    assert rows.required.max() <= 0


def test_max_rows_bounds_the_rows():
    rows = rows_from_label_sets(some_labels(), max_rows=100, rng=np.random.default_rng(0))
    assert len(rows) == 100
    assert (rows.hits.anchor[rows.hit] == rows.hits.anchor[rows.miss]).all()


def test_labels_of_many_samples_take_bounded_memory(monkeypatch):
    """The peak does not grow with the number of samples, apart from the labels themselves; n x n would be 80 GB."""
    monkeypatch.setattr("cbid.learning.graded._ANCHORS", 500)
    rng = np.random.default_rng(0)
    n, k = 100_000, 1_000
    labels = csr_matrix(
        (np.ones(3 * n, np.uint8), rng.integers(k, size=3 * n), np.arange(0, 3 * n + 1, 3)), shape=(n, k)
    )
    labels.sum_duplicates()
    labels.data[:] = 1
    tracemalloc.start()
    rows = rows_from_label_sets(labels, max_rows=5_000, rng=rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(rows) == 5_000
    assert peak < 300e6


def test_rows_of_pairs():
    """Anchor 0 is like 1, half like 2, unlike 3: three rows, with differences 0.5, 0.5 and 1. The others have one
    pair each, and nothing to compare it with."""
    rows = rows_from_pairs(
        4,
        np.array([0, 0, 0]),
        np.array([1, 2, 3]),
        np.array([1, 0.5, 0]),
        max_rows=100,
        rng=np.random.default_rng(0),
    )
    found = {
        (int(rows.hits.anchor[h]), *members(rows, h).tolist(), *members(rows, m).tolist(), float(need))
        for h, m, need in zip(rows.hit, rows.miss, rows.required)
    }
    assert found == {(0, 1, 2, -0.5 * UNIT), (0, 2, 3, -0.5 * UNIT), (0, 1, 3, 0.0)}


def test_many_grades_become_eight_levels():
    """Of a sample's pairs, each in the lowest level is a side of its own, and each other level is one side."""
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(30, 1)
    grade = rng.random(len(i))
    rows = rows_from_pairs(30, i, j, grade, max_rows=10**6, rng=rng)
    level = np.digitize(grade, np.quantile(grade, np.arange(1, 8) / 8))[(i == 0) | (j == 0)]
    assert (rows.hits.anchor == 0).sum() == (level == 0).sum() + len(np.unique(level[level > 0]))
    assert (rows.required > -UNIT).all()


def rows_of_a_tree(y, rng):
    """Classes 0, 1 | 2, 3: a row inside a group requires TREE_UNIT / 2 less; coarse rows compare across groups."""
    fine = rows_from_classes(y, n_classes=4, max_rows=500, rng=rng)
    fine = replace(fine, required=-TREE_UNIT / 2 * (fine.own // 2 == fine.other // 2))
    return fine, fine.subset(fine.own // 2 != fine.other // 2)


def problem_of(kind, loss="logistic", nu=0.02, t=5):
    """A small problem of each kind: label sets, pairs, and the two levels of a tree."""
    X, y = blobs(n=40, k=4, seed=1)
    planes = np.random.default_rng(2).standard_normal((t, 3)).astype(np.float32)
    H = np.where(X.mean(axis=0) @ planes.T <= X @ planes.T, 1, -1).astype(np.float32).T
    rng = np.random.default_rng(3)
    if kind == "sets":
        rows = rows_from_label_sets(some_labels(), max_rows=500, rng=rng)
        parts = [Part(columns_with_bits(rows, "shared", H), required=rows.required)]
    elif kind == "pairs":
        i, j = np.triu_indices(40, 1)
        rows = rows_from_pairs(40, i, j, np.abs(y[i] - y[j]) / 3, max_rows=500, rng=rng)
        parts = [Part(columns_with_bits(rows, "shared", H), required=rows.required)]
    else:
        fine, coarse = rows_of_a_tree(y, rng)
        parts = ClassRows(fine, None, coarser=[coarse], ends=[2]).parts("shared", t, 1.0)
        for part in parts:
            for h in H:
                part.append(h)
    return Problem(parts, make_loss(loss), make_penalty("linf"), nu)


@pytest.mark.parametrize("kind", ["sets", "pairs", "tree"])
def test_weights_equal_a_general_solver(kind):
    """SLSQP on the epigraph form: minimise the mean loss + nu v over 0 <= w <= v."""
    problem = problem_of(kind)
    C = np.vstack([part.columns.dense() for part in problem.parts])
    sizes = [len(part.columns.rows) for part in problem.parts]
    c = np.concatenate([np.full(n, part.share / n) for part, n in zip(problem.parts, sizes)])
    m = np.concatenate([np.zeros(n) if p.required is None else p.required for p, n in zip(problem.parts, sizes)])
    assert c.sum() == pytest.approx(1)
    t = C.shape[1]

    def value(x):
        return float(c @ np.logaddexp(0, -(C @ x[:t] - m))) + problem.nu * x[t]

    within = [{"type": "ineq", "fun": lambda x, s=s: x[t] - x[s]} for s in range(t)]
    start = np.append(np.full(t, 0.3), 0.5)
    oracle = minimize(value, start, method="SLSQP", bounds=[(0, None)] * (t + 1), constraints=within,
                      options={"ftol": 1e-12, "maxiter": 500})  # fmt: skip
    found = fit_weights(problem, np.zeros(problem.shape), tol=1e-6)
    assert found.objective == pytest.approx(oracle.fun, rel=1e-5)
    np.testing.assert_allclose(found.W[:, 0], oracle.x[:t], atol=2e-2)
    # The gap is a certificate: the optimum of another solver is not below the bound.
    assert 0 <= found.gap <= 1e-6 * found.objective
    assert oracle.fun >= found.objective - found.gap - 1e-9


@pytest.mark.parametrize("kind", ["sets", "pairs", "tree"])
def test_gradient_of_the_search_by_finite_differences(kind):
    X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    rng = np.random.default_rng(1)
    if kind == "sets":
        rows = rows_from_label_sets(some_labels(), max_rows=500, rng=rng)
    elif kind == "tree":
        rows = rows_of_a_tree(np.arange(40) % 4, rng)[1]
    else:
        i, j = np.triu_indices(40, 1)
        rows = rows_from_pairs(40, i, j, rng.random(len(i)).round(1), max_rows=500, rng=rng)
    columns = Columns(rows, "shared", 1)
    u = rng.random(len(rows))
    pairs = ClassGraph(rows.misses) if kind == "tree" else PairGraph([rows.misses], 40)
    graph = pairs.weighted(*next(columns.side_weights(u)))

    def objective(params):
        return relaxed_objective(params, X, graph, SIGMOIDS["arctan"], 0.01)

    start = np.random.default_rng(2).standard_normal(4)
    gradient = objective(start)[1]
    step = 3e-3 * np.eye(4)
    by_differences = [(objective(start + e)[0] - objective(start - e)[0]) / 6e-3 for e in step]
    assert np.linalg.norm(gradient - by_differences) < 2e-3 * np.linalg.norm(gradient)


def test_distances_of_sides_are_means_over_their_members():
    rows = rows_from_label_sets(some_labels(), max_rows=500, rng=np.random.default_rng(0))
    h = random_bits(40, 1)[0]
    found = rows.hits.distances(h)
    for side in range(0, len(rows.hits), 7):
        others = members(rows, side)
        assert found[side] == pytest.approx(np.mean(np.abs(h[rows.hits.anchor[side]] - h[others])), abs=1e-6)
