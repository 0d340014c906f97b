"""What is measured, against cases whose answer is plain."""

import numpy as np
import pytest

from cbid.codes import pack
from cbid.evaluation import mean_average_precision
from cbid.project import evaluating
from cbid.project.evaluating import evaluate


def plain(n_bits):
    def weights(length, how):
        w = np.zeros(n_bits)
        w[:length] = 1.0 if how == "plain" else np.arange(length, 0, -1)
        return w

    return weights


def case(n, seed, noise):
    """Two classes: bit 0 is the class, the others are random; vectors are the bits with noise."""
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b"])[np.arange(n) % 2]
    bits = rng.random((n, 16)) < 0.5
    bits[:, 0] = labels == "b"
    vectors = (bits + noise * rng.normal(size=bits.shape)).astype(np.float32)
    return vectors, pack(bits), labels


def test_by_hand():
    """Bit 0 alone tells the class, the others tell nothing.

    With one bit every image of the own class is nearer than any other: everything is right.
    """
    result = evaluate(case(30, 0, 0.1), case(80, 1, 0.1), n_bits=16, lengths=[1, 16], weights=plain(16))
    first, last = result["codes"]
    assert (first["n_bits"], first["bytes"], last["bytes"]) == (1, 1, 2)
    assert first["plain"]["accuracy"] == first["weighted"]["accuracy"] == 1
    assert first["plain"]["map"] == first["weighted"]["map"] == 1
    assert result["raw"]["bytes"] == 64
    assert 0.5 < last["plain"]["accuracy"] < 1
    assert last["plain"]["overlap"] > first["plain"]["overlap"]  # noise is small: whole codes are the vectors
    assert result["confusion"]["classes"] == ["a", "b"]
    assert np.sum(result["confusion"]["matrix"]) == 30
    assert all(entry[how]["milliseconds"] > 0 for entry in result["codes"] for how in ("weighted", "plain"))


def test_mean_average_precision_is_that_of_the_weights():
    queries, stored = case(20, 2, 0.1), case(50, 3, 0.1)
    result = evaluate(queries, stored, n_bits=16, lengths=[5], weights=plain(16))
    bits = [2.0 * np.unpackbits(c, axis=1)[:, :5] - 1 for c in (queries[1], stored[1])]
    expected = mean_average_precision(bits[0], queries[2], bits[1], stored[2], weights=[5, 4, 3, 2, 1])
    assert result["codes"][0]["weighted"]["map"] == pytest.approx(expected)


def test_samples_of_many(monkeypatch):
    monkeypatch.setattr(evaluating, "_MAX_QUERIES", 20)
    monkeypatch.setattr(evaluating, "_MAX_RANKED", 30)
    monkeypatch.setattr(evaluating, "_MAX_RANKINGS", 10)
    result = evaluate(case(60, 0, 0.1), case(90, 1, 0.1), n_bits=16, lengths=[1], weights=plain(16))
    assert (result["n_queries"], result["n_stored"]) == (20, 90)
    assert result["codes"][0]["plain"]["map"] == 1
    again = evaluate(case(60, 0, 0.1), case(90, 1, 0.1), n_bits=16, lengths=[1], weights=plain(16))
    assert again["raw"]["map"] == result["raw"]["map"]


def test_classes_that_are_not_stored_and_images_without_a_label():
    """They count as errors, or not at all; nothing is divided by zero."""
    vectors, codes, labels = case(10, 0, 0.1)
    result = evaluate(
        (vectors, codes, np.array(["new"] * 9 + [""])), case(40, 1, 0.1), n_bits=16, lengths=[1], weights=plain(16)
    )
    assert result["raw"]["accuracy"] == result["codes"][0]["plain"]["accuracy"] == 0
    assert result["raw"]["map"] is None
    stored = case(40, 1, 0.1)
    unlabelled = (*stored[:2], np.full(40, ""))
    result = evaluate((vectors, codes, labels), unlabelled, n_bits=16, lengths=[1], weights=plain(16))
    assert result["codes"][0]["plain"]["accuracy"] == 0
    assert result["codes"][0]["plain"]["overlap"] > 0


def test_nothing_to_measure_on():
    vectors, codes, labels = case(40, 1, 0.1)
    result = evaluate(
        (vectors[:0], codes[:0], labels[:0]), (vectors, codes, labels), n_bits=16, lengths=[4], weights=plain(16)
    )
    assert result["n_queries"] == 0
    assert result["codes"][0]["weighted"] == {"accuracy": None, "map": None, "overlap": None, "milliseconds": None}
    assert result["confusion"] is None
