"""A coder saved from Python in the program; completion of values; training a detector; what a rerun resumes."""

import json
import os
import signal
import subprocess
import sys
from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest

import cbid
from cbid import CBID
from cbid.cli import run
from cbid.coders import ITQ, SphericalHashing
from cbid.commands.options import complete
from cbid.commands.search import _classes
from cbid.data import read_image
from cbid.descriptors import RawPixels
from cbid.detection import SlidingWindowDetector
from cbid.detection.drawing import write_picture
from tests.detection.planted import BORDER, SIDE, scenes, training
from tests.project.made import fitted, write_images


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with vectors in three classes, and a coder that was learned from them."""
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 20)
    X = (rng.normal(size=(3, 6)).repeat(20, axis=0) + 0.2 * rng.normal(size=(60, 6))).astype(np.float32)
    np.savez(folder / "v.npz", X=X, y=y)
    CBID(n_bits=16).fit(X, y).save(folder / "coder.safetensors")
    return folder


@pytest.fixture
def here(saved, monkeypatch):
    monkeypatch.chdir(saved)
    return saved


MODEL = ["--model", "coder.safetensors"]


def test_encode(here, capsys):
    assert run(["encode", "v.npz", *MODEL, "--out", "codes.npy", "-q"]) == 0
    coder, X = cbid.load("coder.safetensors"), np.load("v.npz")["X"]
    np.testing.assert_array_equal(np.load("codes.npy"), coder.encode(X))
    assert run(["encode", "v.npz", *MODEL, "--n-bits", "8", "--json"]) == 0
    codes = json.loads(capsys.readouterr().out)["codes"]
    assert codes[0]["code"] == coder.encode(X)[0, :1].tobytes().hex()
    assert run(["encode", "v.npz", *MODEL, "--out", "parts.npy", "--max-memory", "8GB", "-q"]) == 0
    np.testing.assert_array_equal(np.load("parts.npy"), coder.encode(X))


def test_evaluate(here, capsys):
    assert run(["evaluate", "v.npz", *MODEL, "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert (measured["n_queries"], measured["n_stored"]) == (12, 48)
    assert measured["codes"][-1]["weighted"]["accuracy"] > 0.9


def test_export(here, capsys):
    assert run(["export", "codes.parquet", *MODEL, "--source", "v.npz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["codes"] == 60
    assert run(["export", "coder.onnx", *MODEL, "--n-bits", "8"]) == 0
    assert "coder.onnx" in capsys.readouterr().out
    onnxruntime = pytest.importorskip("onnxruntime")
    X = np.load("v.npz")["X"]
    (codes,) = onnxruntime.InferenceSession("coder.onnx").run(None, {"X": X})
    np.testing.assert_array_equal(codes, cbid.load("coder.safetensors").truncate(8).encode(X))


def test_images_need_the_descriptor_of_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "photos", n=3)
    paths = sorted((tmp_path / "photos").rglob("*.png"))
    X = RawPixels(size=(32, 32), color=True).transform([read_image(path) for path in paths])
    coder = ITQ(n_bits=8).fit(X)
    coder.save("itq.safetensors")
    assert run(["encode", "photos", "--model", "itq.safetensors"]) == 1
    assert "photos holds images: give the --descriptor" in capsys.readouterr().err
    assert run(["encode", "photos", "--model", "itq.safetensors", "--descriptor", "pixels", "--json"]) == 0
    codes = [entry["code"] for entry in json.loads(capsys.readouterr().out)["codes"]]
    assert codes == [code.tobytes().hex() for code in coder.encode(X)]


@pytest.mark.parametrize(
    ("arguments", "status", "word"),
    [
        (["encode", "v.npz", "--model", "none.safetensors"], 1, "none.safetensors"),
        (["encode", "v.npz", "--model", "v.npz"], 1, "v.npz"),
        (["encode", "v.npz", *MODEL, "--project", "p.cbid"], 2, "--model"),
        (["encode", "v.npz", "--descriptor", "hog"], 2, "--descriptor"),
        (["encode", "v.npz", *MODEL, "--descriptor", "hog"], 1, "leave out --descriptor"),
        (["encode", "wide.npy", *MODEL], 1, "expects 6"),
        (["evaluate", *MODEL], 2, "SRC"),
        (["export", "x.npy", *MODEL], 1, "--source"),
        (["export", "x.doc", *MODEL, "--source", "v.npz"], 1, "x.doc"),
        (["export", "x.npy", "--source", "v.npz"], 2, "--source"),
        (["export", "x.npy", *MODEL, "--names", "n.csv"], 2, "--names"),
        (["export", "x.onnx", "--model", "sphere.safetensors"], 1, "hyperplanes"),
    ],
)
def test_wrong_calls(here, capsys, arguments, status, word):
    np.save("wide.npy", np.zeros((3, 7), np.float32))
    SphericalHashing(n_bits=8).fit(np.load("v.npz")["X"]).save("sphere.safetensors")
    assert run(arguments) == status
    captured = capsys.readouterr()
    assert word in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_values_are_completed():
    assert complete("cbid.project.models:DESCRIPTORS", "onnx:")("e") == ["efficientnet"]
    assert complete("cbid.project.models:DESCRIPTORS", "onnx:")("o") == ["onnx:"]
    assert complete("cbid.commands.export:_formats")("par") == ["parquet"]
    assert complete("cbid.commands.fit:KERNELS")("x") == []
    assert complete("cbid.paper:EXPERIMENTS")("kn") == ["knn"]
    assert "scene15" in complete("cbid.paper.sets:CATALOGUE")("sc")


def test_the_shell_completes_values():
    words = {"COMP_WORDS": "cbid fit photos --descriptor ", "COMP_CWORD": "4", "_CBID_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "cbid"], capture_output=True, text=True, env={**os.environ, **words}, timeout=120
    )
    assert {"efficientnet", "hog", "pixels"} <= set(done.stdout.split())


def test_the_shell_completes_the_classes_of_the_project(tmp_path, monkeypatch):
    """Of the only project in the folder, or of the one that is given; without one, nothing and no error."""
    fitted(tmp_path / "p.cbid", write_images(tmp_path / "images", colours=("red", "blue"))).close()

    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert _classes(SimpleNamespace(params={}), "") == ["blue", "red"]
    words = {"COMP_WORDS": "cbid search q.png --label r", "COMP_CWORD": "4", "_CBID_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "cbid"], capture_output=True, text=True, env={**os.environ, **words}, timeout=300
    )
    assert (done.stdout.split(), done.stderr) == (["red"], "")
    monkeypatch.chdir(tmp_path / "empty")
    assert _classes(SimpleNamespace(params={"project": tmp_path / "p.cbid"}), "b") == ["blue"]
    assert _classes(SimpleNamespace(params={"project": None}), "") == []


def test_a_detector_is_trained(tmp_path, capsys, monkeypatch):
    """Windows with rings and photographs without, as files."""
    monkeypatch.chdir(tmp_path)
    objects, others = training()
    for name, pictures in (("objects", objects[:30]), ("others", others)):
        (tmp_path / name).mkdir()
        for i, picture in enumerate(pictures):
            write_picture(tmp_path / name / f"{i}.png", picture)
    options = ["--window", f"{SIDE}x{SIDE}", "--border", str(BORDER), "--n-rounds", "1", "--n-bits", "8"]
    assert run(["detect", "fit", "objects", "others", "--out", "rings.detector", *options, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["positives"], answer["negatives"]) == (30, 4)
    image, truth = scenes()[0]
    found = SlidingWindowDetector.load("rings.detector").detect(image)
    best = found.boxes[0]
    assert np.abs(truth.boxes - best).max(axis=1).min() < 12  # the best box is one of the rings
    assert run(["detect", "fit", "objects", "others", "--out", "x", "--window", "big"]) == 2
    assert "--window" in capsys.readouterr().err
    assert run(["detect", "fit", "objects", "nothing", "--out", "x"]) == 1
    assert "nothing" in capsys.readouterr().err
    assert run(["detect", "fit", "objects", "others", "--out", "gone/x"]) == 2


def test_ctrl_c_says_what_is_kept(tmp_path, monkeypatch, capsys):
    """The first run is interrupted after 5 bits. The second continues, and its codes are those of one run."""
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "photos", n=6)
    fit = ["fit", "photos", "-d", "pixels", "-b", "12", "-q", "--out"]

    def interrupt(coder):
        if coder.n_bits_ == 5:
            signal.raise_signal(signal.SIGINT)
        return copy(coder)

    with monkeypatch.context() as patched:
        patched.setattr("cbid.project.models.copy.copy", interrupt)  # called with every bit
        assert run([*fit, "one.cbid"]) == 130
    shown = capsys.readouterr().err
    assert shown.startswith("cbid: interrupted; run the same command again to resume (18 images are read, ")
    assert "bits are learned)" in shown
    for name in ("one.cbid", "two.cbid"):
        assert run([*fit, name]) == 0
        assert run(["export", f"{name}.npy", "--project", name, "-q"]) == 0
    np.testing.assert_array_equal(np.load("one.cbid.npy"), np.load("two.cbid.npy"))
