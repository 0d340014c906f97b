"""Principal components of match kernels, against a dense eigendecomposition of the joint Gram matrix."""

import numpy as np
import pytest

from cbid.descriptors.kernel_descriptors import joint_components, over_angles, over_line


def gaussian(a, b, gamma):
    return np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(2))


def everything(factor):
    return np.arange(len(factor.eigenvalues))


@pytest.mark.parametrize("factor", [over_line(5, 3.0), over_line(2, 2.0), over_angles(25, 5.0), over_angles(8, 2.0)])
def test_exact_at_the_basis_points(factor):
    """With every component, k(x, X) K^-1 k(X, y) is k(x, y) where x is one of X."""
    found = factor.components(factor.points.astype(np.float32), everything(factor))
    np.testing.assert_allclose(found @ found.T, gaussian(factor.points, factor.points, factor.gamma), atol=2e-4)


@pytest.mark.parametrize(("factor", "tolerance"), [(over_line(5, 3.0), 2e-3), (over_angles(25, 5.0), 1e-3)])
def test_near_the_kernel_between_them(factor, tolerance):
    rng = np.random.default_rng(0)
    if factor.points.shape[1] == 2:
        angles = rng.uniform(0, 2 * np.pi, 50)
        x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        x = rng.random((50, 1))
    found = factor.components(x.astype(np.float32), everything(factor))
    np.testing.assert_allclose(found @ found.T, gaussian(x, x, factor.gamma), atol=tolerance)


def test_two_points_by_hand():
    """The Gram matrix [[1, e], [e, 1]] has eigenvalues 1 + e and 1 - e with (1, 1) and (1, -1) over root 2."""
    factor = over_line(2, 2.0)
    e = np.exp(-2.0)
    np.testing.assert_allclose(factor.eigenvalues, [1 + e, 1 - e])
    np.testing.assert_allclose(
        factor.components(np.array([[0], [1]], np.float32), everything(factor)),
        np.sqrt([[(1 + e) / 2, (1 - e) / 2], [(1 + e) / 2, (1 - e) / 2]]) * [[1, 1], [1, -1]],
        rtol=1e-5,
    )


def test_angles_are_eigenvectors_of_the_gram_matrix():
    factor = over_angles(25, 5.0)
    gram = gaussian(factor.points, factor.points, 5.0)
    np.testing.assert_allclose(gram @ factor.projection, factor.projection * factor.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(np.sort(factor.eigenvalues), np.sort(np.linalg.eigvalsh(gram)), atol=1e-9)


def test_joint_components_are_the_largest_of_the_joint_gram_matrix():
    """Kernel PCA over the grid itself: the Gram matrix of all 5 x 5 x 9 basis points, solved densely."""
    place, angle = over_line(5, 3.0), over_angles(9, 2.0)
    points = [
        np.concatenate([y, x, a]) for y in place.points for x in place.points for a in angle.points
    ]  # y, x, cosine, sine
    y, x, a = np.split(np.array(points), [1, 2], axis=1)
    gram = gaussian(y, y, 3.0) * gaussian(x, x, 3.0) * gaussian(a, a, 2.0)
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(gram))
    n = next(n for n in range(40, 60) if values[n] < 0.99 * values[n - 1])  # not inside a group of equal ones
    chosen = joint_components([place, place, angle], n)
    of_chosen = place.eigenvalues[chosen[:, 0]] * place.eigenvalues[chosen[:, 1]] * angle.eigenvalues[chosen[:, 2]]
    np.testing.assert_allclose(of_chosen, values[:n], rtol=1e-8)
    found = [
        f.components(v.astype(np.float32), chosen[:, i])
        for i, (f, v) in enumerate(zip((place, place, angle), (y, x, a)))
    ]
    features = np.prod(found, axis=0)
    best = (vectors[:, :n] * values[:n]) @ vectors[:, :n].T
    np.testing.assert_allclose(features @ features.T, best, atol=1e-3)


def test_equal_eigenvalues_keep_the_order_of_the_grid():
    bit = over_line(2, 2.0)
    chosen = joint_components([bit, bit, bit], 8)
    np.testing.assert_array_equal(
        chosen, [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
    )
