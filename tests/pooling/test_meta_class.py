"""Classemes, meta-classes and their label tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from cbid.coders import ModelFileError
from cbid.codes import pack
from cbid.pooling import Classemes, MetaClass, load
from cbid.pooling.meta_class import confusion_affinity, grow_tree
from cbid.storage.models import read_model, write_model


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@parametrize_with_checks([Classemes(), MetaClass(output="bit"), MetaClass(output="pca", n_components=1)])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_classemes_are_one_classifier_a_class(digits):
    X, y = digits
    values = Classemes(C=0.5).fit(X[:400], y[:400]).transform(X[400:])
    svm = LinearSVC(C=0.5, class_weight="balanced", max_iter=10_000)
    for c in range(10):
        expected = svm.fit(X[:400], y[:400] == c).decision_function(X[400:])
        np.testing.assert_allclose(values[:, c], expected, rtol=1e-3, atol=1e-3)


def test_meta_classes_are_one_classifier_a_node(digits):
    X, y = digits
    model = MetaClass(n_jobs=2).fit(X[:400], y[:400])
    assert model.groups_.shape == (18, 10)
    values = model.transform(X)
    svm = LinearSVC(class_weight="balanced", max_iter=10_000)
    for node in (0, 2, 17):
        expected = svm.fit(X[:400], model.groups_[node][y[:400]]).decision_function(X)
        np.testing.assert_allclose(values[:, node], expected, rtol=1e-3, atol=1e-3)
    leaves = model.groups_[model.groups_.sum(axis=1) == 1]
    assert sorted(leaves.argmax(axis=1)) == list(range(10))


def test_bits_and_principal_axes_follow_from_the_values(digits):
    X, y = digits
    real, bit, pca = (MetaClass(output=o, n_components=5).fit(X, y).transform(X) for o in ("real", "bit", "pca"))
    assert bit.dtype == np.int8
    np.testing.assert_array_equal(bit, np.where(real >= 0, 1, -1))
    assert pack(bit).shape == (len(X), 3)
    expected = PCA(5).fit_transform(real)
    np.testing.assert_allclose(np.abs(pca), np.abs(expected), atol=1e-6)


def test_classes_that_look_alike_share_a_node():
    """Two pairs of overlapping blobs: each pair is a node of the tree."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [9, 0], [0, 0.7], [9, 0.7]])
    y = np.repeat(np.arange(4), 60)
    model = MetaClass().fit(centres[y] + rng.normal(size=(240, 2)), y)
    assert model.groups_[:2].tolist() == [[True, False, True, False], [False, True, False, True]]


def test_new_classes_are_separated_by_the_base_classes(digits):
    """Learned on digits 0 to 6, the outputs tell 7, 8 and 9 apart."""
    X, y = digits
    base = y < 7
    model = MetaClass().fit(X[base], y[base])
    F, labels = model.transform(X[~base]), y[~base]
    assert KNeighborsClassifier(5).fit(F[:200], labels[:200]).score(F[200:], labels[200:]) > 0.85


@pytest.mark.parametrize("model", [Classemes(output="pca"), MetaClass(), MetaClass(output="bit")], ids=str)
def test_model_files(digits, tmp_path, model):
    X, y = digits
    model.fit(X, np.array(list("abcdefghij"))[y]).save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.classes_.tolist() == list("abcdefghij")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    kind, state, arrays = read_model(tmp_path / "m")
    for name in arrays:
        write_model(tmp_path / "m", kind, state, {**arrays, name: arrays[name][1:]})
        with pytest.raises(ModelFileError, match="complete"):
            load(tmp_path / "m")


def test_wrong_settings_are_rejected(digits):
    X, y = digits
    for model, message in (
        (Classemes(C=-1), "C=-1"),
        (Classemes(output="bits"), "output='bits'"),
        (MetaClass(n_components=0), "n_components=0"),
        (MetaClass(n_folds=1), "n_folds=1"),
        (MetaClass(output="pca", n_components=19), "n_components=19"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="one class"):
        Classemes().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="one sample"):
        MetaClass().fit(X[:50], [*y[:49], 99])


def test_affinity_of_a_small_case():
    """Class 0: two of four taken for class 1; class 1: one of two taken for class 0; class 2: none mistaken."""
    numbers, predicted = np.array([0, 0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 0, 2])
    expected = [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]
    np.testing.assert_allclose(confusion_affinity(numbers, predicted), expected)


def test_planted_groups_are_cut_first():
    """{0, 2, 4} against {1, 3, 5}; within the first, 0 and 4 belong together more than either with 2."""
    groups = np.array([0, 1, 0, 1, 0, 1])
    affinity = np.where(groups[:, None] == groups, 0.2, 0.01)
    affinity[0, 4] = affinity[4, 0] = 0.5
    nodes = [set(np.flatnonzero(node)) for node in grow_tree(affinity)]
    assert nodes[:2] == [{0, 2, 4}, {1, 3, 5}]
    assert nodes[2:4] == [{0, 4}, {2}]


@given(st.integers(1, 12), st.integers(0, 1000), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_nodes_make_a_binary_tree(k, seed, density):
    rng = np.random.default_rng(seed)
    affinity = rng.random((k, k)) * (rng.random((k, k)) < density)
    nodes = grow_tree(affinity + affinity.T)
    assert nodes.shape == (2 * k - 2, k)
    pairs = nodes.reshape(-1, 2, k)
    found = [frozenset(range(k))]
    for first, second in pairs:
        parts = frozenset(np.flatnonzero(first)), frozenset(np.flatnonzero(second))
        assert all(parts)
        assert not parts[0] & parts[1]
        assert parts[0] | parts[1] in found  # a node that came before
        found.extend(parts)
    assert len(set(found)) == 2 * k - 1
