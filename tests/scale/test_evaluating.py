"""Retrieval in parts is that of ``cbid.evaluation``."""

import numpy as np
import pytest

from cbid.codes import pack, weighted_hamming
from cbid.evaluation import average_precision, mean_average_precision, precision_at
from cbid.scale import evaluate_to


@pytest.fixture(scope="module")
def coded():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 230)
    bits = np.where(rng.random((230, 20)) < 0.2 + 0.3 * labels[:, None], 1, -1)
    return bits[:30], labels[:30], bits[30:], labels[30:]


def test_plain(coded, tmp_path):
    queries, wanted, database, labels = coded
    found = evaluate_to(
        pack(queries), pack(database), tmp_path / "e", query_labels=wanted, labels=labels, n_bits=20, part_rows=7, k=5
    )
    assert found.mean_average_precision == pytest.approx(mean_average_precision(queries, wanted, database, labels))
    distances, relevant = (20 - queries @ database.T) // 2, wanted[:, None] == labels
    np.testing.assert_allclose(found.precision, precision_at(distances, relevant, 5))
    assert found.mean_precision == pytest.approx(found.precision.mean())


def test_weighted_with_names_of_classes(coded, tmp_path, monkeypatch):
    monkeypatch.setattr("cbid.scale.evaluating._PAIRS", 1000)  # five queries at a time
    queries, wanted, database, labels = coded
    names, weights = np.array(["x", "yy", "z"]), np.arange(1.0, 21)
    found = evaluate_to(
        pack(queries),
        pack(database),
        tmp_path / "e",
        query_labels=names[wanted],
        labels=names[labels],
        n_bits=20,
        weights=weights,
        k=5,
    )
    distances = weighted_hamming(pack(queries), pack(database), weights)
    np.testing.assert_allclose(found.average_precision, average_precision(distances, wanted[:, None] == labels))


def test_bad_arguments(coded, tmp_path):
    queries, wanted, database, labels = coded
    for changes, message in (
        ({"n_bits": 30}, "queries is 3 bytes wide; codes of 30 bits take 4"),
        ({"labels": labels[1:]}, r"labels has shape \(199,\); there are 200 codes"),
        ({"k": 201}, "k=201 is not accepted; give an integer from 1 to 200"),
        ({"weights": [1.0]}, r"weights has shape \(1,\)"),
    ):
        settings = {"query_labels": wanted, "labels": labels, "n_bits": 20, "k": 5, **changes}
        with pytest.raises(ValueError, match=message):
            evaluate_to(pack(queries), pack(database), tmp_path / "e", **settings)
