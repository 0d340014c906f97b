"""Protocols for classes that were not learned, on small cases whose answer is known."""

import numpy as np
import pytest

from cbid import coders
from cbid.coders import LSH
from cbid.paper import Results, Row
from cbid.paper.base import Context
from cbid.paper.unseen import (
    EXPERIMENT,
    FIGURES,
    METHODS,
    RAW,
    TRANSFER,
    UNSEEN,
    code_distances,
    figure_table,
    nearest_class,
    retrieval_figures,
    unseen_figures,
    unseen_split,
)


@pytest.mark.parametrize("validation", [False, True])
def test_the_split_keeps_classes_apart(validation):
    y = np.repeat(np.arange(9), 40)
    split = unseen_split(y, 3, 10, seed=1, validation=validation)
    seen, unseen = set(y[split.train]), set(y[split.queries]) | set(y[split.database])
    assert not seen & unseen
    assert set(y[split.test]) == seen
    assert (len(seen), len(unseen)) == ((4, 2) if validation else (6, 3))
    assert np.bincount(y[split.train])[list(seen)].tolist() == [10] * len(seen)
    rows = np.concatenate(split)
    assert len(np.unique(rows)) == len(rows)


def test_validation_does_not_touch_the_unseen_classes():
    y = np.repeat(np.arange(9), 40)
    unseen = set(y[unseen_split(y, 3, 10, seed=1).queries])
    assert not unseen & set(y[np.concatenate(unseen_split(y, 3, 10, seed=1, validation=True))])


def test_seeds_draw_other_classes():
    y = np.repeat(np.arange(20), 10)
    assert len({tuple(sorted(set(y[unseen_split(y, 5, 5, seed).queries]))) for seed in range(5)}) > 1


def test_perfect_and_useless_codes():
    """Classes are orthogonal directions. The vectors themselves are perfect; one distance for all is chance."""
    y = np.repeat(np.arange(4), 40)
    X = np.eye(4)[y] + 0.01 * np.random.default_rng(0).normal(size=(160, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    split = unseen_split(y, 2, 20, seed=0)
    perfect = unseen_figures(X, y, split, lambda a, b: 1 - X[a] @ X[b].T)
    assert set(perfect) == set(FIGURES)
    assert all(value == pytest.approx(1) for value in perfect.values())
    chance = unseen_figures(X, y, split, lambda a, b: np.zeros((len(a), len(b))))
    assert chance["unseen_p10"] == pytest.approx(0.5, abs=0.1)
    assert chance["neighbours"] == pytest.approx(10 / len(split.database))
    assert retrieval_figures(X, y, split.queries, split.database, lambda a, b: 1 - X[a] @ X[b].T) == {
        name: perfect[name] for name in ("unseen_map", "unseen_p10", "neighbours")
    }


def test_weighted_distances_of_bits():
    """Weights 3 and 1: two codes that differ in the first bit lie at 3/4."""
    bits = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    np.testing.assert_allclose(code_distances(bits[:1], bits, np.array([3.0, 1.0])), [[0, 0.75, 0.25, 1]])


def test_votes_of_the_nearest():
    assert nearest_class(np.array([[0, 1, 2, 3.0]]), np.array([1, 0, 0, 1]), k=3).tolist() == [0]


def test_every_coder_takes_part():
    made = {type(method.make()).__name__ for method in METHODS.values()}
    every = set(coders.__all__) - {"Coder", "ModelFileError", "PatchCBID", "load"}
    assert made == every


def test_the_experiment_runs_on_digits(tmp_path):
    cells = EXPERIMENT.cells(["digits"], True)
    found = list(EXPERIMENT.run(cells, Context(None, tmp_path)))
    assert [settings for settings, _ in found] == cells
    head, rows = figure_table(Results([Row(settings, result, 0.0) for settings, result in found]))
    assert head[2:5] == ["unseen: mAP", "precision at 10", "neighbour recall"]
    assert [row[0] for row in rows] == [RAW, "C-BID", "C-BID, classes only", "ITQ"]
    assert rows[0][4] == "1.000"


def test_transfer_learns_one_set_and_searches_another(tmp_path, monkeypatch):
    """Two made-up sets: the code learned on one, with all its classes, ranks the other."""
    from cbid.paper import unseen

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 8))
    y = np.repeat(np.arange(12), 20)
    X = centres[y] + 0.2 * rng.normal(size=(240, 8))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    halves = {"scene15": (X[:120], y[:120]), "caltech101": (X[120:], y[120:] - 6)}
    learned = []
    fit = unseen.Method.fit
    monkeypatch.setattr(unseen, "_vectors", lambda data, features, context: halves[data])
    monkeypatch.setattr(Context, "open", lambda self, name: name)
    monkeypatch.setattr(
        unseen.Method, "fit", lambda self, X, y, *rest: learned.append(len(np.unique(y))) or fit(self, X, y, *rest)
    )
    monkeypatch.setitem(METHODS, "LSH", unseen.Method("", LSH))
    cells = [c for c in EXPERIMENT.cells(["scene15", "caltech101"], False) if c["protocol"] == TRANSFER]
    wanted = [c for c in cells if c["method"] in (RAW, "LSH") and c["repeat"] == 0 and c["set"] == "scene15"]
    ((_, raw), (_, coded)) = EXPERIMENT.run(wanted, Context(None, tmp_path))
    assert learned == [6]
    assert raw["neighbours"] == pytest.approx(1)
    assert raw["unseen_p10"] >= coded["unseen_p10"] > 1 / 6
    assert "seen_map" not in coded


def test_codes_that_do_not_exist_at_a_length_are_absent(tmp_path):
    cells = [c for c in EXPERIMENT.cells(["digits"], False) if c["method"] == "signs" and c["repeat"] == 0]
    ((_, result),) = EXPERIMENT.run([{**cells[0], "bits": 100}], Context(None, tmp_path))
    assert "n_bits=100" in result["absent"]
    assert cells[0]["protocol"] == UNSEEN
