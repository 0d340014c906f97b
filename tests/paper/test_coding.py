"""Coders at several lengths, and classifiers over their bits."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.scoring import hamming_rows, nearest_class
from cbid import CBID
from cbid.coders import LSH
from cbid.paper.coding import CODERS, Method, Vectors, code_lengths, nearest_neighbours, support_vectors


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 6))
    y, yt = np.repeat(np.arange(3), 30), np.repeat(np.arange(3), 10)
    X, Xt = (centres[v] + 0.4 * rng.normal(size=(len(v), 6)) for v in (y, yt))
    return Vectors(X.astype(np.float32), y, Xt.astype(np.float32), yt, np.arange(30), np.arange(90))


def test_one_fit_gives_every_length(blobs):
    found = dict(code_lengths("C-BID", blobs, [4, 8], 0))
    whole = CBID(likeness=0, n_bits=8, random_state=0).fit(blobs.X, blobs.y)
    np.testing.assert_array_equal(found[4].transform(blobs.Xt), whole.transform(blobs.Xt)[:, :4])
    np.testing.assert_array_equal(found[8].weights_, whole.weights_)


def test_a_impossible_length_is_reported(blobs):
    found = dict(code_lengths("LSI", blobs, [4, 8], 0))
    assert found[4].n_bits_ == 4
    assert "n_bits=8" in found[8]


def test_a_method_of_one_length_comes_whole(blobs):
    ((_, coder),) = code_lengths("MC-bit", blobs, [64], 0)
    assert coder.n_bits_ == 4  # nodes of a tree over three classes


def test_a_setting_is_chosen_on_the_validation_images_at_the_least_length(blobs, monkeypatch):
    fitted = []

    def make(n_bits=4, nu=0.1, **settings):
        fitted.append((n_bits, nu))
        return CBID(n_bits=n_bits, nu=nu, likeness=0, kernel="linear", **settings)

    def classify(vectors, coder):
        np.testing.assert_array_equal(vectors.Xt, held_out.Xv)
        return vectors.yt if coder.nu == 0.3 else np.full_like(vectors.yt, -1)

    held_out = replace(blobs, Xv=blobs.Xt[::2], yv=blobs.yt[::2])
    monkeypatch.setitem(CODERS, "tuned", Method("", make, prefix=True, grid=("nu", (0.2, 0.3, 0.4))))
    found = dict(code_lengths("tuned", held_out, [3, 5], 0, classify))
    assert [fit for fit in fitted if fit[1] != 0.1] == [(3, 0.2), (3, 0.3), (3, 0.4), (5, 0.3)]
    assert {length: (coder.n_bits_, coder.nu) for length, coder in found.items()} == {3: (3, 0.3), 5: (5, 0.3)}
    with pytest.raises(ValueError, match="no validation images"):
        dict(code_lengths("tuned", blobs, [3], 0, classify))


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbours_are_those_of_all_distances(blobs, weighted):
    """Against sorting the full matrix; votes that tie are left out, since the two break them differently."""
    coder = CBID(n_bits=12).fit(blobs.X, blobs.y) if weighted else LSH(n_bits=12).fit(blobs.X)
    train, test = coder.transform(blobs.X), coder.transform(blobs.Xt)
    distances = np.concatenate(list(hamming_rows(train, test, coder.weights_ if weighted else None)))
    nearest = np.sort(blobs.y[np.argsort(distances, axis=1, kind="stable")[:, :5]], axis=1)
    majority = np.array([np.bincount(n).max() >= 3 for n in nearest])
    np.testing.assert_array_equal(
        nearest_neighbours(blobs, coder)[majority], nearest_class(distances, blobs.y)[majority]
    )
    assert majority.sum() > 20


def test_without_a_coder_the_vectors_count(blobs):
    expected = KNeighborsClassifier(5).fit(blobs.X, blobs.y).predict(blobs.Xt)
    np.testing.assert_array_equal(nearest_neighbours(blobs, None), expected)
    assert np.mean(support_vectors(blobs, None) == blobs.yt) > 0.8
    assert np.mean(support_vectors(blobs, CBID(n_bits=8).fit(blobs.X, blobs.y)) == blobs.yt) > 0.8


def test_every_coder_says_what_it_is():
    assert all(method.text for method in CODERS.values())
