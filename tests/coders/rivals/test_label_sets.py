"""Rivals that take several labels per sample, and the error of those that do not."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from cbid.coders import CCAITQ, COSDISH, KSH, LSI, SDH, FastHash, LDASign, MCBit, PiCoDes
from cbid.coders.rivals import ksh, sdh, signs
from cbid.coders.rivals.fasthash import class_blocks, infer_bit, most_frequent_labels
from cbid.learning.scaling import centre

from ..blobs import blobs

X, y = blobs(n=90, d=6, k=3)
SETS = csr_matrix(np.column_stack([y == 0, y == 1, y == 2, y > 0]).astype(int))
TAKE = {
    "CCAITQ": CCAITQ(n_bits=8),
    "KSH": KSH(n_bits=8, n_anchors=30),
    "SDH": SDH(n_bits=8, n_anchors=30),
    "COSDISH": COSDISH(n_bits=8),
    "FastHash": FastHash(n_bits=4, n_trees=5),
}


@pytest.mark.parametrize("name", TAKE)
def test_one_label_each_gives_the_code_of_plain_labels(name):
    plain = TAKE[name].fit(X, y).transform(X)
    for Y in (np.eye(3)[y], csr_matrix(np.eye(3)[y]), [[int(c)] for c in y]):
        np.testing.assert_array_equal(TAKE[name].fit(X, Y).transform(X), plain)


@pytest.mark.parametrize("name", TAKE)
def test_samples_that_share_a_label_are_nearer(name):
    """Classes 1 and 2 share a label, class 0 shares none with them."""
    coder = TAKE[name].fit(X, SETS)
    assert coder.classes_.tolist() == [0, 1, 2, 3]
    B = coder.transform(X).astype(float)
    D = (B.shape[1] - B @ B.T) / 2
    share = (SETS @ SETS.T).toarray() > 0
    assert D[share].mean() < 0.7 * D[~share].mean()


@pytest.mark.parametrize("coder", [MCBit(n_bits=2), PiCoDes(n_bits=4), LDASign(n_bits=2)], ids=str)
def test_other_methods_say_that_they_take_one_label(coder):
    with pytest.raises(ValueError, match=f"Y gives several labels per sample: {type(coder).__name__} expects one"):
        coder.fit(X, SETS)


def test_methods_without_labels_ignore_them():
    assert LSI(n_bits=2).fit(X, SETS).n_bits_ == 2


def test_every_sample_needs_a_label():
    Y = SETS.toarray()
    Y[3] = 0
    with pytest.raises(ValueError, match="Y has 1 samples without a label: SDH expects"):
        SDH().fit(X, Y)
    with pytest.raises(ValueError, match="Y has 80 rows: expected 90"):
        SDH().fit(X, Y[:80])


ALIKE = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=bool)


def similarity():
    return np.where(ALIKE[np.ix_(y, y)], 1.0, -1.0)


def test_ksh_products_and_residues_by_the_matrix_itself():
    S = similarity()
    H = np.sign(np.random.default_rng(0).standard_normal((90, 3)))
    R = ksh.ClassAffinity(y, 3, scale=3, capacity=3, alike=ALIKE)
    R.add(H[:, 0])
    V = np.random.default_rng(1).standard_normal((90, 2))
    np.testing.assert_allclose(R.times(V), (3 * S - np.outer(H[:, 0], H[:, 0])) @ V)
    expected = [np.mean((S - H[:, :s] @ H[:, :s].T / 3) ** 2) for s in (1, 2, 3)]
    np.testing.assert_allclose(ksh.residues(H, y, 3, ALIKE), expected)


def test_cosdish_columns_by_the_matrix_itself():
    drawn = np.array([0, 5, 7, 31])
    rest = np.setdiff1d(np.arange(90), drawn)
    columns = sdh.Columns(y, drawn, rest, 3, ALIKE)
    S = np.where(similarity() > 0, 1.0, -columns.other)
    assert S[:, drawn].sum() == pytest.approx(0)
    np.testing.assert_allclose(columns.among_drawn(), S[np.ix_(drawn, drawn)])
    V = np.random.default_rng(1).standard_normal((4, 2))
    np.testing.assert_allclose(columns.among_rest(V), S[np.ix_(rest, drawn)] @ V)


def test_fasthash_blocks_hold_similar_samples_and_lower_the_energy():
    of = most_frequent_labels(SETS)
    assert of.tolist() == np.where(y == 0, 0, 3).tolist()
    kinds = y  # one kind of label set for each class here
    alike = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=bool)
    z = np.sign(np.random.default_rng(0).standard_normal(90)).astype(np.float32)
    H = np.sign(np.random.default_rng(1).standard_normal((90, 1))).astype(np.float32)

    def energy(z):
        d = (1 - H @ H.T) / 2
        hinge = np.maximum(0, 2 - d) ** 2 - np.maximum(0, 1 - d) ** 2  # 4 bits: apart by half of them
        a = np.where(alike[np.ix_(kinds, kinds)], d**2 - (d + 1) ** 2, hinge)
        return z @ a @ z - np.trace(a)

    found = infer_bit(H, kinds, class_blocks(of, 20), 4, z, 2, alike)
    assert energy(found) < energy(z)


def test_canonical_directions_of_label_sets():
    """One label each is the special case: the same correlations, and the same directions up to their sign."""
    Z = centre(X).Z
    W, c = signs.canonical_directions(Z, y, 3, reg=1e-3)
    V, d = signs.canonical_directions_of_sets(Z, csr_matrix(np.eye(3)[y]), reg=1e-3)
    np.testing.assert_allclose(d[:2], c, atol=1e-9)
    np.testing.assert_allclose(np.abs(V[:, :2]), np.abs(W), atol=1e-7)
