"""The search for a bit: gradients, enumeration of all lines, starts, refusal of copies."""

import itertools

import numpy as np
import pytest

from benchmarks import textbook
from cbid.learning.bits import SIGMOIDS, STARTS, BitSearch, TakenBits, _ClassObjective, descend, relaxed_objective
from cbid.learning.features import fit_whitening
from cbid.learning.graph import PairGraph, worth
from cbid.learning.ridge import RidgeMap
from cbid.learning.rows import rows_from_triplets

from .problems import blobs, columns_with_bits, make_rows, random_bits
from .test_margins import graphs_of


def graph_on(X, y, hits="whole", seed=0, margin="shared"):
    rows = make_rows(X, y, hits=hits)
    columns = columns_with_bits(rows, margin, random_bits(len(y), 1))
    return graphs_of(rows, columns, np.random.default_rng(seed).random(len(rows)), len(y))


def search_on(X, starts="pencil", n_starts=12, n_climbs=2, **changes):
    settings = {"sigmoid": SIGMOIDS["arctan"], "ridge": 0.0, "scale": np.ones(X.shape[1]), **changes}
    return BitSearch(X, starts=starts, n_starts=n_starts, n_climbs=n_climbs, **settings)


def free(n):
    return TakenBits(n, 4, 0.0)


@pytest.mark.parametrize("ridge", [0.0, 0.05])
@pytest.mark.parametrize("sigmoid", SIGMOIDS)
@pytest.mark.parametrize("hits", ["nearest", "whole"])
def test_gradient_of_the_relaxed_objective_by_finite_differences(hits, sigmoid, ridge):
    X, y = blobs(n=40)
    (graph,) = graph_on(X, y, hits)
    params = np.random.default_rng(1).standard_normal(4)
    args = (X, graph, SIGMOIDS[sigmoid], ridge)
    step = 2e-2  # the products are float32: a fourth-order formula lets the step be wide
    slope = [
        (8 * (f(step) - f(-step)) - (f(2 * step) - f(-2 * step))) / (12 * step)
        for f in (lambda t, e=e: relaxed_objective(params + t * e, *args)[0] for e in np.eye(4))
    ]
    np.testing.assert_allclose(relaxed_objective(params, *args)[1], slope, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [40, 1024, 2100])  # whole and broken blocks of samples
def test_the_compiled_objective_equals_the_general_one(n):
    X, y = blobs(n=n)
    (graph,) = graph_on(X, y)
    params = np.random.default_rng(1).standard_normal(4).astype(np.float32)
    value, gradient = _ClassObjective(X, graph, 0.05)(params)
    expected, slope = relaxed_objective(params, X, graph, SIGMOIDS["arctan"], 0.05)
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-6)


