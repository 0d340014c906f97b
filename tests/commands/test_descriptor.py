"""Which descriptor a fit uses, what it says about it, and its hint if the codes are weak."""

import numpy as np
import pytest
from PIL import Image

from cbid.cli import run
from cbid.descriptors import HOG, EfficientNet
from cbid.project import Project
from cbid.project.models import default_descriptor, make_descriptor
from tests.project.made import write_images


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_images(tmp_path / "photos", n=5)


def test_without_the_extra_it_is_hog(photos, monkeypatch, capsys):
    monkeypatch.setattr(EfficientNet, "is_installed", staticmethod(lambda: False))
    assert default_descriptor() == "hog"
    assert run(["fit", "photos", "-b", "8"]) == 0
    out = capsys.readouterr().out
    assert "descriptor: hog, because the extra 'deep' is not installed; efficientnet is usually" in out
    assert "-m pip install" in out
    assert "'cbid[" not in out
    with Project.open("photos.cbid") as project:
        assert isinstance(project.descriptor, HOG)


@pytest.mark.skipif(not EfficientNet.is_installed(), reason="needs the extra 'deep'")
def test_with_the_extra_it_is_a_network(photos, capsys):
    assert run(["fit", "photos", "-b", "8"]) == 0
    assert (
        "descriptor: efficientnet, a network trained on ImageNet, because the extra 'deep'" in capsys.readouterr().out
    )
    with Project.open("photos.cbid") as project:
        assert isinstance(project.descriptor, EfficientNet)
        assert project.settings["coder"]["kind"] == "CBID"


def test_a_project_keeps_its_descriptor(photos, capsys):
    assert run(["fit", "photos", "-b", "8", "-d", "pixels", "-q"]) == 0
    write_images(photos, n=2, first=20)
    assert run(["fit", "photos", "-b", "8"]) == 0
    assert "descriptor: pixels, as in earlier fits" in capsys.readouterr().out


def test_an_unfinished_fit_keeps_its_descriptor(photos, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("cbid.project.fitting.learn", stop)
        assert run(["fit", "photos", "-b", "8", "-d", "pixels", "-q"]) == 130
    assert run(["fit", "photos", "-b", "8", "-q"]) == 0
    with Project.open("photos.cbid") as project:
        assert type(project.descriptor).__name__ == "RawPixels"


def test_weak_codes_get_a_hint(tmp_path, monkeypatch, capsys):
    """Noise with labels by chance: no descriptor can do better than guessing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for i in range(60):
        folder = tmp_path / "noise" / "abcd"[i % 4]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    assert run(["fit", "noise", "-b", "8", "-d", "pixels"]) == 0
    assert "% is weak: efficientnet is usually more accurate: " in capsys.readouterr().out


def test_a_layer_by_name(tmp_path, photos, capsys):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Softmax", ["flat"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 192])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "net#1.onnx")
    assert make_descriptor("onnx:net#1.onnx#flat").describe(np.ones((8, 8, 3))).shape == (192,)
    with pytest.warns(UserWarning, match="class scores"):
        make_descriptor("onnx:net#1.onnx")
    assert run(["fit", "photos", "-d", "onnx:net#1.onnx#nothing", "-q"]) == 1
    assert "layer='nothing'" in capsys.readouterr().err
