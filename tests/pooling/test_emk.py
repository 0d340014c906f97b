"""Efficient match kernels against the match kernel itself, by all pairs of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.bags import Bags
from cbid.pooling import EMK, load


def match_kernel(bags, gamma):
    """The mean of exp(-gamma |x - y|^2) over all pairs of rows, (n, n)."""

    def mean(a, b):
        return np.exp(-gamma * ((a[:, None].astype(float) - b[None]) ** 2).sum(2)).mean()

    return np.array([[mean(a, b) for b in bags] for a in bags])


@pytest.fixture
def bags():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, 5)).astype(np.float32) + i % 2 for i, size in enumerate((12, 7, 1, 20))]


def test_exact_when_the_words_are_the_rows(bags):
    """With every row a word, K^-1 k(y) is the unit vector of y, and the projection loses nothing."""
    rows = np.concatenate(bags)
    emk = EMK(n_words=len(rows), gamma=0.1, ridge=1e-6, pyramid=(1,), norm=None).fit(bags)
    np.testing.assert_allclose(np.sort(emk.words_, axis=0), np.sort(rows, axis=0), atol=1e-6)
    vectors = emk.transform(bags)
    np.testing.assert_allclose(vectors @ vectors.T, match_kernel(bags, 0.1), atol=2e-3)


def test_near_with_fewer_words(bags):
    errors = []
    for n_words in (2, 10, 30):
        emk = EMK(n_words=n_words, gamma=0.1, pyramid=(1,), norm=None).fit(bags)
        vectors = emk.transform(bags)
        errors.append(np.abs(vectors @ vectors.T - match_kernel(bags, 0.1)).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


def test_one_word_by_hand():
    """One word z: the vector of a bag is the mean of exp(-gamma |x - z|^2) over root (1 + ridge)."""
    bag = np.array([[0.0, 0], [2, 0]], np.float32)
    emk = EMK(n_words=1, gamma=0.5, ridge=0.21, pyramid=(1,), norm=None).fit([bag])
    np.testing.assert_allclose(emk.words_, [[1, 0]])
    np.testing.assert_allclose(emk.transform([bag, bag[:1]]), [[np.exp(-0.5) / 1.1]] * 2, rtol=1e-6)


def test_gamma_follows_the_scale_of_the_rows(bags):
    """Rows of twice the length have a quarter of the gamma, and the same vectors."""
    emk = EMK(n_words=8, pyramid=(1,)).fit(bags)
    twice = [2 * bag for bag in bags]
    other = EMK(n_words=8, pyramid=(1,)).fit(twice)
    assert other.gamma_ == pytest.approx(emk.gamma_ / 4, rel=1e-4)
    np.testing.assert_allclose(emk.transform(bags), other.transform(twice), atol=1e-3)


def positioned(rng, n_images=3):
    """Images of 40 x 60 pixels with 9 rows each, anywhere."""
    frames = [np.column_stack([rng.uniform(0, 59, 9), rng.uniform(0, 39, 9), np.full(9, 8)]) for _ in range(n_images)]
    return Bags.from_list([rng.normal(size=(9, 4)) for _ in frames], frames, [(40, 60)] * n_images)


def test_cells_add_up_to_the_whole_image():
    bags = positioned(np.random.default_rng(1))
    vectors = EMK(n_words=6, pyramid=(1, 2, (1, 3)), norm=None).fit(bags).transform(bags)
    assert vectors.shape == (3, (1 + 4 + 3) * 6)
    cells = vectors.reshape(3, 8, 6)
    np.testing.assert_allclose(cells[:, 1:5].sum(1), cells[:, 0], atol=1e-5)
    np.testing.assert_allclose(cells[:, 5:].sum(1), cells[:, 0], atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    bags = positioned(rng, 1)
    emk = EMK(n_words=5).fit(bags)
    mixed = bags.take_rows(rng.permutation(9), bags.offsets, bags.shapes)
    np.testing.assert_allclose(emk.transform(mixed), emk.transform(bags), atol=1e-5)


@pytest.mark.parametrize("norm", ["l1", "l2", "power"])
def test_norms(bags, norm):
    plain = EMK(n_words=8, pyramid=(1,), norm=None).fit(bags).transform(bags)
    found = EMK(n_words=8, pyramid=(1,), norm=norm).fit(bags).transform(bags)
    values = np.sign(plain) * np.sqrt(np.abs(plain)) if norm == "power" else plain
    lengths = np.abs(values).sum(1) if norm == "l1" else np.linalg.norm(values, axis=1)
    np.testing.assert_allclose(found, values / lengths[:, None], atol=1e-5)


def test_parts_and_threads_change_nothing(monkeypatch):
    bags = positioned(np.random.default_rng(2), 9)
    whole = EMK(n_words=5).fit(bags).transform(bags)
    monkeypatch.setattr("cbid.pooling.bag_of_words._CHUNK_VALUES", 2 * 21 * 5)
    np.testing.assert_allclose(EMK(n_words=5, n_jobs=2).fit(bags).transform(bags), whole, atol=1e-6)


def test_an_image_without_rows_is_zero(bags):
    emk = EMK(n_words=4, pyramid=(1,)).fit(bags)
    vectors = emk.transform([bags[0], np.empty((0, 5), np.float32)])
    assert vectors[0].any()
    assert not vectors[1].any()


def test_equal_rows():
    same = [np.ones((6, 3)), np.ones((2, 3))]
    vectors = EMK(n_words=3, pyramid=(1,)).fit(same).transform(same)
    assert np.isfinite(vectors).all()


def test_saved_and_loaded(bags, tmp_path):
    emk = EMK(n_words=8, pyramid=(1,)).fit(bags)
    emk.save(tmp_path / "emk.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "emk.safetensors").transform(bags), emk.transform(bags))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"n_words": 0}, "n_words"),
        ({"n_words": 41}, "n_words=41"),
        ({"gamma": 0}, "gamma"),
        ({"ridge": -1}, "ridge"),
        ({"norm": "max"}, "norm"),
        ({"pyramid": ()}, "pyramid"),
        ({"n_iter": 0}, "n_iter"),
    ],
)
def test_bad_settings(bags, change, word):
    with pytest.raises(ValueError, match=word):
        EMK(**{"n_words": 4, "pyramid": (1,), **change}).fit(bags)
