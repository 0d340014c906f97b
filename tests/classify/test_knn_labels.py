"""CodeKNeighborsClassifier with label sets, label trees and unknown items."""

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from cbid.classify import CodeKNeighborsClassifier
from cbid.coders import ITQ
from cbid.evaluation import micro_f1

RNG = np.random.default_rng(0)
CENTRES = RNG.choice([-1, 1], (4, 48))
KIND = RNG.integers(0, 4, 200)
X = np.where(RNG.random((200, 48)) < 0.1, -1, 1) * CENTRES[KIND]
TRUE = np.array([[1, 0, 0, 0, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]])[KIND]
NAMES = np.array(["a", "b", "c", "d", "e"])


def as_sets(matrix):
    return [set(NAMES[row > 0].tolist()) for row in matrix]


@pytest.mark.parametrize("short", [False, True])
def test_label_sets_come_back_in_the_form_of_y(short):
    """Label c is never used: it stays a column of a matrix. Short codes are merged before they vote."""
    bits = X[:, :24] if short else X
    model = CodeKNeighborsClassifier(3)
    dense = model.fit(bits[:150], TRUE[:150]).predict(bits[150:])
    assert model.classes_.tolist() == [0, 1, 3, 4]
    assert dense.shape == (50, 5)
    assert micro_f1(TRUE[150:], dense) > 0.9
    assert model.score(bits[150:], TRUE[150:]) == accuracy_score(TRUE[150:], dense)
    sparse = model.fit(bits[:150], csr_array(TRUE[:150])).predict(bits[150:])
    assert issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    assert model.score(bits[150:], csr_array(TRUE[150:])) == accuracy_score(TRUE[150:], dense)
    sets = model.fit(bits[:150], as_sets(TRUE[:150])).predict(bits[150:])
    assert model.classes_.tolist() == ["a", "b", "d", "e"]
    assert sets.tolist() == as_sets(dense)
    assert model.score(bits[150:], as_sets(TRUE[150:])) == accuracy_score(TRUE[150:], dense)


def test_the_vote_is_scikit_learns_without_ties():
    """Distances of random weights do not tie. An odd number of neighbours has no equal votes."""
    weights = RNG.random(48) + 0.1
    ours = CodeKNeighborsClassifier(5, bit_weights=weights).fit(X[:150], TRUE[:150])
    theirs = KNeighborsClassifier(5, metric="sqeuclidean", algorithm="brute")
    theirs.fit(X[:150] * np.sqrt(weights), TRUE[:150][:, [0, 1, 3, 4]])
    shares = np.stack([p[:, 1] for p in theirs.predict_proba(X[150:] * np.sqrt(weights))], axis=1)
    np.testing.assert_allclose(ours.predict_proba(X[150:]), shares, atol=1e-12)


