"""From images to classes: a descriptor in the classifier, pipelines, files and folders."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from cbid import NBNNClassifier, PatchCBID
from cbid.data import ImageError
from cbid.descriptors import DenseSIFT

pytest.importorskip("cv2")
Image = pytest.importorskip("PIL.Image")

DESCRIPTOR = DenseSIFT(step=4, sides=(16, 24))


def image(kind, seed):
    """Vertical or horizontal stripes."""
    rng = np.random.default_rng(seed)
    wave = 120 + 100 * np.sin(np.arange(48) / rng.uniform(1, 3)) + rng.normal(size=(48, 48))
    return np.uint8(wave if kind == "upright" else wave.T)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    for kind in ("lying", "upright"):
        (root / kind).mkdir()
        for i in range(3):
            Image.fromarray(image(kind, i)).save(root / kind / f"{i}.png")
    return root


LABELS = ["lying"] * 3 + ["upright"] * 3


@pytest.fixture(scope="module")
def model(folder):
    paths = sorted(folder.glob("*/*.png"))
    return NBNNClassifier(descriptor=DESCRIPTOR, coder=PatchCBID(n_bits=16)).fit(
        paths, LABELS, ids=[str(path) for path in paths]
    )


def test_arrays_and_bags(model):
    kinds = ["upright", "lying", "upright"]
    images = [image(kind, 10 + i) for i, kind in enumerate(kinds)]
    assert model.predict(images).tolist() == kinds
    assert model.predict(DESCRIPTOR.transform(images)).tolist() == kinds


def test_a_folder_a_file_and_a_list(model, folder):
    found = model.predict_paths(folder)
    assert [name for name, _ in found] == [f"{kind}/{i}.png" for kind in ("lying", "upright") for i in range(3)]
    assert [label for _, label in found] == LABELS
    one = folder / "upright" / "1.png"
    assert model.predict_paths(one) == [(str(one), "upright")]
    assert model.predict_paths([one, one]) == [(str(one), "upright")] * 2


def test_images_are_added_and_removed_by_path(model, folder, tmp_path):
    path = tmp_path / "new.png"
    Image.fromarray(image("upright", 9)).save(path)
    before = model.image_to_class_distances([path])
    model.add_images([path], ["upright"], ids=[str(path)])
    assert model.image_to_class_distances([path])[0, 1] == 0
    model.remove_image(str(path))
    np.testing.assert_array_equal(model.image_to_class_distances([path]), before)


def test_a_pipeline_with_the_descriptor_before_it(folder):
    paths = sorted(folder.glob("*/*.png"))
    pipeline = make_pipeline(DESCRIPTOR, NBNNClassifier()).fit(paths, LABELS)
    assert pipeline.predict(paths).tolist() == LABELS
    assert pipeline.score([image("lying", 20)], ["lying"]) == 1


def test_errors_name_the_image(model, folder, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"broken\.png"):
        model.predict_paths(broken)
    small = tmp_path / "small.png"
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(small)
    with pytest.raises(ValueError, match=r"small\.png has no descriptor"):
        model.predict_paths([folder / "upright" / "1.png", small])
    with pytest.raises(ValueError, match="descriptor=None"):
        NBNNClassifier().fit([np.ones((3, 2)), np.zeros((3, 2))], [0, 1]).predict_paths(folder)
