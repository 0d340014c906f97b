import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks

from cbid.descriptors import BlockPCA


@parametrize_with_checks([BlockPCA(n_components=1)])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_one_block_is_pca():
    X = np.random.default_rng(0).normal(size=(40, 6))
    np.testing.assert_allclose(BlockPCA(n_components=3).fit_transform(X), PCA(3).fit_transform(X), atol=1e-12)


def test_blocks_share_components_and_keep_their_ends():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4, 7))
    found = BlockPCA(n_components=3, n_blocks=4, n_kept=2).fit(X.reshape(30, 28)).transform(X.reshape(30, 28))
    found = found.reshape(30, 4, 5)
    expected = PCA(3).fit(X[:, :, :5].reshape(120, 5))
    for b in range(4):
        np.testing.assert_allclose(found[:, b, :3], expected.transform(X[:, b, :5]), atol=1e-12)
        np.testing.assert_array_equal(found[:, b, 3:], X[:, b, 5:])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_blocks": 4}, "n_blocks=.*6 values"),
        ({"n_blocks": 2, "n_kept": 3}, "n_blocks=.*6 values"),
        ({"n_components": 7}, "n_components=7.* from 1 to 6"),
        ({"n_blocks": 0}, "n_blocks=0"),
        ({"n_kept": -1}, "n_kept=-1"),
    ],
)
def test_settings_that_are_not_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        BlockPCA(**params).fit(np.random.default_rng(0).normal(size=(20, 6)))
