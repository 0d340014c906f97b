"""Leading axes against numpy's SVD, by the dense way and by the Krylov one."""

import numpy as np
import pytest

from cbid.learning import axes
from cbid.learning.axes import leading_axes, principal_axes


@pytest.fixture(params=[4096, 3], ids=["dense", "krylov"])
def way(request, monkeypatch):
    monkeypatch.setattr(axes, "_DENSE_UP_TO", request.param)
    monkeypatch.setattr(axes, "_ROWS", 7)  # rows come in several parts


def data(n=40, d=9):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) * np.arange(d, 0, -1) + 3


def test_singular_vectors_and_lengths(way):
    X = data()
    _, lengths, Vt = np.linalg.svd(X)
    found = leading_axes(lambda part: X[part], *X.shape, 4)
    np.testing.assert_allclose(found.lengths, lengths[:4])
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * Vt[:4], axis=1)), 1)
    assert (np.take_along_axis(found.vectors, np.abs(found.vectors).argmax(axis=1)[:, None], 1) > 0).all()


def test_principal_axes_have_deviations(way):
    X = data()
    mean, found = principal_axes(X, 3)
    np.testing.assert_allclose(mean, X.mean(axis=0))
    np.testing.assert_allclose(((X - mean) @ found.vectors.T).std(axis=0), found.lengths)


def test_axes_of_nothing_but_rounding_are_left_out(way):
    X = data(d=2) @ np.random.default_rng(1).standard_normal((2, 6))
    assert len(principal_axes(X, 5)[1].lengths) == 2
    with pytest.raises(ValueError, match="no column that varies"):
        principal_axes(np.full((5, 6), 0.1), 2)
