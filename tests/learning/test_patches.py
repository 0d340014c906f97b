"""Neighbours of patches and rows over bags, against plain loops over patches, triplets and images."""

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, linprog, minimize

from cbid.learning.bits import SIGMOIDS, TakenBits, relaxed_objective
from cbid.learning.graph import PairGraph, worth
from cbid.learning.losses import make_loss
from cbid.learning.margins import MARGINS
from cbid.learning.patches import (
    RotatedBits,
    cut_into_bags,
    find_patch_neighbourhoods,
    rows_from_bags,
)
from cbid.learning.penalties import make_penalty
from cbid.learning.rows import rows_from_neighbourhoods, rows_from_triplets
from cbid.learning.weights import Part, Problem, fit_weights

from .problems import columns_with_bits, random_bits, textbook_distance, textbook_margins

SIZES = [9, 4, 7, 1, 6, 8, 5, 6]  # patches of each image
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1])


def patches(seed=0, d=4):
    """Overlapping classes: X (n, d), the class and the image of every patch."""
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(len(SIZES)), SIZES)
    y = LABELS[image]
    X = rng.standard_normal((len(image), d)) + rng.standard_normal((3, d))[y]
    return X.astype(np.float32), y, image


def found(X, y, image, n_hits=1, n_misses=1, max_rows=10**6, seed=0, n_classes=3):
    rng = np.random.default_rng(seed)
    return find_patch_neighbourhoods(
        X, y, image, n_classes=n_classes, n_hits=n_hits, n_misses=n_misses, max_rows=max_rows, rng=rng
    )


def nearest(X, i, candidates, count):
    distances = ((X[candidates].astype(np.float64) - X[i]) ** 2).sum(axis=1)
    return candidates[np.argsort(distances, kind="stable")[:count]]


def as_lists(X, y, image, bag, n_hits, n_misses):
    """For every bag and other class, its patches as (patch, hits, misses), by a loop over all patches."""
    everyone = np.arange(len(y))
    rows = {}
    for i in everyone:
        hits = nearest(X, i, everyone[(y == y[i]) & (image != image[i])], n_hits)
        for r in set(y.tolist()) - {y[i]}:
            rows.setdefault((bag[i], r), []).append((i, hits, nearest(X, i, everyone[y == r], n_misses)))
    return [(y[patches[0][0]], key[1], patches) for key, patches in sorted(rows.items())]


@pytest.mark.parametrize(("n_hits", "n_misses"), [(1, 1), (2, 3)])
def test_neighbours_equal_a_loop_and_hits_leave_out_the_own_image(n_hits, n_misses):
    X, y, image = patches()
    near = found(X, y, image, n_hits, n_misses)
    everyone = np.arange(len(y))
    for i in everyone:
        expected = nearest(X, i, everyone[(y == y[i]) & (image != image[i])], n_hits)
        assert near.hits[i].tolist() == expected.tolist()
        assert (image[near.hits[i]] != image[i]).all()
    assert len(near.anchors) == 2 * len(y)
    for i, r, misses in zip(near.anchors, near.others, near.misses):
        assert r != y[i]
        assert misses.tolist() == nearest(X, i, everyone[y == r], n_misses).tolist()


def test_copies_in_the_own_image_are_no_hits():
    """Each image holds the same patch three times; the nearest hit is the other image's, however far."""
    X = np.float32([[0], [0], [0], [5], [5], [5], [1], [1], [1], [9], [9], [9]])
    y, image = np.repeat([0, 1], 6), np.repeat([0, 1, 2, 3], 3)
    near = found(X, y, image, n_classes=2)
    assert near.hits[:3, 0].tolist() == [3, 3, 3]
    assert near.hits[9:, 0].tolist() == [6, 6, 6]


def test_a_class_with_one_image_serves_as_misses_alone():
    X, y, image = patches()
    image = np.where(y == 2, 2, image)
    near = found(X, y, image)
    assert (y[near.anchors] != 2).all()
    assert (near.hits[y == 2] == -1).all()
    assert (y[near.misses[near.others == 2]] == 2).all()


def test_a_class_without_patches_is_no_other_class():
    X, y, image = patches()
    near = found(X, y * 2, image, n_classes=5)
    assert set(near.others.tolist()) == {0, 2, 4}


