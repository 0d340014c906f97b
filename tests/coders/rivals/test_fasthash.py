"""FastHash: its bits, and block graph cuts against enumeration and the losses they stand for."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbid.coders import FastHash
from cbid.coders.rivals import fasthash
from cbid.coders.rivals.fasthash import affinities, class_blocks, cut_block, infer_bit, sum_of_trees
from tests.coders.blobs import blobs


def test_the_loss_falls_with_every_few_bits():
    """Pairs of one class agree, others differ in half of the bits: less is lost than without the later bits."""
    X, y = blobs(n=120, d=5, k=4)
    H = FastHash(n_bits=16, n_trees=20).fit(X, y).transform(X).astype(float)
    lost = [total_loss(H[:, :s], y, 16) for s in (1, 4, 8, 16)]
    assert (np.diff(lost) < 0).all()
    assert lost[-1] < 0.1 * lost[0]


def test_what_labels_alone_do_not_show_is_learned_by_trees():
    """Two classes in a chequered pattern, which no hyperplane parts."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    coder = FastHash(n_bits=4, n_trees=30).fit(X[:400], y[:400])
    bits = coder.transform(X).astype(float)
    found = y[:400][np.argmax(bits[400:] @ bits[:400].T, axis=1)]
    assert np.mean(found == y[400:]) > 0.9


def test_projections_are_sums_over_the_stored_trees():
    X, y = blobs()
    coder = FastHash(n_bits=3, n_trees=7, depth=2).fit(X, y)
    assert coder.features_.shape == coder.thresholds_.shape == (3, 7, 3)
    assert coder.leaves_.shape == (3, 7, 4)
    Z = ((X - coder.mean_) / coder.unit_).astype(np.float32)
    for s in range(3):
        expected = sum_of_trees(Z, coder.features_[s], coder.thresholds_[s], coder.leaves_[s], coder.tree_weights_[s])
        np.testing.assert_allclose(coder.project(X)[:, s], expected, rtol=1e-6)


def test_values_far_outside_do_not_overflow():
    X, y = blobs()
    coder = FastHash(n_bits=2, n_trees=3).fit(X * 1e-30, y)
    assert coder.transform(np.full((1, 5), 1e300)).shape == (1, 2)


@pytest.mark.parametrize("block_size", [1, 7, 1000])
def test_blocks_of_any_size(block_size):
    X, y = blobs()
    assert FastHash(n_bits=4, n_trees=3, block_size=block_size).fit(X, y).n_bits_ == 4


def total_loss(H, numbers, n_bits):
    """Sum over pairs: d^2 within a class, max(0, m/2 - d)^2 between classes."""
    d = (H.shape[1] - H @ H.T) / 2
    same = numbers[:, None] == numbers
    loss = np.where(same, d**2, np.maximum(0, n_bits / 2 - d) ** 2)
    return np.triu(loss, 1).sum()


@pytest.mark.parametrize("n_bits", [4, 5])
def test_affinities_are_differences_of_losses(n_bits):
    same, apart = affinities(4, n_bits)
    for d in range(5):
        assert same[d] / 4 == d**2 - (d + 1) ** 2
        assert apart[d] / 4 == max(0, n_bits / 2 - d) ** 2 - max(0, n_bits / 2 - d - 1) ** 2


@given(st.integers(0, 10**6), st.integers(1, 7))
def test_a_block_is_cut_at_its_minimum(seed, b):
    rng = np.random.default_rng(seed)
    within = -rng.integers(0, 9, (b, b))
    within = within + within.T
    pull = rng.integers(-30, 30, b)

    def value(z):
        z = np.array(z)
        return np.triu(np.outer(z, z) * within, 1).sum() + pull @ z

    found = cut_block(within, pull, np.ones(b, np.float32))
    assert value(found) == min(value(z) for z in product([-1, 1], repeat=b))


def test_a_cut_keeps_what_is_as_good():
    z = np.array([1, 1, -1], np.float32)
    np.testing.assert_array_equal(cut_block(np.zeros((3, 3), int), np.zeros(3, int), z), z)


def test_large_capacities_are_rounded_not_wrapped(monkeypatch):
    """Past the capacity of an int32 flow the cut is that of rounded numbers, here the same."""
    monkeypatch.setattr(fasthash, "_MOST_FLOW", 100)
    within, pull = np.array([[0, -1000], [-1000, 0]]), np.array([5000, -3000])
    np.testing.assert_array_equal(cut_block(within, pull, np.ones(2, np.float32)), [-1, 1])
    np.testing.assert_array_equal(cut_block(10 * within, pull, np.ones(2, np.float32)), [-1, -1])


@pytest.mark.parametrize("seed", range(4))
def test_sides_never_raise_the_loss_and_no_class_gains_by_moving(seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 4, 24)
    H = np.sign(rng.standard_normal((24, 3))).astype(np.float32)
    start = np.sign(rng.standard_normal(24)).astype(np.float32)
    blocks = class_blocks(numbers, 100)

    def loss(z):
        return total_loss(np.column_stack([H, z]), numbers, 8)

    z = infer_bit(H, numbers, blocks, 8, start, 50)
    assert loss(z) <= loss(start)
    for block in blocks:
        members = [np.array(sides, np.float32) for sides in product([-1, 1], repeat=len(block))][:256]
        for sides in members:
            moved = z.copy()
            moved[block] = sides
            assert loss(moved) >= loss(z)


def test_blocks_cover_every_sample_once_and_hold_one_class():
    numbers = np.array([0] * 7 + [2] * 3)
    blocks = class_blocks(numbers, 3)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(10))
    assert [len(block) for block in blocks] == [3, 2, 2, 3]
    assert all(len(set(numbers[block])) == 1 for block in blocks)
