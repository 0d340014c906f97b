"""What goes wrong with folders, labels, ties and interruptions, tried with the command that pip installs.

Each case runs in an empty folder, in processes of its own.
"""

import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sysconfig
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image, features

from cbid import CBID
from cbid.codes import pack
from cbid.detection.drawing import write_picture as write_scene
from cbid.report.page import interval
from tests.detection.planted import BORDER, SIDE, scenes, training
from tests.project.made import picture, write_images

SCRIPT = Path(sysconfig.get_path("scripts")) / "cbid"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason=f"cbid is not installed: {SCRIPT} is missing")


def cbid(folder, *arguments, status=0, **options):
    """Run the installed command in a folder; return the finished process."""
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=600, **options
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


def without(folder, package):
    """Return an environment in which a package cannot be imported, as if it were not installed."""
    stub = folder / "stubs" / package
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text(f"raise ModuleNotFoundError('No module named {package}', name={package!r})\n")
    paths = [str(stub.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def write_picture(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """Fit a folder as phones, cameras and file servers leave it; return it and the result of the fit.

    It has 3 classes of 16 pictures. Each picture of the blue class is there twice, and one also in the green class.
    """
    home = tmp_path_factory.mktemp("messy")
    photos = write_images(home / "photos", n=16, colours=("green", "red"))
    write_images(home / "one", n=8, colours=("blue",))
    (photos / "猫の写真").mkdir()
    for path in (home / "one" / "blue").iterdir():
        shutil.copy(path, photos / "猫の写真" / path.name)
        shutil.copy(path, photos / "猫の写真" / f"copy of {path.name}")
    shutil.copy(home / "one" / "blue" / "000.png", photos / "green" / "astray.png")
    for hidden in ("@eaDir", "@__thumb", ".trash", "thumbnails", "__MACOSX"):
        write_picture(photos / hidden / "red" / "ghost.png", picture("red", 3))
        write_picture(photos / "red" / hidden / "ghost.png", picture("red", 3))
    (photos / "red" / "raw.cr2").write_bytes(b"a camera's own format")
    buffer = io.BytesIO()
    pytest.importorskip("pillow_heif").from_pillow(Image.fromarray(picture("red", 78))).save(buffer)
    (photos / "red" / "IMG_0001.HEIC").write_bytes(buffer.getvalue())
    if features.check("avif"):
        Image.fromarray(picture("red", 77)).save(photos / "red" / "phone.avif")
    write_picture(photos / "red" / "poster.png", picture("red", 5, side=80))
    settings = ["-d", "hog", "-b", 16, "--max-pixels", 5000, "--json"]
    done = cbid(home, "fit", "photos", *settings, env=without(home, "pillow_heif"))
    return home, json.loads(done.stdout), done.stderr


def test_what_is_no_image_is_named_and_the_rest_is_read(messy):
    _, fit, warned = messy
    assert fit["images"] == 49 + features.check("avif")  # 48 and the one astray; no ghost
    named = {Path(name).name: reason for name, reason in fit["fit"]["failures"]}
    assert named.keys() == {"raw.cr2", "IMG_0001.HEIC", "poster.png"}
    assert "80 x 80 pixels: expected at most 5000" in named["poster.png"]
    assert ".cr2" in named["raw.cr2"]
    assert "3 files of the source (1 .cr2, 1 .heic, 1 .png), such as " in warned


def test_pictures_of_phones_need_an_extra(messy):
    """Without it they are named with the command that installs it; with it they are read."""
    home, fit, _ = messy
    (reason,) = (reason for name, reason in fit["fit"]["failures"] if name.endswith(".HEIC"))
    assert "the extra 'heif'" in reason
    command = re.search(r"(\S+) -m pip install pillow-heif", reason)
    assert command is not None, reason
    assert shutil.which(command[1]) is not None
    code = cbid(home, "encode", "photos/red/IMG_0001.HEIC", "--project", "photos.cbid").stdout
    assert re.fullmatch(r"photos/red/IMG_0001\.HEIC\t[0-9a-f]{4}\n", code)


def test_copies_are_reported(messy):
    _, _, warned = messy
    assert re.search(r"\d+ copies are in two classes, such as \S+ and \S+", warned)
    assert re.search(r"\d+ copies are in the training and the held-out part", warned)


def test_names_in_any_script_are_in_the_report(messy):
    home, fit, _ = messy
    assert fit["classes"] == ["green", "red", "猫の写真"]
    cbid(home, "report", "--out", "report.html")
    report = (home / "report.html").read_text(encoding="utf-8")
    assert report.count("猫の写真") > 3
    assert re.search(r"\d+ of 16 bits agree", report)
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", report)


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    """Fit 8 bits to vectors of ten even classes in the order of the classes; 60 more have the label -1.

    The new vectors are ten times as many, so that their accuracy is nearly that on all vectors of this kind.
    """
    home = tmp_path_factory.mktemp("tied")
    rng = np.random.default_rng(1)
    means = rng.normal(size=(10, 12))
    y = np.repeat(np.arange(10), 60)
    labels = np.repeat(np.arange(10), 600)
    X, new = ((means[c] + 1.2 * rng.normal(size=(len(c), 12))).astype(np.float32) for c in (y, labels))
    noise = rng.normal(size=(60, 12)).astype(np.float32)
    np.savez(home / "v.npz", X=np.concatenate([X, noise]), y=np.concatenate([y, np.full(60, -1)]))
    np.save(home / "new.npy", new)
    fit = json.loads(cbid(home, "fit", "v.npz", "-b", 8, "--json").stdout)
    answers = json.loads(cbid(home, "classify", "new.npy", "--json").stdout)
    return fit, np.array([answer["label"] for answer in answers]), labels.astype(str)


@pytest.mark.long
def test_ties_favour_no_class(tied):
    """Each class is predicted 600 times, give or take 40 %."""
    _, predicted, labels = tied
    counts = [int((predicted == name).sum()) for name in np.unique(labels)]
    assert min(counts) >= 360, counts
    assert max(counts) <= 840, counts


@pytest.mark.long
def test_the_printed_accuracy_is_that_of_new_vectors(tied):
    """The accuracy on 6,000 new vectors is in the interval that the fit prints."""
    fit, predicted, labels = tied
    measured = fit["evaluation"]
    low, high = interval(measured["codes"][-1]["weighted"]["accuracy"], measured["n_queries"])
    assert low <= (predicted == labels).mean() <= high


@pytest.mark.long
def test_no_label_is_no_class(tied):
    fit, predicted, labels = tied
    assert fit["classes"] == sorted(np.unique(labels).tolist())
    assert fit["fit"]["images"]["added"] == 60  # indexed, not learned from
    assert set(predicted.tolist()) <= set(fit["classes"])


@pytest.mark.long
def test_without_the_network_and_with_weak_codes(tmp_path):
    """Noise with labels by chance: HOG describes it, and the output says why, and what may help."""
    (tmp_path / "start").mkdir()  # onnxruntime cannot be found, as if it were not installed
    (tmp_path / "start" / "sitecustomize.py").write_text("import sys\nsys.modules['onnxruntime'] = None\n")
    paths = [str(tmp_path / "start"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    rng = np.random.default_rng(0)
    for i in range(60):
        write_picture(tmp_path / "noise" / "abcd"[i % 4] / f"{i}.png", rng.integers(0, 256, (32, 32, 3), np.uint8))
    out = cbid(tmp_path, "fit", "noise", "-b", 8, env=env).stdout
    assert "descriptor: hog, because the extra 'deep' is not installed; efficientnet is usually" in out
    command = re.search(r"more accurate: (\S+ -m pip install .*?), then --descriptor efficientnet", out)
    assert "onnxruntime" in command[1]
    assert "cbid[" not in out
    assert "% is weak: efficientnet is usually more accurate: " in out


@pytest.mark.long
def test_names_are_completed_and_the_help_follows_the_flow(tmp_path):
    words = {"COMP_WORDS": "cbid fit photos --descriptor ", "COMP_CWORD": "4", "_CBID_COMPLETE": "complete_bash"}
    assert {"efficientnet", "hog", "pixels"} <= set(cbid(tmp_path, env={**os.environ, **words}).stdout.split())
    listed = re.findall(r"^│ ([a-z]+)  ", cbid(tmp_path, "--help").stdout, re.M)
    flow = ["fit", "encode", "index", "search", "classify", "evaluate", "report", "reproduce", "serve", "export"]
    assert [name for name in listed if name in flow] == flow


@pytest.mark.long
def test_a_detector_is_trained_and_finds(tmp_path):
    objects, others = training()
    for name, pictures in (("objects", objects[:30]), ("others", others), ("found", [scenes()[0][0]])):
        (tmp_path / name).mkdir()
        for i, pixels in enumerate(pictures):
            write_scene(tmp_path / name / f"{i}.png", pixels)
    options = ["--window", f"{SIDE}x{SIDE}", "--border", BORDER, "--n-rounds", 1, "--n-bits", 8]
    cbid(tmp_path, "detect", "fit", "objects", "others", "--out", "rings.detector", *options, "--quiet")
    done = cbid(tmp_path, "detect", "rings.detector", "found", "--threshold", -9, "--json")
    (image,) = json.loads(done.stdout)["images"]
    assert np.abs(scenes()[0][1].boxes - image["boxes"][0]).max(axis=1).min() < 12  # the best box is on a ring


@pytest.mark.long
def test_labels_in_paths(tmp_path):
    """Dated folders with the class below them, and a flat folder with the class in the names."""
    for i in range(24):
        kind = "cat" if i % 2 else "dog"
        pixels = picture("red" if i % 2 else "blue", i)
        write_picture(tmp_path / "dated" / f"20{i % 3}" / kind / f"{i}.png", pixels)
        write_picture(tmp_path / "flat" / f"{kind}_{i:02}.png", pixels)
    settings = ["-d", "pixels", "-b", 8, "--json"]
    for source, option in (("dated", ["--label-depth", 2]), ("flat", ["--label", "([a-z]+)_[0-9]+"])):
        fit = json.loads(cbid(tmp_path, "fit", source, *settings, *option).stdout)
        assert (fit["classes"], fit["images"]) == (["cat", "dog"], 24)
    for i in range(3):
        write_picture(tmp_path / "later" / "2030" / "cat" / f"{i}.png", picture("red", 90 + i))
    measured = cbid(tmp_path, "evaluate", "later", "-p", "dated.cbid", "--label-depth", 2, "--json").stdout
    assert json.loads(measured)["codes"][-1]["weighted"]["accuracy"] == 1
    later = ["index", "later", "-p", "dated.cbid"]
    out = cbid(tmp_path, *later, "--label-depth", 2).stdout
    assert out == "dated.cbid: 3 images added, 0 already present, 27 in total\n"
    write_picture(tmp_path / "later" / "2030" / "cat" / "new.png", picture("red", 99))
    assert "not learned from: 2030" in cbid(tmp_path, *later).stdout


@pytest.mark.long
def test_panoramas_are_read(tmp_path):
    """60 million pixels: fewer than the 100 million that one's own images may have."""
    photos = write_images(tmp_path / "photos", n=4)
    for path in (photos / "red" / "wide.png", tmp_path / "new" / "red" / "wide.png"):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("1", (10_000, 6_000)).save(path)
    fit = json.loads(cbid(tmp_path, "fit", "photos", "-d", "pixels", "-b", 8, "--json").stdout)
    assert (fit["images"], fit["fit"]["failures"]) == (13, [])
    done = cbid(tmp_path, "index", "new", "--max-pixels", 50_000_000, status=1)
    assert "10000 x 6000 pixels: expected at most 50000000" in done.stderr
    assert json.loads(cbid(tmp_path, "index", "new", "--json").stdout)["added"] == 1
    assert "wide.png" in cbid(tmp_path, "classify", "new/red/wide.png").stdout


@pytest.mark.long
def test_the_first_run_says_that_it_compiles(tmp_path):
    """The time that the kernels take has its own name."""
    write_images(tmp_path / "photos", n=6)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = cbid(tmp_path, "fit", "photos", "-d", "pixels", "-b", 8, env=env)
    assert "compiling the search kernels in the background, once for this installation" in done.stderr
    assert done.stderr.count("compiling the learner, once for this installation") == 1
    assert re.search(r"compiling [\d.]+ s, measuring", done.stdout)
    done = cbid(tmp_path, "fit", "photos", "-d", "pixels", "-b", 16, "--out", "again.cbid", env=env)
    assert "compil" not in done.stderr + done.stdout


@pytest.mark.long
def test_a_coder_from_python(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = (4 * np.eye(3, 6)[y] + rng.normal(size=(60, 6))).astype(np.float32)
    coder = CBID(n_bits=16).fit(X, y)
    coder.save(tmp_path / "coder.safetensors")
    np.savez(tmp_path / "v.npz", X=X, y=y)
    model = ["--model", "coder.safetensors"]
    cbid(tmp_path, "encode", "v.npz", *model, "--out", "codes.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), coder.encode(X))
    shown = json.loads(cbid(tmp_path, "evaluate", "v.npz", *model, "--json").stdout)
    assert shown["codes"][-1]["weighted"]["accuracy"] > 0.9
    cbid(tmp_path, "export", "out.npy", "--source", "v.npz", *model)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), pack(coder.transform(X)))


@pytest.mark.long
def test_ctrl_c_and_the_same_codes_after_a_resume(tmp_path):
    """Interrupted when the first batch is stored: status 130, and one line says what the next run resumes."""
    write_images(tmp_path / "images", n=70)
    fit = ["fit", "images", "-d", "hog", "-b", "16", "--json", "--out"]
    process = subprocess.Popen(
        [SCRIPT, *fit, "one.cbid"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while _stored(tmp_path / "one.cbid") < 64 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    said = re.search(r"interrupted; run the same command again to resume \((\d+) images are read", err)
    assert said is not None, err
    read = [json.loads(cbid(tmp_path, *fit, name).stdout)["fit"]["read"] for name in ("one.cbid", "two.cbid")]
    assert read == [210 - int(said[1]), 210]
    for name in ("one", "two"):
        cbid(tmp_path, "export", f"{name}.npy", "--project", f"{name}.cbid")
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy"))


def _stored(project):
    """Count the rows of the table of a fit that is running."""
    try:
        with sqlite3.connect(f"file:{project / 'images.sqlite'}?mode=ro", uri=True) as table:
            return table.execute("SELECT count(*) FROM images").fetchone()[0]
    except sqlite3.OperationalError:  # missing, or being written
        return 0


@pytest.mark.long
def test_commands_that_the_program_prints_work(tmp_path):
    write_images(tmp_path / "photos", n=6)
    out = cbid(tmp_path, "fit", "photos", "-d", "pixels", "-b", 8).stdout
    printed = re.findall(r"^(\S*cbid (?:search|report|serve) .*?)    \S", out, re.M)
    assert [re.search(r"cbid (\w+)", command)[1] for command in printed] == ["search", "report", "serve"]
    for command in printed[:2]:
        words = ["photos/red/000.png" if word == "IMAGE" else word for word in shlex.split(command)]
        assert subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=600).returncode == 0, command


@pytest.mark.long
def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path):
    write_images(tmp_path / "photos", n=4)
    cbid(tmp_path, "fit", "photos", "-d", "pixels", "-b", 8, "-q")
    done = cbid(tmp_path, "serve", "photos.cbid", status=1, env=without(tmp_path, "fastapi"))
    assert "cbid[" not in done.stderr
    command = shlex.split(done.stderr[done.stderr.index("'serve': ") + len("'serve': ") :])
    assert any(word.startswith("uvicorn") for word in command[4:])
    asked = subprocess.run([*command[:3], "install", "--help"], cwd=tmp_path, capture_output=True, timeout=300)
    assert (command[1:4], asked.returncode) == (["-m", "pip", "install"], 0)


@pytest.mark.long
def test_class_scores_of_a_network_get_a_warning(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("Softmax", ["flat"], ["scores"])]
    shapes = ("image", ["n", 3, 8, 8]), ("scores", ["n", 192])
    image, scores = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes)
    graph = helper.make_graph(nodes, "net", [image], [scores])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx"
    )
    write_images(tmp_path / "photos", n=4)
    done = cbid(tmp_path, "fit", "photos", "-d", "onnx:net.onnx", "-b", 8, "-q")
    assert "class scores" in done.stderr
    done = cbid(tmp_path, "fit", "photos", "-d", "onnx:net.onnx#flat", "-b", 8, "-q", "--out", "flat.cbid")
    assert "class scores" not in done.stderr


@pytest.mark.long
def test_networks_of_other_layouts(tmp_path):
    """Pixels as uint8, with the channels last: as exports of TensorFlow have them."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Cast", ["image"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["real"], ["vector"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", 8, 8, 3])
    vector = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["n", 192])
    graph = helper.make_graph(nodes, "net", [image], [vector])
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    write_images(tmp_path / "photos", n=8)
    fit = json.loads(cbid(tmp_path, "fit", "photos", "-d", "onnx:net.onnx", "-b", 8, "--json").stdout)
    assert fit["evaluation"]["raw"] | {"bytes": 768} == fit["evaluation"]["raw"]
    assert fit["evaluation"]["raw"]["accuracy"] > 0.9


@pytest.mark.long
def test_the_demo_and_its_page(tmp_path):
    """``cbid demo --serve`` after the demo starts the page only."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 8000)) == 0:
            pytest.skip("port 8000, the default of the service, is in use")
    cbid(tmp_path, "demo", "--n-bits", 16)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "cbid-demo").rglob("*") if path.is_file()}
    command = [SCRIPT, "demo", "--n-bits", "16", "--serve"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = []
            while process.poll() is None and not (lines and "http://" in lines[-1]):
                lines.append(process.stdout.readline())
            address = re.search(r"http://\S+", lines[-1])[0]
            with urlopen(f"{address}/", timeout=300) as answer:
                assert b"<html" in answer.read()
        finally:
            process.terminate()
    assert not any(" fit " in line for line in lines)
    for path, time_of_writing in made.items():
        assert path.stat().st_mtime_ns == time_of_writing, path
