"""What is kept with a collection, and what is refused."""

import json

import numpy as np
import pytest

from cbid.search.stores.milvus_collection import CollectionSettings


def settings(n_bits=12, weights=None, classes=None, labels=None, cells=None, probes=None, made_by=""):
    return CollectionSettings.checked(n_bits, weights, classes, labels, cells, probes, made_by)


def test_there_and_back():
    weights = np.random.default_rng(0).random((12, 3))
    made = settings(weights=weights, classes=["b", "a", "é"], cells=64, made_by="me")
    again = CollectionSettings.from_json(made.to_json())
    np.testing.assert_array_equal(again.weights, weights)  # to the last digit
    assert again.classes.tolist() == ["b", "a", "é"]
    assert (again.n_bits, again.n_dims, again.labels, again.cells, again.probes) == (12, 16, "str", 64, 2)
    assert again.made_by == "me"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_bits": 0}, "n_bits"),
        ({"labels": "float"}, "labels='float'"),
        ({"weights": np.ones(11)}, r"weights has shape \(11,\)"),
        ({"weights": -np.ones(12)}, "negative"),
        ({"weights": np.ones((12, 2)), "classes": ["a", "a"]}, "classes has 1 distinct names"),
        ({"weights": np.ones((12, 2)), "classes": ["a", "b"], "labels": "int"}, "labels='int'"),
        ({"classes": [1, 2]}, "classes is given"),
        ({"cells": 1}, "cells=1"),
        ({"probes": 4}, "probes=4"),
        ({"cells": 4, "probes": 5}, "probes=5"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        settings(**given)


@pytest.mark.parametrize("text", ["", "a description", "[]", "{}", "3", json.dumps({"cbid": 1, "n_bits": 8})])
def test_the_description_of_another(text):
    with pytest.raises(ValueError, match="not written by cbid"):
        CollectionSettings.from_json(text)


def test_another_format():
    with pytest.raises(ValueError, match="format 99"):
        CollectionSettings.from_json(json.dumps({"cbid": 99}))


def test_weights_that_a_description_cannot_hold():
    with pytest.raises(ValueError, match="weights and classes"):
        settings(n_bits=4096, weights=np.random.default_rng(0).random((4096, 20))).to_json()


def test_labels():
    assert settings().as_labels(None, 2).tolist() == [0, 0]
    assert settings(labels="bool").as_labels([True, False], 2).tolist() == [1, 0]
    assert settings(labels="bool").decoded([1, 0]).tolist() == [True, False]
    with pytest.raises(ValueError, match="labels is given"):
        settings().as_labels([1], 1)
    with pytest.raises(ValueError, match="labels=None"):
        settings(labels="int").as_labels(None, 1)
    with pytest.raises(ValueError, match="labels has 1 entries"):
        settings(labels="int").as_labels([1], 2)
    with pytest.raises(TypeError, match="labels has values of kind int"):
        settings(labels="str").as_labels([1], 1)
    with pytest.raises(ValueError, match="labels holds one of 1200 bytes"):
        settings(labels="str").as_labels(["é" * 600], 1)
    with pytest.raises(ValueError, match="labels holds one of several lines"):
        settings(labels="str").as_labels(["a\nb"], 1)
    with pytest.raises(ValueError, match="labels holds 5"):
        settings(weights=np.ones((12, 2)), classes=[1, 2]).as_labels([1, 5], 2)


def test_what_differs():
    made = settings(cells=64, probes=4)
    assert settings(cells=64, probes=4).difference(made) == ""
    assert settings().difference(made) == ""  # not asked for
    assert settings(cells=32, probes=4).difference(made) == "4 of 64 cells probed, not 4 of 32"
    assert settings(cells=64).difference(made) == "4 of 64 cells probed, not 2 of 64"
    assert settings(cells=64).difference(settings()) == "no cells, not 2 of 64"
    assert settings(n_bits=11).difference(made) == "codes of 12 bits, not 11"
