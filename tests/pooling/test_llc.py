"""LLC against the constrained least squares solved directly, in float64."""

import numpy as np
import pytest

from cbid.pooling import LLC
from tests.pooling.made import made_bags


def solved_directly(x, B, ridge):
    """min |x - B^T w|^2 + ridge tr |w|^2 subject to 1^T w = 1, by its Lagrangian: one linear system for w and the
    multiplier. tr is the sum of |b - x|^2."""
    k = len(B)
    trace = ((B - x) ** 2).sum()
    system = np.zeros((k + 1, k + 1))
    system[:k, :k] = 2 * (B @ B.T + ridge * trace * np.eye(k))
    system[:k, k] = system[k, :k] = 1
    return np.linalg.solve(system, np.append(2 * B @ x, 1))[:k]


@pytest.fixture(scope="module")
def model():
    return LLC(n_words=20, n_nearest=5, pyramid=(1,)).fit(made_bags((200, 100), d=12))


@pytest.mark.parametrize("ridge", [1e-4, 0.1])
def test_codes_solve_the_constrained_problem(model, ridge):
    rows = made_bags((60,), d=12, seed=1).values
    codes = LLC(**{**model.get_params(), "ridge": ridge}).fit(made_bags((200, 100), d=12)).code(rows).toarray()
    words = model.words_.astype(float)
    for x, code in zip(rows.astype(float), codes):
        nearest = np.argsort(((words - x) ** 2).sum(axis=1))[:5]
        assert set(np.flatnonzero(code)) <= set(nearest)
        np.testing.assert_allclose(code[nearest], solved_directly(x, words[nearest], ridge), atol=2e-3)
    np.testing.assert_allclose(codes.sum(axis=1), 1, rtol=1e-5)


def test_a_row_that_is_a_word_is_written_by_it(model):
    codes = model.code(model.words_).toarray()
    np.testing.assert_allclose(codes, np.eye(20), atol=0.01)


def test_a_row_between_two_words_is_shared_by_them():
    words = np.array([[0, 0], [1, 0], [9, 9], [-9, 9]], np.float32)
    model = LLC(n_words=4, n_nearest=2, ridge=1e-6, pyramid=(1,)).fit([words])
    code = model.code([[0.25, 0]]).toarray()[0]
    of = {tuple(word): value for word, value in zip(model.words_.round().tolist(), code)}
    assert of[0, 0] == pytest.approx(0.75, abs=1e-3)
    assert of[1, 0] == pytest.approx(0.25, abs=1e-3)


def test_equal_words_share_a_row_that_equals_them():
    model = LLC(n_words=3, n_nearest=3, pyramid=(1,)).fit([np.ones((3, 4))])
    model.words_ = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(model.code(np.ones((1, 4))).toarray(), 1 / 3, rtol=1e-6)


def test_more_neighbours_than_words_are_all_words():
    bags = [np.random.default_rng(0).normal(size=(30, 4))]
    model = LLC(n_words=3, n_nearest=5, pyramid=(1,)).fit(bags)
    assert (model.code(bags[0]).toarray() != 0).all()