def test_relaxed_objective_equals_the_triplet_by_triplet_one():
    """Value and gradient of the paper's formula, triplet by triplet, against the Laplacian's."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 4)).astype(np.float32)
    triplets = textbook.Triplets(*rng.integers(0, 30, (3, 300)))
    u = rng.random(300)
    rows = rows_from_triplets(30, triplets.anchor, triplets.positive, triplets.negative)
    columns = columns_with_bits(rows, "shared", random_bits(30, 1))
    graph = PairGraph([rows.misses, rows.hits], 30).weighted(*next(columns.side_weights(u)))
    params = rng.standard_normal(5)
    value, gradient = relaxed_objective(params, X, graph, SIGMOIDS["arctan"], 0.0)
    expected, slope = textbook.relaxed_objective(params, X.astype(np.float64), triplets, u)
    assert value * graph.size == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(gradient * graph.size, slope, rtol=1e-3, atol=1e-5)


def test_descent_finds_the_minimum_of_a_badly_scaled_bowl():
    scales = np.geomspace(0.01, 10, 12).astype(np.float32)
    centre = np.arange(12, dtype=np.float32)
    values = []

    def bowl(x):
        values.append(float(scales @ (x - centre) ** 2) + 1)
        return values[-1], 2 * scales * (x - centre)

    found = descend(bowl, np.zeros(12, dtype=np.float32), max_iter=200, tol=1e-7)
    np.testing.assert_allclose(found, centre, atol=0.05)
    assert bowl(found)[0] == pytest.approx(1, abs=1e-4)
    # no step up, and no further evaluation where nothing is gained
    assert bowl(descend(bowl, found, max_iter=200, tol=1e-3))[0] <= bowl(found)[0]


def all_separable_bits(X):
    """Every way a line parts points in general position: lines through two points, which may each fall either way."""
    bits = set()
    for i, j in itertools.combinations(range(len(X)), 2):
        normal = np.array([X[j, 1] - X[i, 1], X[i, 0] - X[j, 0]], dtype=np.float64)
        side = np.where((X - X[i]) @ normal > 0, 1, -1)
        for a, b in itertools.product((-1, 1), repeat=2):
            side[i], side[j] = a, b
            bits.add(tuple(side))
    return np.array(sorted(bits), dtype=np.float32)


@pytest.mark.parametrize("hits", ["nearest", "whole"])
@pytest.mark.parametrize("seed", range(5))
def test_best_line_in_the_plane_equals_enumeration(hits, seed):
    X, y = blobs(n=15, d=2, seed=seed)
    (graph,) = graph_on(X, y, hits, seed)
    best = max(worth(graph, h) for h in all_separable_bits(X))
    found = search_on(X, "random", n_starts=400, n_climbs=5).best([graph], free(15), np.random.default_rng(0))
    assert found.value == pytest.approx(best, rel=1e-4)
    assert found.value == pytest.approx(worth(graph, found.h), rel=1e-4)
    np.testing.assert_array_equal(found.h, np.where(X @ found.beta + found.intercept >= 0, 1, -1))


def test_default_starts_come_near_the_enumerated_best():
    """Twelve starts, two climbs: never above the best line, and on average within a tenth of it."""
    shares = []
    for seed in range(20):
        X, y = blobs(n=15, d=2, seed=100 + seed)
        (graph,) = graph_on(X, y, seed=seed)
        best = max(worth(graph, h) for h in all_separable_bits(X))
        shares.append(search_on(X).best([graph], free(15), np.random.default_rng(seed)).value / best)
    assert max(shares) <= 1 + 1e-4
    assert np.mean(shares) > 0.9


def test_the_best_weight_vector_is_chosen():
    """With one graph per class, the bit is worth most under the graph it was found in."""
    X, y = blobs(n=15, d=2, seed=3)
    graphs = graph_on(X, y, margin="class")
    assert len(graphs) == 3
    lines = all_separable_bits(X)
    best = max(worth(graph, h) for graph in graphs for h in lines)
    found = search_on(X, "random", n_starts=400, n_climbs=5).best(graphs, free(15), np.random.default_rng(0))
    assert found.value == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("starts", STARTS)
def test_every_kind_of_start_finds_a_bit_that_separates_the_samples(starts):
    X, y = blobs(n=80, d=5, seed=4)
    (graph,) = graph_on(X, y)
    found = search_on(X, starts, n_starts=20).best([graph], free(80), np.random.default_rng(0))
    assert found.value > 0
    assert 0 < (found.h > 0).sum() < 80


def test_leading_direction_of_the_pencil_on_unwhitened_data():
    """After whitening, the leading eigenvector of X' L X solves the generalised problem of the data before it."""
    rng = np.random.default_rng(5)
    X, y = blobs(n=200, d=4, seed=5)
    raw = (X @ rng.standard_normal((4, 4))).astype(np.float64)
    raw -= raw.mean(axis=0)
    values, axes = np.linalg.eigh(raw.T @ raw / 200)
    white = (raw @ axes / np.sqrt(values)).astype(np.float32)
    (graph,) = graph_on(white, y)
    direction = search_on(white)._leading_directions(graph, 1, rng)[0][:, 0]
    folded = axes @ (direction / np.sqrt(values))
    from scipy.linalg import eigh

    M = raw.T @ graph.laplacian_times(raw.astype(np.float32))
    M = (M + M.T) / 2
    expected = eigh(M, raw.T @ raw / 200)[1][:, -1]
    assert abs(np.corrcoef(raw @ folded, raw @ expected)[0, 1]) == pytest.approx(1, abs=1e-4)
    # and "spectral" is the leading eigenvector of the scatter alone
    spectral = search_on(white, "spectral", scale=np.sqrt(values))._leading_directions(graph, 1, rng)[0][:, 0]
    alone = np.linalg.eigh(M)[1][:, -1]
    assert abs(np.corrcoef(white @ spectral, raw @ alone)[0, 1]) == pytest.approx(1, abs=1e-4)


