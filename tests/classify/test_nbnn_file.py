"""Files of NBNN classifiers: the same answers after a round trip, and refusal of what is no such file."""

import json

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from cbid import CBID, NBNNClassifier
from cbid.classify.nbnn_file import NBNN
from cbid.coders import ModelFileError
from cbid.descriptors import DenseSIFT
from tests.classify.bags import make_bags
from tests.classify.test_nbnn import CODER, TEST, TRAIN, WAYS, Y, with_frames


@pytest.mark.parametrize("way", WAYS)
def test_a_loaded_classifier_answers_the_same(way, tmp_path):
    train, test = with_frames(TRAIN), with_frames(TEST, 1)
    model = NBNNClassifier(**WAYS[way].get_params(deep=False)).fit(train, Y, ids=[f"é {i}" for i in range(12)])
    model.save(tmp_path / "model")
    loaded = NBNNClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(test), model.decision_function(test))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.ids_ == model.ids_
    assert loaded.storage_per_image_ == model.storage_per_image_
    # and continues as the first one does
    for each in (model, loaded):
        each.remove_image("é 7").add_images(test.take([3]), ["cat"], ids=[5])
    np.testing.assert_array_equal(loaded.decision_function(test), model.decision_function(test))


def test_the_decision_comes_back_without_a_search(tmp_path, monkeypatch):
    model = NBNNClassifier(coder=CODER).fit(TRAIN, Y)
    model.save(tmp_path / "model")
    monkeypatch.setattr("cbid.classify.class_distances.distances_without_own", None)
    loaded = NBNNClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(TEST), model.decision_function(TEST))


def test_a_file_without_a_decision_decides_by_the_nearest_class(tmp_path):
    """Version 0.1.0 knew no other."""
    NBNNClassifier(coder=CODER, decision="nearest").fit(TRAIN, Y).save(tmp_path / "model")
    content, arrays = NBNN.read(tmp_path / "model")
    del content["params"]["decision"]
    NBNN.write(tmp_path / "model", content, arrays)
    assert NBNNClassifier.load(tmp_path / "model").decision == "nearest"


def test_coders_come_back_as_they_were_given(tmp_path):
    fitted, other = NBNNClassifier(coder=CODER), NBNNClassifier(coder=CBID(n_bits=8))
    for model in (fitted, other, NBNNClassifier(coder=FrozenEstimator(CODER))):
        model.fit(TRAIN, Y).save(tmp_path / "model")
        loaded = NBNNClassifier.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.coder_.weights_, model.coder_.weights_)
        if model is other:  # still to be fitted by the next fit
            assert not hasattr(loaded.coder, "weights_")
            assert loaded.coder.n_bits == 8
        else:
            np.testing.assert_array_equal(loaded.coder.weights_, CODER.weights_)


def test_descriptors_come_back_with_their_settings(tmp_path):
    descriptor = DenseSIFT(step=4, sides=(16, 24), root=True)
    model = NBNNClassifier(descriptor=descriptor).fit(*_images())
    model.save(tmp_path / "model")
    loaded = NBNNClassifier.load(tmp_path / "model")
    assert loaded.descriptor.fingerprint() == descriptor.fingerprint()
    np.testing.assert_array_equal(loaded.predict(_images()[0]), model.predict(_images()[0]))


def _images():
    """Stripes one way and the other."""
    rng = np.random.default_rng(0)
    waves = np.sin(np.arange(48) / rng.uniform(1, 3, (6, 1)))
    upright = [np.uint8(120 + 100 * np.tile(wave, (48, 1))) for wave in waves]
    return upright[:3] + [image.T.copy() for image in upright[3:]], ["up"] * 3 + ["flat"] * 3


def test_a_foreign_coder_cannot_be_saved(tmp_path):
    class Foreign:
        def __init__(self):
            self.inner = CODER

        def fit(self, X, y=None):
            return self

        def encode(self, X):
            return self.inner.encode(X)

        def __sklearn_is_fitted__(self):
            return True

        def __sklearn_tags__(self):
            return self.inner.__sklearn_tags__()

        n_bits_ = 24

    model = NBNNClassifier(coder=Foreign()).fit(TRAIN, Y)
    with pytest.raises(ValueError, match="coder is a"):
        model.save(tmp_path / "model")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    NBNNClassifier(coder=CODER).fit(TRAIN, Y).save(path)
    return path


def altered(path, change):
    """The file with its content or arrays changed and the checksum made to fit."""
    content, arrays = NBNN.read(path)
    content, arrays = json.loads(json.dumps(content)), {name: array.copy() for name, array in arrays.items()}
    change(content, arrays)
    NBNN.write(path, content, arrays)
    return path


CHANGES = {
    "no rows": lambda c, a: a.pop("rows"),
    "rows missing": lambda c, a: a.update(rows=a["rows"][:-1]),
    "rows of another width": lambda c, a: a.update(rows=a["rows"][:, :-1]),
    "rows of another type": lambda c, a: a.update(rows=a["rows"].astype(np.float32)),
    "negative sizes": lambda c, a: a["sizes"].__setitem__(slice(2), [-1, a["sizes"][:2].sum() + 1]),
    "a class too few": lambda c, a: c["classes"]["values"].pop(),
    "an id too few": lambda c, a: c["ids"].pop(),
    "an id twice": lambda c, a: c["ids"].__setitem__(0, c["ids"][1]),
    "an unknown parameter": lambda c, a: c["params"].update(evil=1),
    "a wrong parameter": lambda c, a: c["params"].update(search="evil"),
    "no coder": lambda c, a: c.update(coder=None),
    "an unknown coder": lambda c, a: c["coder"].update(kind="ModelFileError"),
    "a coder's array missing": lambda c, a: a.pop("coder.coef_"),
    "a factor too few": lambda c, a: a.update(factor=a["factor"][:-1]),
    "factors without shifts": lambda c, a: a.pop("shift"),
    "an unknown descriptor": lambda c, a: c.update(descriptor={"kind": "Descriptor", "params": {}}),
    "other features": lambda c, a: c.update(n_features=9),
    "no content": lambda c, a: c.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_inconsistent_files_are_rejected(saved, change):
    with pytest.raises(ModelFileError):
        NBNNClassifier.load(altered(saved, CHANGES[change]))


def test_damaged_files_are_rejected(saved):
    whole = saved.read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        saved.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            NBNNClassifier.load(saved)


def test_the_file_of_a_coder_is_rejected(tmp_path):
    CODER.save(tmp_path / "coder")
    with pytest.raises(ModelFileError, match="NBNN classifier"):
        NBNNClassifier.load(tmp_path / "coder")


def test_nan_in_a_file_is_rejected(tmp_path):
    bags, y = make_bags(3)
    NBNNClassifier().fit(bags, y).save(tmp_path / "model")
    path = altered(tmp_path / "model", lambda c, a: a["rows"].__setitem__((0, 0), np.nan))
    with pytest.raises(ModelFileError, match="rows"):
        NBNNClassifier.load(path)
