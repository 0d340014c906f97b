"""Kept vectors: the distances of the second look, and the order of candidates."""

import numpy as np
import pytest

from cbid.search.kernels.scan import nearest_columns
from cbid.search.vectors import KeptVectors


def plain(queries, vectors, metric):
    products = np.einsum("qd,qcd->qc", queries.astype(float), vectors.astype(float))
    if metric == "l2":
        return np.linalg.norm(vectors.astype(float) - queries[:, None], axis=2)
    return 1 - products if metric == "cosine" else -products


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("keep", ["float16", "int8"])
@pytest.mark.parametrize("d", [1, 16, 37])
def test_distances_are_those_of_numpy(metric, keep, d):
    """Ids with gaps, in several chunks, some removed and one added again; sizes down to the subnormals of float16."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(90, d)) * 10.0 ** rng.integers(-7, 2, (90, 1))
    ids = rng.permutation(rng.choice(300, 90, replace=False))
    kept = KeptVectors(keep, metric, d)
    for part in np.array_split(np.arange(90), 4):
        kept.add(ids[part], *kept.compressed(X[part]))
    kept.remove(ids[[4, 30, 31]])
    kept.add(ids[[30]], *kept.compressed(X[[30]]))
    asked = rng.integers(-1, 301, (7, 200))
    queries = kept.as_queries(rng.normal(size=(7, d)))
    near = kept.distances_to_ids(queries, asked, n_threads=2)
    vectors, known = (found.reshape(7, 200, *found.shape[1:]) for found in _each(kept, asked))
    np.testing.assert_array_equal(np.isinf(near), ~known)
    assert set(asked[known]) <= set(ids) - set(ids[[4, 31]])
    assert ids[30] in asked[known]
    # Sums are rounded to float32 relative to their terms, which may cancel.
    lengths = np.linalg.norm(queries, axis=-1)[:, None] * np.linalg.norm(vectors, axis=-1)
    error = np.abs(near - plain(queries, vectors, metric))[known]
    terms = lengths if metric == "ip" else np.abs(plain(queries, vectors, metric))
    assert (error <= 1e-6 + 1e-5 * terms[known]).all()


def _each(kept, asked):
    distinct, inverse = np.unique(asked, return_inverse=True)
    return (found[inverse.ravel()] for found in kept.get(distinct))


def test_a_sum_that_overflows_is_the_largest_distance():
    kept = KeptVectors("float16", "ip", 2)
    kept.add(np.array([0, 1]), *kept.compressed(np.array([[6e4, -6e4], [6e4, 6e4]])))
    queries = np.array([[3e38, 3e38], [-3e38, -3e38]], np.float32)
    largest = np.finfo(np.float32).max
    near = kept.distances_to_ids(queries, np.array([[1, 2], [1, 2]]))
    np.testing.assert_array_equal(near, [[-largest, np.inf], [largest, np.inf]])
    assert np.isfinite(kept.distances_to_ids(queries, np.array([[0], [0]]))).all()


@pytest.mark.parametrize("k", [1, 3, 12])
def test_columns_are_by_distance_then_id(k):
    rng = np.random.default_rng(k)
    near = rng.integers(0, 4, (50, 12)).astype(np.float32)
    near[rng.random(near.shape) < 0.3] = np.inf
    ids = np.argsort(rng.random((50, 12)), axis=1)
    expected = np.lexsort((ids, near), axis=1)[:, :k]
    columns = nearest_columns(near, ids, k)
    found, wanted = (np.take_along_axis(near, order, axis=1) for order in (columns, expected))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(columns[np.isfinite(wanted)], expected[np.isfinite(wanted)])
