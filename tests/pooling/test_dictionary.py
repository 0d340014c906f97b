"""Dictionary learning: the objective falls, words are no longer than one, and planted words are found."""

import numpy as np
import pytest

from cbid.pooling.dictionary import coded, learn_dictionary


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
    monkeypatch.setattr("cbid.pooling.dictionary._CHUNK_ROWS", 100)
    np.testing.assert_array_equal(learned(rows[0], 3), learned(rows[0], 3, n_threads=2))


def test_words_that_nothing_uses_are_drawn_anew(rows):
    """With rows of zeros among them, some first words are zero and write nothing."""
    some = rows[0].copy()
    some[:600] = 0
    words = learned(some, 30)
    assert np.linalg.norm(words, axis=1).min() > 0.5


def test_too_few_rows_are_refused(rows):
    with pytest.raises(ValueError, match="n_words=12 is not accepted for 11 rows"):
        learned(rows[0][:11], 1)
