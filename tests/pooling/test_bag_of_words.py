"""Bags of words against counting by hand, and what holds for every pooling of bags."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from cbid.bags import Bags
from cbid.coders import ModelFileError
from cbid.pooling import LLC, BagOfWords, ScSPM, load
from cbid.pooling import base as pooling_base
from cbid.storage.models import read_model, write_model
from tests.pooling.made import made_bags

POOLINGS = [
    BagOfWords(n_words=8),
    BagOfWords(n_words=8, assignment="soft", n_nearest=3, pooling="max", norm="power", level_weights=None),
    LLC(n_words=8, n_nearest=3, pyramid=(1, (3, 1))),
    ScSPM(n_words=8, n_iter=3),
]
every_pooling = pytest.mark.parametrize("pooling", POOLINGS, ids=lambda p: type(p).__name__)


@pytest.fixture(scope="module")
def bags():
    return made_bags()


def test_counts_of_the_nearest_words(bags):
    model = BagOfWords(n_words=6, pyramid=(1, 2), level_weights=None, norm=None).fit(bags)
    vectors = model.transform(bags)
    assert vectors.shape == (4, 5 * 6)
    for i, bag in enumerate(bags):
        nearest = ((bag[:, None] - model.words_) ** 2).sum(axis=2).argmin(axis=1)
        np.testing.assert_array_equal(vectors[i, :6], np.bincount(nearest, minlength=6))
    np.testing.assert_array_equal(vectors[:, 6:].reshape(4, 4, 6).sum(axis=1), vectors[:, :6])


@pytest.mark.parametrize("norm", ["l1", "l2", "power"])
def test_norms(bags, norm):
    model = BagOfWords(n_words=6, pyramid=(1, 2), norm=norm).fit(bags)
    plain = clone(model).set_params(norm=None).fit(bags).transform(bags)
    expected = np.sqrt(plain) if norm == "power" else plain
    lengths = np.linalg.norm(expected, 1 if norm == "l1" else 2, axis=1, keepdims=True)
    expected = np.divide(expected, lengths, where=lengths > 0, out=np.zeros_like(expected))
    np.testing.assert_allclose(model.transform(bags), expected, rtol=1e-5)


def test_soft_shares_follow_the_distances(bags):
    model = BagOfWords(n_words=6, assignment="soft", n_nearest=4, width=0.7).fit(bags)
    rows = bags[0]
    squares = ((rows[:, None] - model.words_) ** 2).sum(axis=2)
    shares = np.exp(-squares / (2 * 0.7**2))
    shares[np.argsort(np.argsort(squares, axis=1), axis=1) >= 4] = 0
    np.testing.assert_allclose(
        model.code(rows).toarray(), shares / shares.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6
    )


def test_the_width_of_soft_shares_is_the_rows_distance_to_their_words(bags):
    model = BagOfWords(n_words=6, assignment="soft", pyramid=(1,)).fit(bags)
    squares = ((bags.values[:, None] - model.words_) ** 2).sum(axis=2).min(axis=1)
    assert model.width_ == pytest.approx(np.sqrt(squares.mean()), rel=1e-4)


def test_rows_far_from_every_word_still_count_once(bags):
    """exp(-distance^2) of all words would be zero; the shares are taken relative to the nearest."""
    model = BagOfWords(n_words=6, assignment="soft", width=0.01, pyramid=(1,), norm=None).fit(bags)
    assert model.transform([1e4 * np.ones((3, 6))]).sum() == pytest.approx(3)


@every_pooling
def test_parts_threads_and_order_do_not_matter(pooling, bags, monkeypatch):
    model = clone(pooling).fit(bags)
    vectors = model.transform(bags)
    assert vectors.dtype == np.float32
    assert not vectors[1].any()  # the image without rows
    monkeypatch.setattr(pooling_base, "_CHUNK_ROWS", 10)
    np.testing.assert_allclose(model.set_params(n_jobs=2).transform(bags), vectors, rtol=1e-4, atol=1e-6)
    order = [3, 1, 0, 2]
    np.testing.assert_allclose(model.transform(bags.take(order)), vectors[order], rtol=1e-4, atol=1e-6)
    # Nor does the order of an image's rows.
    mixed = np.concatenate(
        [start + np.random.default_rng(0).permutation(m) for start, m in zip(bags.offsets, bags.sizes)]
    )
    again = bags.take_rows(mixed, bags.offsets, bags.shapes)
    np.testing.assert_allclose(model.transform(again), vectors, rtol=1e-4, atol=1e-6)


@every_pooling
def test_the_seed_decides(pooling, bags):
    one, same, other = (clone(pooling).set_params(random_state=s).fit(bags).words_ for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(clone(pooling).set_params(random_state=1, n_jobs=2).fit(bags).words_, one)


@every_pooling
def test_model_files(pooling, bags, tmp_path):
    model = clone(pooling).fit(bags)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.transform(bags), model.transform(bags))


@every_pooling
def test_a_forged_model_file_is_rejected(pooling, bags, tmp_path):
    clone(pooling).fit(bags).save(tmp_path / "m")
    kind, state, arrays = read_model(tmp_path / "m")
    for change in (
        {"words_": arrays["words_"][:5]},
        {"words_": arrays["words_"].astype(float)},
        {"code": np.zeros(2)},
    ):
        write_model(tmp_path / "m", kind, state, {**arrays, **change})
        with pytest.raises(ModelFileError, match=f"complete {kind}"):
            load(tmp_path / "m")
    write_model(tmp_path / "m", "CBID", state, arrays)
    with pytest.raises(ModelFileError, match="of kind 'CBID'"):
        load(tmp_path / "m")


@every_pooling
def test_bad_bags_are_rejected(pooling, bags, monkeypatch):
    with pytest.raises(NotFittedError):
        clone(pooling).transform(bags)
    model = clone(pooling).fit(bags)
    with pytest.raises(ValueError, match="X has 5 features"):
        model.transform(Bags(bags.values[:, :5], bags.offsets, bags.frames, bags.shapes))
    with pytest.raises(ValueError, match="frames and shapes"):
        model.transform(list(bags))
    broken = bags.values.copy()
    broken[33, 2] = np.nan  # row 3 of image 2
    with pytest.raises(ValueError, match="NaN"):
        model.fit(Bags(broken, bags.offsets, bags.frames, bags.shapes))
    monkeypatch.setattr(pooling_base, "_CHUNK_ROWS", 10)
    with pytest.raises(ValueError, match=r"image 2\b.*\brow 3\b"):
        model.transform(Bags(broken, bags.offsets, bags.frames, bags.shapes))
    with pytest.raises(ValueError, match=r"\(95, 6\)"):
        model.fit(bags.values)
    with pytest.raises(ValueError, match="no rows"):
        model.fit([np.zeros((0, 6))] * 2)
    with pytest.raises(ValueError, match="n_words=8"):
        model.fit([bags.values[:7]])
    assert not model.transform(Bags.from_list([np.zeros((0, 6))], [np.zeros((0, 3))], [(5, 5)])).any()


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (BagOfWords(n_words=0), "n_words"),
        (BagOfWords(n_rows=0), "n_rows"),
        (BagOfWords(pyramid=()), "pyramid"),
        (BagOfWords(level_weights="none"), "level_weights"),
        (BagOfWords(assignment="fuzzy"), "assignment"),
        (BagOfWords(n_nearest=0), "n_nearest"),
        (BagOfWords(width=0.0), "width"),
        (BagOfWords(pooling="mean"), "pooling"),
        (BagOfWords(norm="l3"), "norm"),
        (BagOfWords(n_iter=0), "n_iter"),
        (BagOfWords(n_jobs="all"), "n_jobs"),
        (LLC(ridge=0.0), "ridge"),
        (LLC(n_nearest=2.5), "n_nearest"),
        (ScSPM(alpha=0.0), "alpha"),
        (ScSPM(tol=1.0), "tol"),
        (ScSPM(unit_rows="yes"), "unit_rows"),
        (ScSPM(n_iter=0), "n_iter"),
    ],
    ids=str,
)
def test_settings_are_rejected_by_name(model, name, bags):
    with pytest.raises(ValueError, match=name):
        model.fit(bags)


def test_in_a_pipeline_with_names(bags):
    images = [np.random.default_rng(i).normal(loc=3 * (i % 2), size=(20, 3)) for i in range(20)]
    labels = np.arange(20) % 2
    pipeline = make_pipeline(BagOfWords(n_words=4, pyramid=(1,)), LinearSVC()).fit(images, labels)
    assert pipeline.score(images, labels) == 1
    assert pipeline[0].get_feature_names_out().tolist() == [f"bagofwords{i}" for i in range(4)]
    assert len(BagOfWords(n_words=4).fit(bags).get_feature_names_out()) == 84
