"""The whole flow: vectors to bits, codes, an index and answers, through files."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cbid import CBID, CodeIndex, CodeKNeighborsClassifier, codes, load


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:1300], y[1200:1300]


def test_from_vectors_to_answers_and_back_through_files(digits, tmp_path):
    X, y, Q, yq = digits
    coder = CBID(n_bits=20).fit(X, y)
    index = CodeIndex(n_bits=20, weights=coder.weights_)
    index.add(coder.encode(X), labels=y)
    coder.save(tmp_path / "digits.cbid")
    index.save(tmp_path / "digits.index")

    coder, index = load(tmp_path / "digits.cbid"), CodeIndex.open(tmp_path / "digits.index")
    matches = index.search(coder.encode(Q), k=5)
    expected = codes.weighted_hamming(coder.encode(Q), coder.encode(X), coder.weights_)
    np.testing.assert_allclose(matches.distances, np.sort(expected, axis=1)[:, :5], rtol=1e-5)
    np.testing.assert_array_equal(matches.labels, y[matches.ids])
    votes = np.array([np.bincount(row, minlength=10).argmax() for row in matches.labels])
    assert np.mean(votes == yq) > 0.85


def test_weights_per_class_of_the_stored_item(digits):
    X, y, Q, _ = digits
    names = np.array([f"digit {v}" for v in range(10)])
    coder = CBID(n_bits=16, margin="database").fit(X, names[y])
    index = CodeIndex(n_bits=16, weights=coder.weights_, classes=coder.classes_)
    index.add(coder.encode(X), labels=names[y])
    matches = index.search(coder.encode(Q), k=3)
    differ = coder.transform(Q)[:, None, :] != coder.transform(X)[None, :, :]
    column = np.searchsorted(coder.classes_, names[y])
    expected = np.einsum("qnt,nt->qn", differ, coder.weights_.T[column])
    np.testing.assert_allclose(matches.distances, np.sort(expected, axis=1)[:, :3], rtol=1e-5)


def test_asymmetric_queries_keep_the_digits(digits):
    X, y, Q, yq = digits
    coder = CBID(n_bits=12).fit(X, y)
    index = CodeIndex(n_bits=12)
    index.add(coder.encode(X), labels=y)
    hard = index.search(coder.encode(Q), k=1).labels[:, 0]
    soft = index.search(projections=coder.project(Q), k=1).labels[:, 0]
    assert np.mean(soft == yq) >= np.mean(hard == yq) - 0.02


def test_the_classifier_with_a_coder_inside(digits):
    X, y, Q, yq = digits
    assert CodeKNeighborsClassifier(5, coder=CBID(n_bits=32)).fit(X, y).score(Q, yq) > 0.9
