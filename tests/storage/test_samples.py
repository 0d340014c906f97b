"""Models written by cbid 0.1.0 load unchanged and give the same codes."""

from pathlib import Path

import numpy as np
import pytest

from cbid import NBNNClassifier, load
from cbid.storage.models import model_digest

SAMPLES = Path(__file__).parent / "samples_0_1_0"
CODERS = sorted(path.stem for path in (SAMPLES / "models").glob("*.safetensors") if path.stem != "nbnn")


@pytest.fixture(scope="module")
def expected():
    with np.load(SAMPLES / "expected.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", CODERS)
def test_coders_give_the_same_codes_and_weights(name, expected):
    coder = load(SAMPLES / "models" / f"{name}.safetensors")
    np.testing.assert_array_equal(coder.encode(expected["X"]), expected[f"codes_{name}"])
    if f"weights_{name}" in expected:
        np.testing.assert_array_equal(coder.weights_, expected[f"weights_{name}"])


@pytest.mark.parametrize("name", CODERS)
def test_saving_again_keeps_the_model(name, tmp_path):
    coder = load(SAMPLES / "models" / f"{name}.safetensors")
    coder.save(tmp_path / "model")
    assert model_digest(load(tmp_path / "model")) == model_digest(coder)


def test_nbnn_gives_the_same_answers(expected):
    model = NBNNClassifier.load(SAMPLES / "models" / "nbnn.safetensors")
    np.testing.assert_array_equal(model.predict(list(expected["bags"])), expected["nbnn"])


def test_there_are_samples():
    assert {"cbid_linear", "cbid_rbf", "cbid_class", "itq", "ksh"} <= set(CODERS)
