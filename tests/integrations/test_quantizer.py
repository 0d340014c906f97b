"""The quantiser: layouts, learning from labels or pairs, scores, and the second look."""

import subprocess
import sys

import numpy as np
import pytest

from cbid import CBID
from cbid.coders import ITQ
from cbid.integrations import EmbeddingQuantizer

N, D = 240, 24


def clusters(seed=0):
    """Six groups around random centres, of different lengths: only directions tell them apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 6
    X = rng.normal(size=(6, D))[y] + 0.6 * rng.normal(size=(N, D))
    return X * rng.uniform(0.1, 10, (N, 1)), y


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def fitted():
    return EmbeddingQuantizer(CBID(n_bits=20)).fit(*clusters())


def test_precisions_are_those_of_sentence_transformers(fitted):
    X, _ = clusters()
    codes = fitted.quantize(X)
    assert (codes.dtype, codes.shape) == (np.uint8, (N, 3))
    np.testing.assert_array_equal(codes, fitted.coder.encode(unit(X)))
    signed = fitted.quantize(X, precision="binary")
    assert signed.dtype == np.int8
    np.testing.assert_array_equal(signed.astype(int), codes.astype(int) - 128)
    np.testing.assert_array_equal(fitted.quantize(100 * X), codes)  # the length does not matter


def test_search_by_codes(fitted):
    """The score is one minus the share of the weight that differs, and the same for both precisions."""
    X, y = clusters()
    codes = fitted.quantize(X)
    hits = fitted.semantic_search(X[:30], codes, top_k=5)
    assert [len(row) for row in hits] == [5] * 30
    scores = np.array([[hit["score"] for hit in row] for row in hits])
    assert np.all(np.diff(scores, axis=1) <= 0)
    assert scores.max() <= 1
    assert scores.min() >= 0
    labels = y[[[hit["corpus_id"] for hit in row] for row in hits]]
    assert np.mean(labels == y[:30, None]) > 0.9
    assert fitted.semantic_search(X[:30], fitted.quantize(X, "binary"), top_k=5) == hits
    assert fitted.semantic_search(X[:30], fitted.index(codes), top_k=5) == hits
    (alone,) = fitted.semantic_search(X[0], codes, top_k=5)  # a product of one row may round differently
    np.testing.assert_allclose([hit["score"] for hit in alone], scores[0], rtol=1e-5)


def test_a_second_look_ranks_by_cosine(fitted):
    """With all of the corpus as candidates the result is exact."""
    X, _ = clusters()
    hits = fitted.semantic_search(X[:10], fitted.quantize(X), top_k=4, corpus_embeddings=X, rescore_multiplier=N)
    cosines = unit(X[:10]) @ unit(X).T
    np.testing.assert_array_equal([[h["corpus_id"] for h in row] for row in hits], np.argsort(-cosines)[:, :4])
    np.testing.assert_allclose([[h["score"] for h in row] for row in hits], -np.sort(-cosines)[:, :4])
    assert fitted.semantic_search(X[:1], fitted.quantize(X[:3]), top_k=9, corpus_embeddings=X[:3])[0][0] == {
        "corpus_id": 0,
        "score": pytest.approx(1),
    }


def test_pairs_pull_their_members_together():
    """Pairs of one group: with codes learned from them, neighbours are of the group more often than at random."""
    X, y = clusters()
    rng = np.random.default_rng(1)
    left = rng.integers(0, N, 600)
    right = np.array([rng.choice(np.flatnonzero(y == y[i])) for i in left])
    pairs = np.stack([left, right], axis=1)[left != right]
    quantizer = EmbeddingQuantizer(CBID(n_bits=16)).fit(X, pairs=pairs)
    hits = quantizer.semantic_search(X[:30], quantizer.quantize(X), top_k=5)
    assert np.mean(y[[[hit["corpus_id"] for hit in row] for row in hits]] == y[:30, None]) > 0.9


def test_pairs_with_grades():
    X, y = clusters()
    pairs = np.random.default_rng(1).integers(0, N, (3000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    quantizer = EmbeddingQuantizer(CBID(n_bits=16)).fit(X, pairs=pairs, similarity=np.where(same, 0.9, 0.1))
    hits = quantizer.semantic_search(X[:30], quantizer.quantize(X), top_k=5)
    assert np.mean(y[[[hit["corpus_id"] for hit in row] for row in hits]] == y[:30, None]) > 0.9


def test_other_coders_and_no_labels():
    X, _ = clusters()
    quantizer = EmbeddingQuantizer(ITQ(n_bits=12)).fit(X)
    assert quantizer.quantize(X).shape == (N, 2)
    again = EmbeddingQuantizer(quantizer.coder)  # a fitted coder serves as it is
    np.testing.assert_array_equal(again.quantize(X), quantizer.quantize(X))
    assert EmbeddingQuantizer().coder.n_bits == 256


def test_bad_input(fitted):
    X, y = clusters()
    codes = fitted.quantize(X)
    cases = [
        ("precision='int8'", lambda: fitted.quantize(X, precision="int8")),
        (r"embeddings has dtype .* and shape \(24,\)", lambda: fitted.quantize(X[0])),
        ("corpus has 16 bits: expected 20", lambda: fitted.semantic_search(X, other_index())),
        ("top_k=0", lambda: fitted.semantic_search(X, codes, top_k=0)),
        (
            r"corpus_embeddings has shape \(9, 24\): expected \(240, 24\)",
            lambda: fitted.semantic_search(X, codes, corpus_embeddings=X[:9]),
        ),
        ("labels and pairs", lambda: EmbeddingQuantizer().fit(X, y, pairs=[[0, 1]])),
        ("similarity: expected pairs", lambda: EmbeddingQuantizer().fit(X, similarity=[1])),
        ("learns from no pairs", lambda: EmbeddingQuantizer(ITQ(n_bits=4)).fit(X, pairs=[[0, 1]])),
        (r"pairs has shape \(1, 3\)", lambda: EmbeddingQuantizer().fit(X, pairs=[[0, 1, 2]])),
        (r"pairs holds 0..240: expected rows 0..239", lambda: EmbeddingQuantizer().fit(X, pairs=[[0, 240]])),
        ("joins all 2 embeddings", lambda: EmbeddingQuantizer().fit(X[:2], pairs=[[0, 1]])),
        ("n_negatives=0", lambda: EmbeddingQuantizer(n_negatives=0)),
    ]
    for message, act in cases:
        with pytest.raises(ValueError, match=message):
            act()
    by_class = EmbeddingQuantizer(CBID(n_bits=6, margin="class")).fit(X, y)
    with pytest.raises(ValueError, match="weights for each class"):
        by_class.index(by_class.quantize(X))


def other_index():
    X, _ = clusters()
    quantizer = EmbeddingQuantizer(ITQ(n_bits=16)).fit(X)
    return quantizer.index(quantizer.quantize(X))


def test_the_package_is_light():
    """Neither LangChain nor the learner is imported before it is used."""
    code = (
        "import sys, cbid.integrations as i; "
        "assert 'CodeVectorStore' in dir(i); "
        "assert not {'langchain_core', 'sklearn', 'cbid.coders'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    import cbid.integrations

    with pytest.raises(AttributeError, match="has no attribute 'Other'"):
        cbid.integrations.Other  # noqa: B018