def test_fewer_rows_are_a_seeded_part_of_all():
    X, y, image = patches()
    every = found(X, y, image)
    some, again, other = (found(X, y, image, max_rows=30, seed=s) for s in (1, 1, 2))
    assert len(some.anchors) == 30
    np.testing.assert_array_equal(some.anchors, again.anchors)
    assert some.anchors.tolist() != other.anchors.tolist()
    pairs = {(i, r): m.tolist() for i, r, m in zip(every.anchors, every.others, every.misses)}
    assert all(pairs[i, r] == m.tolist() for i, r, m in zip(some.anchors, some.others, some.misses))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_bags_are_cut_inside_images(size):
    _, _, image = patches()
    bag = cut_into_bags(image, size, np.random.default_rng(0))
    for b in np.unique(bag):
        assert len(set(image[bag == b])) == 1
    for i, count in enumerate(SIZES):
        sizes = np.bincount(np.unique(bag[image == i], return_inverse=True)[1])
        assert sorted(sizes, reverse=True) == [size] * (count // size) + [count % size] * (count % size > 0)


BAGS = {"image": lambda image: image, "three": lambda image: cut_into_bags(image, 3, np.random.default_rng(1))}


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("bags", BAGS)
def test_margins_of_bags_equal_the_mean_over_their_patches(bags, margin):
    """rho of (bag, r) is the mean over the bag's patches of rho of (patch, r), both by the textbook."""
    X, y, image = patches(seed=1)
    bag = BAGS[bags](image)
    rows = rows_from_bags(found(X, y, image, 2, 3), y, bag, n_classes=3)
    expected = as_lists(X, y, image, bag, 2, 3)
    assert list(zip(rows.own, rows.other)) == [(own, other) for own, other, _ in expected]
    H = random_bits(len(y), 4)
    columns = columns_with_bits(rows, margin, H)
    W = np.random.default_rng(2).random((4, columns.n_weights))
    means = [
        np.mean(textbook_margins(H, W, [(i, hits, misses, own, other) for i, hits, misses in members], margin))
        for own, other, members in expected
    ]
    np.testing.assert_allclose(columns.margins(W), means, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(columns.margins(W, precise=True), means, rtol=1e-6, atol=1e-6)


def test_rows_of_images_are_averages_of_rows_of_patches():
    X, y, image = patches(seed=3)
    near = found(X, y, image)
    per_image = rows_from_bags(near, y, image, n_classes=3)
    per_patch = rows_from_neighbourhoods(near, y, triplets="mean", n_classes=3)
    H, W = random_bits(len(y), 5), np.random.default_rng(4).random((5, 1))
    rho = columns_with_bits(per_patch, "shared", H).margins(W, precise=True)
    expected = [
        rho[(image[near.anchors] == i) & (near.others == r)].mean()
        for i in range(len(SIZES))
        for r in range(3)
        if r != LABELS[i]
    ]
    found_margins = columns_with_bits(per_image, "shared", H).margins(W, precise=True)
    np.testing.assert_allclose(found_margins, expected, rtol=1e-6, atol=1e-7)


def test_bags_of_one_patch_are_patches():
    X, y, image = patches(seed=5)
    near = found(X, y, image, 2, 2)
    single = rows_from_bags(near, y, np.arange(len(y)), n_classes=3)
    plain = rows_from_neighbourhoods(near, y, triplets="mean", n_classes=3)
    H, W = random_bits(len(y), 3), np.ones((3, 1))
    one, two = (columns_with_bits(rows, "shared", H).margins(W) for rows in (single, plain))
    np.testing.assert_allclose(one, two[np.lexsort((near.others, near.anchors))], atol=1e-6)


def test_thinned_rows_average_the_same_patches_on_both_sides():
    X, y, image = patches(seed=6)
    near = found(X, y, image, max_rows=40)
    rows = rows_from_bags(near, y, image, n_classes=3)
    h = random_bits(len(y), 1)[0]
    (far,), (close,) = (columns_with_bits(rows, "shared", h[None])._groups[g].store._D.T for g in (0, 1))
    for q, (own, other) in enumerate(zip(rows.own, rows.other)):
        mine = [
            (i, m)
            for i, r, m in zip(near.anchors, near.others, near.misses)
            if r == other and y[i] == own and q == rows_number(rows, image[i], other, near, image)
        ]
        assert far[q] == pytest.approx(np.mean([textbook_distance(h, i, m) for i, m in mine]))
        assert close[q] == pytest.approx(np.mean([textbook_distance(h, i, near.hits[i]) for i, _ in mine]))


def rows_number(rows, i, r, near, image):
    """The place of (image i, class r) among the rows, which are in that order."""
    return sorted(set(zip(image[near.anchors].tolist(), near.others.tolist()))).index((i, r))


@pytest.mark.parametrize("bags", BAGS)
def test_laplacian_of_bags_equals_the_sum_over_rows(bags):
    """Pi(h) = (1/R) sum_q u_q a_q by the signed graph and by the rows' own coefficients."""
    X, y, image = patches(seed=7)
    rows = rows_from_bags(found(X, y, image, 2, 2), y, BAGS[bags](image), n_classes=3)
    H = random_bits(len(y), 6, seed=8)
    columns = columns_with_bits(rows, "shared", H)
    u = np.random.default_rng(9).random(len(rows))
    graph = PairGraph([rows.misses, rows.hits], len(y)).weighted(*next(columns.side_weights(u)))
    expected = columns.dense().T @ u / len(rows)
    np.testing.assert_allclose([worth(graph, h) for h in H], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(columns.correlations(u, precise=True)[:, 0], expected, rtol=1e-6, atol=1e-7)
    L = np.column_stack([graph.laplacian_times(e) for e in np.eye(len(y), dtype=np.float32)])
    np.testing.assert_allclose(L, L.T, atol=1e-6)
    np.testing.assert_allclose(L.sum(axis=0), 0, atol=1e-6)


def test_laplacian_of_patches_equals_the_sum_over_triplets():
    """With one hit and one miss a row per (patch, class) is a triplet."""
    X, y, image = patches(seed=10)
    near = found(X, y, image)
    rows = rows_from_neighbourhoods(near, y, triplets="mean", n_classes=3)
    triplets = rows_from_triplets(len(y), near.anchors, near.hits[near.anchors, 0], near.misses[:, 0])
    H = random_bits(len(y), 6, seed=11)
    u = np.random.default_rng(12).random(len(rows))
    by_hand = [
        np.mean(
            [u[q] * (abs(h[i] - h[m]) - abs(h[i] - h[near.hits[i, 0]])) for q, (i, m) in enumerate(rows_of(near))]
        )
        for h in H
    ]
    for made in (rows, triplets):
        columns = columns_with_bits(made, "shared", H)
        graph = PairGraph([made.misses, made.hits], len(y)).weighted(*next(columns.side_weights(u)))
        np.testing.assert_allclose([worth(graph, h) for h in H], by_hand, rtol=1e-4, atol=1e-6)


def rows_of(near):
    return zip(near.anchors, near.misses[:, 0])


# Eq. 2 as printed: one row for an image, the sum over its patches, the nearest patch of all other classes together


def equation_2(X, y, image, H):
    """A (images, t): sum over the patches of |h - h(miss)| - |h - h(hit)|, by loops over images and patches."""
    everyone = np.arange(len(y))
    A = np.zeros((len(SIZES), len(H)))
    for i in everyone:
        (hit,) = nearest(X, i, everyone[(y == y[i]) & (image != image[i])], 1)
        (miss,) = nearest(X, i, everyone[y != y[i]], 1)
        A[image[i]] += [abs(h[i] - h[miss]) - abs(h[i] - h[hit]) for h in H]
    return A


def rows_of_equation_2(X, y, image):
    near = find_patch_neighbourhoods(
        X, y, image, n_classes=3, n_hits=1, n_misses=1, max_rows=10**6, rng=np.random.default_rng(0), together=True
    )
    return rows_from_bags(near, y, image, n_classes=3, total=True)


def bits_of(X, t, seed=0):
    planes = np.random.default_rng(seed).standard_normal((X.shape[1], t))
    return np.where((X - X.mean(axis=0)) @ planes >= 0, 1, -1).astype(np.float32).T


def problem_of_equation_2(loss, penalty, nu, t=5):
    X, y, image = patches(seed=7)
    H = bits_of(X, t)
    columns = columns_with_bits(rows_of_equation_2(X, y, image), "shared", H)
    A = equation_2(X, y, image, H)
    return Problem([Part(columns)], make_loss(loss), make_penalty(penalty), nu), A


def test_margins_of_equation_2_are_sums_over_the_patches():
    X, y, image = patches(seed=7)
    H, w = bits_of(X, 5), np.random.default_rng(1).random((5, 1))
    rows = rows_of_equation_2(X, y, image)
    assert len(rows) == len(SIZES)
    found_margins = columns_with_bits(rows, "shared", H).margins(w, precise=True)
    np.testing.assert_allclose(found_margins, equation_2(X, y, image, H) @ w[:, 0], rtol=1e-6, atol=1e-6)


def test_fewer_comparisons_with_all_other_classes_are_a_part_of_all():
    X, y, image = patches()
    settings = {"n_classes": 3, "n_hits": 1, "n_misses": 1, "together": True}
    every, some = (
        find_patch_neighbourhoods(X, y, image, max_rows=most, rng=np.random.default_rng(0), **settings)
        for most in (10**6, 20)
    )
    assert (len(every.anchors), len(some.anchors)) == (len(y), 20)
    np.testing.assert_array_equal(some.misses, every.misses[some.anchors])
    assert (y[every.misses[:, 0]] != y).all()


@pytest.mark.parametrize("nu", [1e-3, 0.05])
@pytest.mark.parametrize("penalty", ["l1", "linf"])
def test_weights_of_equation_2_equal_a_general_solver(penalty, nu):
    """SLSQP in float64 on the matrix of the loops above; the duality gap bounds its distance from the optimum."""
    problem, A = problem_of_equation_2("logistic", penalty, nu)
    fit = fit_weights(problem, np.zeros(problem.shape), tol=1e-6)
    t = A.shape[1]
    norm = {"l1": np.append(-np.ones(t), 1.0), "linf": np.hstack([-np.eye(t), np.ones((t, 1))])}[penalty]

    def objective(x):
        return np.mean(np.logaddexp(0, -A @ x[:t])) + nu * x[t]

    result = minimize(
        objective,
        np.append(np.full(t, 0.1), 1.0),
        method="SLSQP",
        bounds=[(0, None)] * (t + 1),
        constraints=[LinearConstraint(norm, 0)],
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    assert fit.objective == pytest.approx(result.fun, rel=1e-4)
    assert fit.objective - fit.gap <= result.fun * (1 + 1e-9)
    assert fit.gap <= 1e-6 * fit.objective


def test_certificate_of_equation_2_by_hand():
    """u in [0, 1] with A' u / m <= nu gives the bound -mean(u log u + (1 - u) log(1 - u)), for any weights."""
    problem, A = problem_of_equation_2("logistic", "l1", 0.01)
    fit = fit_weights(problem, np.zeros(problem.shape), tol=1e-4)
    rho = A @ fit.W[:, 0]
    u = 1 / (1 + np.exp(rho))
    u *= min(1, 0.01 / (A.T @ u / len(A)).max())
    bound = -np.mean(u * np.log(u) + (1 - u) * np.log(1 - u))
    primal = np.mean(np.log1p(np.exp(-rho))) + 0.01 * fit.W.sum()
    assert fit.objective == pytest.approx(primal, rel=1e-6)
    assert bound <= primal
    assert primal - bound <= 1e-2 * primal
    worse = fit.W[:, 0] + 0.5
    assert bound < np.mean(np.log1p(np.exp(-A @ worse))) + 0.01 * worse.sum()


def test_hinge_weights_of_equation_2_equal_a_linear_program():
    problem, A = problem_of_equation_2("hinge", "l1", 0.05)
    fit = fit_weights(problem, np.zeros(problem.shape), tol=1e-6)
    m, t = A.shape
    result = linprog(
        np.append(np.full(t, 0.05), np.full(m, 1 / m)), A_ub=np.hstack([-A, -np.eye(m)]), b_ub=-np.ones(m)
    )
    assert fit.objective == pytest.approx(result.fun, rel=1e-6)


def test_gradient_of_a_bit_of_equation_2_by_finite_differences():
    """The relaxed worth sum_i v_i sum_j [(h - h(miss))^2 - (h - h(hit))^2] / 2, and its gradient."""
    X, y, image = patches(seed=8)
    rows = rows_of_equation_2(X, y, image)
    v = np.random.default_rng(3).random(len(SIZES))
    (weights,) = columns_with_bits(rows, "shared", bits_of(X, 1)).side_weights(v)
    graph = PairGraph([rows.misses, rows.hits], len(y)).weighted(*weights)
    h = bits_of(X, 1, seed=4)[0]
    assert worth(graph, h) == pytest.approx(v @ equation_2(X, y, image, [h])[:, 0] / len(SIZES), rel=1e-5)
    params = np.random.default_rng(1).standard_normal(5)
    args = (X, graph, SIGMOIDS["arctan"], 1e-3)
    step = 2e-2
    slope = [
        (8 * (f(step) - f(-step)) - (f(2 * step) - f(-2 * step))) / (12 * step)
        for f in (lambda s, e=e: relaxed_objective(params + s * e, *args)[0] for e in np.eye(5))
    ]
    np.testing.assert_allclose(relaxed_objective(params, *args)[1], slope, rtol=1e-3, atol=1e-4)


def test_equal_duals_choose_the_same_first_bit():
    """Algorithm 1 starts at 1 / m, weights of zero give 1 / 2 to every image: the worths are in proportion."""
    X, y, image = patches(seed=9)
    H = bits_of(X, 40)
    problem, _ = problem_of_equation_2("logistic", "l1", 0.01)
    (u,) = problem.duals(problem.excess(np.zeros(problem.shape)))
    assert np.ptp(u) == 0
    rows = rows_of_equation_2(X, y, image)
    columns = columns_with_bits(rows, "shared", H)
    ours, theirs = (columns.correlations(d)[:, 0] for d in (u, np.full(len(u), 1 / len(u))))
    assert ours.argmax() == theirs.argmax()
    np.testing.assert_allclose(ours / theirs, len(u) / 2, rtol=1e-4)


# Bits of rotations


def rotated(n_bits, n_axes=4, n=400, seed=0):
    """Bits of rotations under random duals, one after the other, and the features."""
    rng = np.random.default_rng(seed)
    Z = (rng.standard_normal((n, 6)) * [3, 2.5, 2, 1.5, 1, 0.5]).astype(np.float32)
    i, j = rng.integers(n, size=(2, 500)).astype(np.int32)
    rows = rows_from_triplets(n, i, j, (j + 1) % n)
    search, taken, bits = RotatedBits(Z, n_axes=n_axes, seed=1), TakenBits(n, n_bits, 0.0), []
    graph = PairGraph([rows.misses, rows.hits], n).weighted(rng.random(len(rows.misses)), -rng.random(len(rows.hits)))
    for _ in range(n_bits):
        bits.append(search.best(iter([graph]), taken, rng))
        taken.add(bits[-1].h)
    return Z, graph, bits


def test_a_rotation_gives_one_orthonormal_direction_for_each_axis():
    Z, graph, bits = rotated(12)
    for start in (0, 4, 8):
        B = np.array([bit.beta for bit in bits[start : start + 4]])
        np.testing.assert_allclose(B @ B.T, np.eye(4), atol=1e-10)
        assert not B[:, 4:].any()  # the axes beyond
    for bit in bits:
        np.testing.assert_array_equal(bit.h, np.where(Z @ bit.beta >= 0, 1, -1))
        assert bit.value == pytest.approx(worth(graph, bit.h), rel=1e-5)
    values = [bit.value for bit in bits[:4]]
    assert values == sorted(values, reverse=True)
    agreement = np.abs(np.array([bit.h for bit in bits]) @ np.array([bit.h for bit in bits]).T) / len(Z)
    assert (agreement - np.eye(12)).max() < 0.98


def test_the_first_rotation_quantises_better_than_its_random_start():
    """||B - V R||^2 = n t + ||V||^2 - 2 ||V R||_1 falls as the absolute projections grow."""
    Z, _, bits = rotated(4)
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    ours = np.abs(Z @ np.array([bit.beta for bit in bits]).T).sum()
    assert ours > np.abs(Z[:, :4] @ start).sum()


def test_no_direction_is_left_where_one_axis_was_used():
    """One axis has one bit, and its complement is the same bit."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((50, 1)).astype(np.float32)
    rows = rows_from_triplets(50, *rng.integers(50, size=(3, 30)).astype(np.int32))
    graph = PairGraph([rows.misses, rows.hits], 50).weighted(np.ones(len(rows.misses)), -np.ones(len(rows.hits)))
    search, taken = RotatedBits(Z, n_axes=32, seed=0), TakenBits(50, 2, 0.0)
    taken.add(search.best(iter([graph]), taken, rng).h)
    assert search.best(iter([graph]), taken, rng) is None