def test_all_that_tie_share_the_votes_for_a_label():
    """One neighbour at distance 0 and three at distance 1 share two votes: 1 + 1/3 of 2 for a, 2/3 of 2 for b."""
    bits = [[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]
    model = CodeKNeighborsClassifier(2).fit(bits, [["a"], ["a"], ["b"], ["b", "c"]])
    np.testing.assert_allclose(model.predict_proba([[1, 1, 1]]), [[2 / 3, 1 / 3, 1 / 6]])
    assert model.predict([[1, 1, 1]]).tolist() == [{"a"}]
    assert model.set_params(threshold=1 / 3).predict([[1, 1, 1]]).tolist() == [{"a", "b"}]
    assert model.set_params(threshold=0).predict([[1, 1, 1]]).tolist() == [{"a", "b", "c"}]
    assert model.set_params(threshold=1).predict([[1, 1, 1]]).tolist() == [set()]


BITS = [[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [0, 0, 0]]
PATHS = ["car", "animal/dog", "animal/cat", "car", "animal/cat"]


def test_a_tree_is_descended_from_the_top():
    """Of 4 votes car has 2, dog and cat 1 each: car and animal tie, and car is the class with most votes.

    With a fifth one for cat, animal has 3 of 5 and cat 2.
    """
    flat = CodeKNeighborsClassifier(5).fit(BITS, PATHS)
    np.testing.assert_allclose(flat.predict_proba([[1, 1, 1]]), [[0.4, 0.2, 0.4]], atol=1e-8)
    tree = CodeKNeighborsClassifier(5, tree="/").fit(BITS, PATHS)
    assert tree.predict([[1, 1, 1]]).tolist() == ["animal/cat"]
    assert tree.tree_.path("animal/cat") == ("animal", "animal/cat")
    assert tree.set_params(threshold=0.5).predict([[1, 1, 1]]).tolist() == ["animal"]
    assert tree.set_params(threshold=0.9).predict([[1, 1, 1]]).tolist() == ["animal"]  # the top always answers
    four = CodeKNeighborsClassifier(4, tree="/").fit(BITS, PATHS)
    assert four.predict([[1, 1, 1]]).tolist() == ["car"]


def test_a_tree_of_numbers():
    numbers = [{"car": 3, "animal/dog": 1, "animal/cat": 2}[path] for path in PATHS]
    model = CodeKNeighborsClassifier(5, tree={1: 10, 2: 10, 3: 30}, threshold=0.5).fit(BITS, numbers)
    assert model.predict([[1, 1, 1]]).tolist() == [10]


def test_unknown_items_are_rejected_at_the_stated_share():
    """Codes without a learned coder: leave-one-out. New items of the known kinds, and of a kind never seen."""
    rng = np.random.default_rng(1)

    def items(centres, n):
        kind = rng.integers(0, len(centres), n)
        return np.where(rng.random((n, 48)) < 0.15, -1, 1) * centres[kind], kind

    known, kind = items(CENTRES[:3], 600)
    model = CodeKNeighborsClassifier(5, unknown=0.1).fit(known, np.array(["x", "y", "z"])[kind])
    new, new_kind = items(CENTRES[:3], 600)
    other, _ = items(CENTRES[3:], 300)
    predicted = model.predict(new)
    assert np.mean(predicted == "unknown") == pytest.approx(0.1, abs=0.04)
    accepted = predicted != "unknown"
    assert np.mean(predicted[accepted] == np.array(["x", "y", "z"])[new_kind][accepted]) > 0.95
    assert np.mean(model.predict(other) == "unknown") > 0.95
    scores = model.decision(np.concatenate([new, other]))
    np.testing.assert_array_equal(scores[: len(new)] < 0, ~accepted)
    assert roc_auc_score([1] * len(new) + [0] * len(other), scores) > 0.98
    numbers = CodeKNeighborsClassifier(5, unknown=0.1).fit(known, kind).predict(other)
    assert np.mean(numbers == -1) > 0.95
    sets = CodeKNeighborsClassifier(5, unknown=0.1).fit(known, [["k", str(v)] for v in kind]).predict(other)
    assert np.mean(sets == set()) > 0.95
    plain = CodeKNeighborsClassifier(5).fit(known, kind)
    assert plain.unknown_distance_ is None
    np.testing.assert_allclose(plain.decision(new) + model.unknown_distance_, model.decision(new))


class Overfit(TransformerMixin, BaseEstimator):
    """A coder that gives the samples it has learned from the code of their class, and others one near it."""

    def fit(self, X, y):
        self.known_ = {row.tobytes(): int(label) for row, label in zip(X, y)}
        return self

    def transform(self, X):
        rng = np.random.default_rng(0)
        bits = np.array([CENTRES[self.known_.get(row.tobytes(), int(row[0] > 0))] for row in X])
        new = np.array([row.tobytes() not in self.known_ for row in X])
        return np.where(new[:, None] & (rng.random(bits.shape) < 0.2), -bits, bits)

    def encode(self, X):
        return np.packbits(self.transform(X) > 0, axis=1)


def test_the_distance_is_found_on_samples_that_the_coder_has_not_learned_from():
    """Samples that were learned stand at distance 0 from each other; new ones do not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    rows = np.where(y[:, None] > 0, 1, -1) * rng.random((300, 4))
    model = CodeKNeighborsClassifier(5, coder=Overfit(), unknown=0.1).fit(rows[:200], y[:200])
    assert model.unknown_distance_ > 5
    assert np.mean(model.predict(rows[200:]) == -1) < 0.25
    before = CodeKNeighborsClassifier(5, unknown=0.1).fit(model.coder_.transform(rows[:200]), y[:200])
    assert before.unknown_distance_ == 0
    new = model.coder_.transform(rows[200:])
    assert np.mean(before.predict(new) == -1) > 0.9
    assert np.mean(before.calibrate(new).predict(new) == -1) <= 0.1


def test_units_of_two_fits_are_made_comparable():
    """The coder of the held-out part may have other weights; its distances are scaled by the largest possible one."""

    class Scaled(ITQ):
        def fit(self, X, y=None):
            super().fit(X)
            self.weights_ = np.full(self.n_bits_, float(len(X)))
            return self

    rows = RNG.normal(size=(100, 24))
    y = RNG.integers(0, 2, 100)
    scaled = CodeKNeighborsClassifier(3, coder=Scaled(n_bits=16), unknown=0.2).fit(rows, y)
    plain = CodeKNeighborsClassifier(3, coder=ITQ(n_bits=16), unknown=0.2).fit(rows, y)
    assert scaled.unknown_distance_ == pytest.approx(100 * plain.unknown_distance_)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"threshold": 2}, PATHS, "threshold=2"),
        ({"unknown": 1}, PATHS, "unknown=1"),
        ({"unknown": "5 %"}, PATHS, "unknown='5 %'"),
        ({"unknown": 0.1}, ["unknown", *PATHS[1:]], "unknown=0.1: expected .* other than 'unknown'"),
        ({"unknown": 0.1}, [-1, 1, 2, 3, 4], "unknown=0.1: expected .* other than -1"),
        ({"tree": {"car": "vehicle"}}, PATHS, "tree lacks 2 of 3 labels"),
        ({"tree": "/"}, [[path] for path in PATHS], "tree is given, but samples have several labels"),
        ({}, [["a"]], "y has 1 label sets: expected 5"),
        ({}, [[]] * 5, "y has no label"),
        ({}, np.full((5, 2), 2), r"y\[0, 0\]=2"),
        ({"bit_weights": np.ones((3, 2))}, [["a"]] * 5, "bit_weights has one vector for each class"),
        ({"coder": ITQ(n_bits=2), "unknown": 0.1}, list("abcde"), "unknown=0.1: expected a class of at least 2"),
    ],
)
def test_bad_input_is_named(settings, y, message):
    with pytest.raises(ValueError, match=message):
        CodeKNeighborsClassifier(2, **settings).fit(BITS, y)


def test_calibration_needs_a_share_and_samples():
    model = CodeKNeighborsClassifier(2).fit(BITS, PATHS)
    with pytest.raises(ValueError, match="unknown=None"):
        model.calibrate(BITS)
    with pytest.raises(ValueError, match=r"unknown=0\.1: expected at least 2 samples"):
        CodeKNeighborsClassifier(1, unknown=0.1).fit(BITS[:1], PATHS[:1])
