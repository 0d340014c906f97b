"""CodeKNeighborsClassifier: the rules of scikit-learn, the vote, and scikit-learn's own k-NN beside it."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from cbid import CBID, CodeIndex
from cbid.classify import CodeKNeighborsClassifier, knn, votes
from cbid.classify.votes import neighbours_with_ties


@parametrize_with_checks([CodeKNeighborsClassifier(), CodeKNeighborsClassifier(3, weights="distance")])
def test_scikit_learn_rules(estimator, check):
    check(estimator)


class SignCoder(TransformerMixin, BaseEstimator):
    """A minimal coder: random projections, with weights."""

    def fit(self, X, y=None):
        self.coef_ = np.random.default_rng(0).normal(size=(48, X.shape[1]))
        self.mean_ = X.mean(axis=0)
        self.weights_ = np.arange(1, 49) / 8
        return self

    def transform(self, X):
        return np.where((X - self.mean_) @ self.coef_.T > 0, 1, -1).astype(np.int8)

    def encode(self, X):
        return np.packbits(self.transform(X) > 0, axis=1)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, np.array(["digit " + str(label) for label in y]), random_state=0)


@pytest.fixture(scope="module")
def bits(digits):
    X, X_test, y, _ = digits
    coder = SignCoder().fit(X)
    return coder.transform(X), coder.transform(X_test), y


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("bit_weights", [None, np.arange(1, 49) / 8])
def test_equal_to_scikit_learn(bits, weights, bit_weights):
    """Its k-NN with the same distances; the data holds no tie in the vote that the two break differently."""
    X, X_test, y = bits
    ours = CodeKNeighborsClassifier(5, weights=weights, bit_weights=bit_weights).fit(X, y)
    scale = np.sqrt(np.ones(48) if bit_weights is None else bit_weights) / 2
    theirs = KNeighborsClassifier(5, weights=weights, metric="sqeuclidean", algorithm="brute").fit(X * scale, y)
    d_ours, near = ours.kneighbors(X_test)
    d_theirs, _ = theirs.kneighbors(X_test * scale)
    np.testing.assert_allclose(d_ours, d_theirs, rtol=1e-5, atol=1e-5)
    assert near.dtype == np.int64
    # Where the k-th and the next are equally far, either is right; elsewhere the shares agree.
    clear = theirs.kneighbors(X_test * scale, 6)[0]
    clear = clear[:, 5] > clear[:, 4] + 1e-6
    assert clear.sum() > 20
    np.testing.assert_allclose(
        ours.predict_proba(X_test)[clear], theirs.predict_proba(X_test * scale)[clear], atol=1e-5
    )


def test_a_coder_inside_a_coder_before_and_packed_codes_are_the_same(digits):
    X, X_test, y, y_test = digits
    weights = np.arange(1, 49) / 8
    inside = CodeKNeighborsClassifier(coder=SignCoder(), n_jobs=-1).fit(X, y)
    before = make_pipeline(SignCoder(), CodeKNeighborsClassifier(bit_weights=weights)).fit(X, y)
    coder = SignCoder().fit(X)
    packed = CodeKNeighborsClassifier(packed=True, bit_weights=weights).fit(coder.encode(X), y)
    labels = inside.predict(X_test)
    np.testing.assert_array_equal(before.predict(X_test), labels)
    np.testing.assert_array_equal(packed.predict(coder.encode(X_test)), labels)
    assert inside.score(X_test, y_test) > 0.9
    assert inside.index_.n_bits == 48
    np.testing.assert_array_equal(inside.index_.weights, weights)
    plain = CodeKNeighborsClassifier(coder=SignCoder(), bit_weights=None).fit(X, y)
    assert plain.index_.weights is None


def test_packed_codes_of_a_width_that_is_no_multiple_of_eight(bits):
    X, X_test, y = bits
    narrow = CodeKNeighborsClassifier().fit(X[:, :13], y)
    packed = CodeKNeighborsClassifier(packed=True, n_bits=13).fit(np.packbits(X[:, :13] > 0, axis=1), y)
    np.testing.assert_array_equal(
        packed.predict(np.packbits(X_test[:, :13] > 0, axis=1)), narrow.predict(X_test[:, :13])
    )


def test_weights_per_class_of_the_training_item():
    """One bit differs from each item: it costs 3 for class "a" and 1 for class "b", so "b" is nearer."""
    X, y = np.array([[1, 1], [-1, -1]]), ["a", "b"]
    model = CodeKNeighborsClassifier(1, bit_weights=[[3, 1], [3, 1]]).fit(X, y)
    assert model.predict([[1, -1]]).tolist() == ["b"]
    assert model.kneighbors([[1, -1]], 2)[0].tolist() == [[1, 3]]
    np.testing.assert_allclose(CodeKNeighborsClassifier(1).fit(X, y).predict_proba([[1, -1]]), [[0.5, 0.5]])


def test_the_nearest_decides_where_classes_tie():
    """Neighbours at 0, 1, 1, 2 bits of classes 2, 1, 1, 2: two votes each; class 2 has the nearest."""
    X = np.array([[1, 1, 1, 1], [1, 1, 1, -1], [1, 1, -1, 1], [1, -1, -1, 1]])
    y = [2, 1, 1, 2]
    model = CodeKNeighborsClassifier(4).fit(X, y)
    assert model.predict(X[:1]).tolist() == [2]
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], atol=1e-8)
    assert model.predict(X[1:2]).tolist() == [1]


def test_distance_votes():
    """From [1, 1, 1]: class 0 at distance 1, class 1 at distances 2 and 3: 1 against 1/2 + 1/3."""
    X = np.array([[1, 1, -1], [1, -1, -1], [-1, -1, -1]])
    model = CodeKNeighborsClassifier(3, weights="distance").fit(X, [0, 1, 1])
    np.testing.assert_allclose(model.predict_proba([[1, 1, 1]]), [[6 / 11, 5 / 11]])
    np.testing.assert_allclose(model.predict_proba(X[1:2]), [[0, 1]])  # at distance 0 it votes alone
    uniform = CodeKNeighborsClassifier(3).fit(X, [0, 1, 1])
    np.testing.assert_allclose(uniform.predict_proba([[1, 1, 1]]), [[1 / 3, 2 / 3]])
    tiny = CodeKNeighborsClassifier(3, weights="distance", bit_weights=[1e-38] * 3).fit(X, [0, 1, 1])
    np.testing.assert_allclose(tiny.predict_proba([[1, 1, 1]]), [[6 / 11, 5 / 11]], rtol=1e-6)


def test_neighbours_of_the_training_items_leave_themselves_out():
    X = np.array([[1, 1, 1]] * 4 + [[-1, -1, -1]])
    model = CodeKNeighborsClassifier(2).fit(X, [0, 0, 1, 1, 1])
    distances, rows = model.kneighbors()
    assert rows.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]
    assert distances[:4].max() == 0
    assert model.kneighbors(n_neighbors=4, return_distance=False).tolist()[4] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="n_neighbors=5"):
        model.kneighbors(n_neighbors=5)


BAD = {
    "n_neighbors": ({"n_neighbors": 0}, ValueError, "n_neighbors"),
    "weights": ({"weights": "squared"}, ValueError, "weights='squared'"),
    "packed and coder": (
        {"packed": True, "coder": SignCoder()},
        ValueError,
        "packed=True",
    ),
    "n_bits": ({"n_bits": 3}, ValueError, "n_bits=3"),
    "bit_weights text": (
        {"bit_weights": "best"},
        ValueError,
        "bit_weights='best'",
    ),
    "bit_weights shape": ({"bit_weights": [1, 2]}, ValueError, r"weights has shape \(2,\)"),
    "bit_weights sign": ({"bit_weights": [-1, 1, 1]}, ValueError, "weights.*negative"),
    "bit_weights columns": ({"bit_weights": np.ones((3, 3))}, ValueError, "bit_weights has 3 columns"),
    "not packed": ({"packed": True}, TypeError, "X has dtype int64"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    options, error, message = BAD[case]
    X = np.array([[1, -1, 1], [-1, -1, 1], [1, 1, 1]])
    with pytest.raises(error, match=message):
        CodeKNeighborsClassifier(**options).fit(X, [0, 1, 1])


def test_more_neighbours_than_items():
    model = CodeKNeighborsClassifier(4).fit(np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match="n_neighbors=4"):
        model.predict(np.eye(3))


def test_a_failed_fit_leaves_the_classifier_as_it_was(digits):
    X, X_test, y, _ = digits
    model = CodeKNeighborsClassifier(3, coder=SignCoder()).fit(X, y)
    before = model.predict(X_test)
    model.set_params(bit_weights=np.ones(3))
    with pytest.raises(ValueError, match="weights"):
        model.fit(X[:, :5], [label + "!" for label in y])
    np.testing.assert_array_equal(model.predict(X_test), before)


def test_settings_changed_after_fit_count_in_the_next_fit(digits):
    X, X_test, y, _ = digits
    for model in (CodeKNeighborsClassifier(3, coder=SignCoder()), CodeKNeighborsClassifier(3)):
        before = model.fit(X, y).predict(X_test)
        other = None if model.coder is not None else SignCoder()
        np.testing.assert_array_equal(model.set_params(coder=other).predict(X_test), before)
    codes = np.packbits(X > 8, axis=1)
    model = CodeKNeighborsClassifier(3, packed=True, n_bits=64).fit(codes, y)
    before = model.predict(codes)
    np.testing.assert_array_equal(model.set_params(packed=False, n_bits=None).predict(codes), before)


def test_a_fit_without_a_coder_forgets_the_last_one(digits):
    X, X_test, y, _ = digits
    model = CodeKNeighborsClassifier(3, coder=SignCoder()).fit(X, y).set_params(coder=None).fit(X, y)
    assert model.coder_ is None
    np.testing.assert_array_equal(model.predict(X_test), CodeKNeighborsClassifier(3).fit(X, y).predict(X_test))


def test_n_jobs_zero_is_rejected():
    with pytest.raises(ValueError, match="n_jobs=0"):
        CodeKNeighborsClassifier(n_jobs=0).fit([[1], [-1]] * 5, [0, 1] * 5)


def test_an_array_as_weights_is_rejected():
    with pytest.raises(ValueError, match="weights="):
        CodeKNeighborsClassifier(weights=np.ones(2)).fit([[1, 0], [-1, 0]] * 5, [0, 1] * 5)


def test_a_coder_must_encode(digits):
    X, _, y, _ = digits
    with pytest.raises(ValueError, match=r"coder=PCA\(n_components=3\)"):
        CodeKNeighborsClassifier(coder=PCA(3)).fit(X, y)


@pytest.mark.parametrize("margin", ["paper", "class"])
def test_weights_by_the_class_of_the_query_are_ignored(digits, margin):
    X, X_test, y, _ = digits
    X, X_test, y = X[:300], X_test[:100], y[:300]
    coder = CBID(n_bits=8, margin=margin)
    with pytest.warns(UserWarning, match=f"margin='{margin}'"):
        model = CodeKNeighborsClassifier(3, coder=coder).fit(X, y)
    plain = CodeKNeighborsClassifier(3, coder=coder, bit_weights=None).fit(X, y)
    np.testing.assert_array_equal(model.predict(X_test), plain.predict(X_test))
    weighted = CodeKNeighborsClassifier(3, coder=CBID(n_bits=8, margin="database")).fit(X, y)
    assert weighted.index_.weights.shape == (8, len(weighted.classes_))


def test_all_that_tie_with_the_last_neighbour_vote():
    """From [1, 1, 1, 1]: class 0 at distance 0; 1, 1 and 2 at distance 1, which share the one vote that is left."""
    X = np.array([[1, 1, 1, 1], [1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, -1, -1, -1]])
    model = CodeKNeighborsClassifier(2).fit(X, [0, 1, 1, 2, 2])
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[1 / 2, 1 / 3, 1 / 6]])
    near = CodeKNeighborsClassifier(2, weights="distance").fit(X[1:], [1, 1, 2, 2])
    np.testing.assert_allclose(near.predict_proba(X[:1]), [[2 / 3, 1 / 3]])


@pytest.fixture(scope="module")
def short(digits):
    """Codes of 8 bits, in the order of the classes, and their classes; and test codes."""
    X, X_test, y, y_test = digits
    coder = SignCoder().fit(X)
    order = np.argsort(y, kind="stable")
    return (coder.transform(X)[order, :8], y[order], coder.transform(X_test)[:, :8], y_test)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("merged", [True, False])
def test_the_order_of_the_rows_changes_no_prediction(short, weights, merged, monkeypatch):
    X, y, X_test, _ = short
    if not merged:
        monkeypatch.setattr(knn, "_MAX_MERGED_BITS", 0)
    model = CodeKNeighborsClassifier(5, weights=weights).fit(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    other = CodeKNeighborsClassifier(5, weights=weights).fit(X[order], y[order])
    np.testing.assert_array_equal(other.predict(X_test), model.predict(X_test))
    np.testing.assert_allclose(other.predict_proba(X_test), model.predict_proba(X_test), atol=1e-12)


def test_the_order_of_the_classes_changes_no_accuracy(short):
    """Rows sorted by class, with the classes named in ten different orders: no place in the order is favoured.

    Only votes that are exactly equal are decided by a random number. With ties by row number the accuracy varies by
    11 per cent, and the first class is predicted five times as often as the last.
    """
    X, y, X_test, y_test = short
    numbers, test = (np.array([int(name[-1]) for name in names]) for names in (y, y_test))
    scores, predicted = [], np.zeros(10)
    for seed in range(10):
        name = np.random.default_rng(seed).permutation(10)
        order = np.argsort(name[numbers], kind="stable")
        model = CodeKNeighborsClassifier(5).fit(X[order], name[numbers][order])
        scores.append(model.score(X_test, name[test]))
        predicted += np.bincount(model.predict(X_test), minlength=10)
    assert np.ptp(scores) < 0.03
    assert predicted.max() / predicted.min() < 1.4


def test_very_many_ties(monkeypatch):
    """All 3,000 codes are equal, and a quarter is of class 1: the vote of a random subset has about that share."""
    monkeypatch.setattr(votes, "MAX_TIED", 1000)
    monkeypatch.setattr(votes, "_ENOUGH_TIED", 100)
    monkeypatch.setattr(knn, "_MAX_MERGED_BITS", 0)
    monkeypatch.setattr(votes, "_FIRST_SAMPLE", 100)
    X, y = np.ones((3000, 8)), np.arange(3000) >= 2250
    model = CodeKNeighborsClassifier(5).fit(X, y)
    shares = model.predict_proba(X[:3])
    np.testing.assert_array_equal(shares[1:], shares[:2])
    assert 0.18 < shares[0, 1] < 0.32
    monkeypatch.undo()
    np.testing.assert_allclose(CodeKNeighborsClassifier(5).fit(X, y).predict_proba(X[:1]), [[0.75, 0.25]])


def test_excluded_neighbours_and_their_ties():
    """Four equal codes and one that differs in a bit: without ids 0 and 1, two tie for the first place."""
    index = CodeIndex(8)
    index.add(np.array([[0], [0], [0], [0], [1]], np.uint8), labels=[0, 0, 1, 1, 1])
    near = list(neighbours_with_ties(index, np.zeros((1, 1), np.uint8), 1, excluded=np.array([0, 1])))
    assert [ids for group in near for ids in group.ids.tolist()] == [[2, 3]]
