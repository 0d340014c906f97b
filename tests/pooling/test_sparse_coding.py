"""Sparse codes and the dictionary behind them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from cbid.pooling.sparse_coding import coded, learn_dictionary, sparse_codes


def problem(m, n, d, seed):
    rng = np.random.default_rng(seed)
    words = rng.normal(size=(n, d))
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    rows = rng.normal(size=(m, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), words.astype(np.float32)


def solved(rows, words, alpha, tol=1e-3):
    return sparse_codes(rows, words, words @ words.T, alpha, tol).toarray()


def assert_optimal(rows, words, codes, alpha, slack):
    g = (rows.astype(float) - codes.astype(float) @ words.astype(float)) @ words.T.astype(float)
    assert (np.abs(g) <= alpha + slack).all()
    used = codes != 0
    np.testing.assert_allclose(g[used], alpha * np.sign(codes[used]), atol=slack)


@given(
    st.integers(1, 30), st.integers(1, 60), st.integers(8, 20), st.sampled_from([0.05, 0.15, 0.6]), st.integers(0, 99)
)
@settings(max_examples=60, deadline=None)
def test_codes_are_optimal(m, n, d, alpha, seed):
    rows, words = problem(m, n, d, seed)
    assert_optimal(rows, words, solved(rows, words, alpha), alpha, slack=2e-3 * alpha + 1e-5)


@given(st.integers(1, 60), st.integers(1, 4), st.sampled_from([0.01, 0.15, 0.6]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_crowded_words_still_give_nearly_the_least_objective(n, d, alpha, seed):
    """Residuals scaled to |D theta| <= alpha give a lower bound, 1/2 |x|^2 - 1/2 |x - theta|^2, of the objective."""
    rows, words = (a.astype(float) for a in problem(5, n, d, seed))
    codes = solved(rows.astype(np.float32), words.astype(np.float32), alpha)
    residual = rows - codes @ words
    objective = 0.5 * (residual**2).sum(axis=1) + alpha * np.abs(codes).sum(axis=1)
    theta = residual * np.minimum(1, alpha / np.abs(residual @ words.T).max(axis=1))[:, None]
    bound = 0.5 * (rows**2).sum(axis=1) - 0.5 * ((rows - theta) ** 2).sum(axis=1)
    assert (objective - bound <= 0.02 * objective + 1e-6).all()


def test_codes_equal_those_of_scikit_learn():
    """Lasso has 1 / (2 d) |x - D^T u|^2 + a |u|_1, so its a is our alpha / d."""
    rows, words = problem(20, 50, 16, 0)
    codes = solved(rows, words, 0.1, tol=1e-4)
    lasso = Lasso(alpha=0.1 / 16, fit_intercept=False, tol=1e-10, max_iter=100_000)
    expected = np.stack([lasso.fit(words.T.astype(float), row).coef_ for row in rows.astype(float)])
    np.testing.assert_allclose(codes, expected, atol=2e-4)
    np.testing.assert_array_equal(codes != 0, expected != 0)


def test_orthonormal_words_shrink_each_product():
    """With D D^T = I the code is each product pulled towards zero by alpha."""
    rows, _ = problem(10, 1, 8, 1)
    expected = np.sign(rows) * np.maximum(np.abs(rows) - 0.15, 0)
    np.testing.assert_allclose(solved(rows, np.eye(8, dtype=np.float32), 0.15), expected, atol=1e-6)


def test_a_large_alpha_leaves_nothing_and_a_row_of_zeros_has_no_code():
    rows, words = problem(10, 20, 8, 2)
    assert not solved(rows, words, 1.01).any()
    assert not solved(0 * rows, words, 0.1).any()


def test_equal_words_and_words_of_zeros():
    rows, words = problem(10, 12, 6, 3)
    words = np.concatenate([words, words, np.zeros((2, 6), np.float32)])
    codes = solved(rows, words, 0.05)
    assert_optimal(rows, words, codes, 0.05, slack=1e-4)
    assert not codes[:, -2:].any()


@pytest.mark.parametrize("scale", [0.5, 3])
def test_rows_and_alpha_scale_together(scale):
    rows, words = problem(15, 40, 10, 4)
    np.testing.assert_allclose(
        solved(np.float32(scale) * rows, words, scale * 0.1, 1e-5), scale * solved(rows, words, 0.1, 1e-5), atol=1e-3
    )


@pytest.fixture(scope="module")
def rows():
    """Rows that are sums of two of twelve words."""
    rng = np.random.default_rng(0)
    planted = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    uses = np.zeros((800, 12))
    for row in uses:
        row[rng.choice(12, 2, replace=False)] = rng.choice([-1, 1], 2)
    return (uses @ planted / np.sqrt(2)).astype(np.float32), planted


def objective(rows, words, alpha=0.1):
    codes = coded(rows, words, alpha=alpha, tol=1e-4)
    return 0.5 * ((rows - codes @ words) ** 2).sum() + alpha * abs(codes).sum()


def learned(rows, n_iter, **changes):
    settings = {"alpha": 0.1, "tol": 1e-4, "rng": np.random.default_rng(3), **changes}
    return learn_dictionary(rows, 12, n_iter=n_iter, **settings)


def test_more_turns_never_raise_the_objective(rows):
    values = [objective(rows[0], learned(rows[0], n_iter)) for n_iter in (1, 2, 4, 8, 16)]
    assert (np.diff(values) < 1e-3).all()
    assert values[-1] < 0.8 * values[0]


def test_planted_words_are_found(rows):
    """Each planted word is, up to its sign, one of the learned ones."""
    words = learned(rows[0], 40)
    likeness = np.abs(words @ rows[1].T).max(axis=0)
    assert (likeness > 0.99).mean() > 0.8


def test_words_are_at_most_of_unit_length(rows):
    assert (np.linalg.norm(learned(5 * rows[0], 3), axis=1) <= 1 + 1e-6).all()


def test_threads_do_not_change_the_words(rows, monkeypatch):
    monkeypatch.setattr("cbid.pooling.sparse_coding._CHUNK_ROWS", 100)
    np.testing.assert_array_equal(learned(rows[0], 3), learned(rows[0], 3, n_threads=2))


def test_unused_words_are_replaced(rows):
    """With rows of zeros among them, some first words are zero and write nothing."""
    some = rows[0].copy()
    some[:600] = 0
    words = learned(some, 30)
    assert np.linalg.norm(words, axis=1).min() > 0.5


def test_too_few_rows_are_rejected(rows):
    with pytest.raises(ValueError, match="n_words=12"):
        learned(rows[0][:11], 1)
