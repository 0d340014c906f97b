"""Words: drawing rows, k-means, nearest words."""

import faiss
import numpy as np
import pytest

from cbid.pooling.base import draw_rows, fixed_codes, k_means, nearest_words


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(600, 7)).astype(np.float32)


def test_well_parted_groups_are_found():
    """Four tight groups at the corners of a square: each group's mean is a centre."""
    corners = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
    rng = np.random.default_rng(0)
    points = (np.repeat(corners, 50, axis=0) + 0.01 * rng.normal(size=(200, 2))).astype(np.float32)
    words = k_means(points, 4, seed=1)
    assert words.shape == (4, 2)
    assert words.dtype == np.float32
    order = np.lexsort(words.round().T[::-1])
    np.testing.assert_allclose(words[order], points.reshape(4, 50, 2).mean(axis=1), atol=1e-5)


def test_the_seed_decides_and_threads_do_not(rows):
    words = k_means(rows, 12, seed=3)
    np.testing.assert_array_equal(k_means(rows, 12, seed=3), words)
    np.testing.assert_array_equal(k_means(rows, 12, seed=3, n_threads=2), words)
    assert not np.array_equal(k_means(rows, 12, seed=4), words)


def test_as_many_words_as_rows_are_the_rows(rows):
    words = k_means(rows[:9], 9)
    np.testing.assert_allclose(words[np.lexsort(words.T)], rows[:9][np.lexsort(rows[:9].T)], rtol=1e-6)
    with pytest.raises(ValueError, match="n_words=10"):
        k_means(rows[:9], 10)


@pytest.mark.parametrize("m", [1, 5, 300])
def test_nearest_words_are_those_of_the_definition(rows, m):
    words = rows[-20:]
    squares, numbers = nearest_words(rows[:m], words, 3)
    exact = ((rows[:m, None].astype(float) - words) ** 2).sum(axis=2)
    np.testing.assert_array_equal(numbers, np.argsort(exact, axis=1)[:, :3])
    np.testing.assert_allclose(squares, np.sort(exact, axis=1)[:, :3], rtol=1e-4, atol=1e-5)


def test_faiss_has_its_threads_back_afterwards(rows):
    before = faiss.omp_get_max_threads()
    nearest_words(rows, rows[:4], n_threads=before + 1)
    assert faiss.omp_get_max_threads() == before


def test_drawn_rows_are_distinct_and_in_order():
    rows = np.arange(1000, dtype=np.float32)[:, None]
    drawn = draw_rows(rows, 100, np.random.default_rng(0))[:, 0]
    assert len(drawn) == 100
    assert (np.diff(drawn) > 0).all()
    assert draw_rows(rows, 1000, np.random.default_rng(0)) is rows


def test_codes_of_a_fixed_number_of_entries():
    codes = fixed_codes(np.array([[1, 2], [3, 4]], np.float32), np.array([[0, 3], [2, 1]]), 5)
    assert codes.toarray().tolist() == [[1, 0, 0, 2, 0], [0, 4, 3, 0, 0]]
