"""FastHash: its parts have tests of their own; here, how they are put together."""

import numpy as np
import pytest

from cbid.coders import FastHash
from cbid.coders.rivals.boosted_trees import sum_of_trees
from tests.coders.blobs import blobs
from tests.coders.rivals.test_block_cut import total_loss


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