def test_leading_directions_of_many_columns_come_near_the_exact_ones():
    """The Krylov space is far smaller than the matrix; its leading values must be within a few per cent."""
    rng = np.random.default_rng(6)
    X, y = blobs(n=400, d=150, k=5, seed=6)
    (graph,) = graph_on(X, y)
    exact = np.linalg.eigvalsh(X.T @ graph.laplacian_times(X))[-2:]
    found, along = search_on(X)._leading_directions(graph, 2, rng)
    np.testing.assert_allclose(along, X @ found, rtol=1e-4, atol=1e-4)
    values = np.einsum("dc,dc->c", found, X.T @ graph.laplacian_times((X @ found).astype(np.float32)))
    np.testing.assert_allclose(np.sort(values), exact, rtol=0.05)


def test_taken_bits_refuse_copies_complements_and_constants():
    taken = TakenBits(20, 4, distinct=0.1)
    h = random_bits(20, 1)[0]
    assert not taken.holds(h)
    taken.add(h)
    near = h.copy()
    near[0] *= -1
    far = h.copy()
    far[:2] *= -1
    assert taken.holds(h)
    assert taken.holds(-h)
    assert taken.holds(near)  # one of twenty is less than a tenth
    assert not taken.holds(far)
    assert taken.holds(np.ones(20, dtype=np.float32))


def test_smoothing_is_the_ridge_regression_of_the_bit():
    """Minimise ||h - (F - mean) p / unit - c||^2 + ridge ||p||^2, solved here by hand."""
    rng = np.random.default_rng(3)
    F = (rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5)) + 3).astype(np.float32)
    whitening = fit_whitening(F, n_components=5, ridge=1e-2, random_state=0)
    X = whitening(F)
    (graph,) = graph_on(X, np.repeat(np.arange(3), 20))
    ridge, unit = 2.5, 4.0
    plain = search_on(X).best([graph], free(60), np.random.default_rng(0))
    smooth = search_on(X, smoothing=RidgeMap(F, ridge, unit)).best([graph], free(60), np.random.default_rng(0))
    centred = F - F.mean(axis=0, dtype=np.float64)
    expected = np.linalg.solve(centred.T @ centred / unit**2 + ridge * np.eye(5), centred.T @ plain.h / unit) / unit
    assert plain.whitened
    assert not smooth.whitened
    np.testing.assert_allclose(smooth.beta, expected, rtol=1e-6)
    np.testing.assert_array_equal(smooth.h > 0, centred @ smooth.beta + smooth.intercept >= -1e-6)
    assert smooth.value == pytest.approx(worth(graph, smooth.h), rel=1e-5)


def test_a_bit_that_smoothing_spoils_stays_as_it_was_found():
    """Regressed on noise alone, a bit is worth next to nothing."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 2)).astype(np.float32)
    (graph,) = graph_on(X, (X[:, 0] > 0).astype(int))
    noise = RidgeMap(rng.standard_normal((60, 1)), 1e-9)
    found = [
        search_on(X, smoothing=smoothing).best([graph], free(60), np.random.default_rng(0))
        for smoothing in (None, noise)
    ]
    np.testing.assert_array_equal(found[0].h, found[1].h)
