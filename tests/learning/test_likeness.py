"""Rows and bits of likeness: what they compare, which bits are theirs, and what the axes keep."""

import numpy as np
import pytest

from cbid.learning.bits import TakenBits
from cbid.learning.features import fit_whitening
from cbid.learning.likeness import (
    LikenessSearch,
    difficulty,
    fit_likeness_axes,
    fit_rotation,
    is_likeness_bit,
    likeness_rows,
)

from .problems import blobs


def kinds(likeness, n_classes, length=512, hard=1.0):
    return np.array([is_likeness_bit(s, likeness, n_classes, hard) for s in range(length)])


@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_the_ends_are_pure(n_classes):
    assert not kinds(0.0, n_classes).any()
    assert kinds(1.0, n_classes).all()


@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_more_likeness_never_means_fewer_bits_of_it(n_classes):
    shares = np.array([np.cumsum(kinds(a, n_classes)) for a in np.linspace(0, 1, 11)])
    assert (np.diff(shares, axis=0) >= -1).all()  # rounding may move a bit by one place
    assert (np.diff(shares[:, -1]) > 0).all()


@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_class_bits_come_first_and_grow_with_the_logarithm_of_the_classes(n_classes):
    found = kinds(0.5, n_classes)
    assert not found[:16].any()
    wanted = 0.7 * np.log2(n_classes) * 512**0.66
    assert (~found).sum() == int(max(16, wanted))
    # Ever fewer: the second half of the code has fewer of them than the first.
    assert (~found[256:]).sum() < (~found[:256]).sum()


def test_classes_that_are_easy_to_name_get_fewer_bits_after_the_first():
    assert difficulty(None) == difficulty(0.17) == difficulty(0.9) == 1
    assert difficulty(0.14) == pytest.approx((0.14 / 0.17) ** 0.58)
    assert difficulty(0.0) == 0.8
    easy, hard = ~kinds(0.5, 10, hard=0.6), ~kinds(0.5, 10)
    assert easy[:16].all()
    assert easy.sum() == pytest.approx(0.6 * hard.sum(), abs=1)


def test_many_classes_leave_some_bits_for_likeness():
    assert kinds(0.5, 10_000, length=64).sum() == (64 - 16) / 8


def test_rows_compare_near_with_farther_and_know_by_how_much():
    X, _ = blobs(n=40, d=5)
    rows, far = likeness_rows(X, np.random.default_rng(0))
    D = np.linalg.norm(X[:, None].astype(float) - X[None], axis=2)
    i, j, *_ = rows.hits.pairs()
    anchor, near = i[rows.hit], j[rows.hit]
    i, j, *_ = rows.misses.pairs()
    assert (i[rows.miss] == anchor).all()
    distant = j[rows.miss]
    difference = D[anchor, distant] - D[anchor, near]
    assert (difference >= -1e-5).all()
    assert (anchor != near).all()
    np.testing.assert_allclose(far, difference / D.mean(), atol=1e-4)


@pytest.mark.parametrize("n", [3, 4, 7])
def test_rows_of_very_few_samples(n):
    X, _ = blobs(n=n, k=1)
    rows, far = likeness_rows(X, np.random.default_rng(0))
    assert len(rows) == len(far) > 0


def test_rotation_is_orthogonal_and_lowers_the_loss():
    V = np.random.default_rng(0).standard_normal((200, 6)) * [5, 4, 3, 2, 1, 0.5]

    def loss(R):
        return np.square(np.sign(V @ R) - V @ R).sum()

    start = fit_rotation(V, 6, n_iter=0, rng=np.random.default_rng(1))
    turned = fit_rotation(V, 6, n_iter=20, rng=np.random.default_rng(1))
    np.testing.assert_allclose(turned.T @ turned, np.eye(6), atol=1e-10)
    assert loss(turned) < loss(start)


def test_axes_shrink_what_differs_within_classes():
    """Column 0 tells the classes apart, column 1 varies as much within them: it loses against column 0."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = np.stack([2.0 * y - 1 + 0.1 * rng.standard_normal(300), rng.standard_normal(300)], axis=1)
    whitening = fit_whitening(X, n_components=2, ridge=0.1, random_state=0)
    plain = fit_likeness_axes(X, whitening, None)
    shaped = fit_likeness_axes(X, whitening, y)
    gram = plain.basis.T @ plain.basis
    np.testing.assert_allclose(gram, gram[0, 0] * np.eye(2), atol=1e-6)
    ratio = np.linalg.norm(shaped.basis[0]) / np.linalg.norm(shaped.basis[1])
    assert ratio > 1.2
    # Samples without a label, and classes with one member, say nothing about the variance within a class.
    nothing = fit_likeness_axes(X, whitening, np.where(np.arange(300) < 2, y, -1))
    np.testing.assert_allclose(np.abs(nothing.basis), np.abs(plain.basis), atol=1e-6)


def test_search_takes_each_direction_once_and_resumes():
    X, _ = blobs(n=120, d=5, k=4)
    whitening = fit_whitening(X, n_components=5, ridge=0.1, random_state=0)
    axes = fit_likeness_axes(X, whitening, None)
    rows, _ = likeness_rows(X, np.random.default_rng(0))
    weights = [np.ones(len(rows.misses)) / len(rows), -np.ones(len(rows.hits)) / len(rows)]
    taken = TakenBits(len(X), 12, 0.0)

    def bits(search, count):
        return [search.best(weights, taken, lambda h: h) for _ in range(count)]

    once = bits(LikenessSearch(axes(X), axes.basis, rows, seed=3), 8)
    # Within a rotation directions are orthogonal.
    B = np.stack([np.linalg.lstsq(axes.basis, bit.beta, rcond=None)[0] for bit in once[:5]])
    np.testing.assert_allclose(B @ B.T, np.eye(5), atol=1e-6)
    # The worth is the sum over rows of (miss distance - hit distance) / R.
    for bit in once:
        h = bit.h
        (mi, mj, *_), (hi, hj, *_) = rows.misses.pairs(), rows.hits.pairs()
        by_hand = (np.abs(h[mi] - h[mj]).sum() - np.abs(h[hi] - h[hj]).sum()) / len(rows)
        assert bit.value == pytest.approx(by_hand, abs=1e-4)
    again = LikenessSearch(axes(X), axes.basis, rows, seed=3)
    for bit in once[:6]:
        again.skip(bit.h)
    for bit, expected in zip(bits(again, 2), once[6:]):
        np.testing.assert_array_equal(bit.h, expected.h)


def test_later_rotations_after_class_bits_explain_what_earlier_ones_do_not():
    """The second rotation has all axes again; the 32 of the first count half, so directions lean to the new ones."""
    X = np.random.default_rng(0).standard_normal((400, 64)) * np.geomspace(2, 1, 64)
    axes = fit_likeness_axes(X, fit_whitening(X, n_components=64, ridge=0.0, random_state=0), None)
    rows, _ = likeness_rows(X, np.random.default_rng(0))
    weights = [np.ones(len(rows.misses)), -np.ones(len(rows.hits))]

    def share_of_new_axes(beside_class):
        search = LikenessSearch(axes(X), axes.basis, rows, seed=0, beside_class=beside_class)
        taken = TakenBits(len(X), 96, 0.0)
        betas = [search.best(weights, taken, lambda h: h).beta for _ in range(96)][32:]
        squares = np.square([np.linalg.lstsq(axes.basis, beta, rcond=None)[0] for beta in betas])
        return squares[:, 32:].sum() / squares.sum()

    # Each of the 64 axes has one unit of squared length over the rotation, the leading 32 of them (1/2)^2.
    assert share_of_new_axes(False) == pytest.approx(0.5, abs=1e-6)
    assert share_of_new_axes(True) == pytest.approx(1 / (1 + 0.25), abs=1e-6)
