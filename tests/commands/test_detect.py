"""``cbid detect``: a photograph, a folder with bad files in it, JSON and drawn output."""

import json

import numpy as np
import pytest

from cbid.cli import run
from cbid.data import read_image
from cbid.detection.drawing import write_picture
from tests.detection.planted import detector, scenes


@pytest.fixture
def model(tmp_path):
    detector().save(tmp_path / "rings.detector")
    return str(tmp_path / "rings.detector")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "photographs"
    (path / "below").mkdir(parents=True)
    for i, (image, _) in enumerate(scenes()[:2]):
        write_picture(path / "below" / f"{i}.png", image)
    (path / "torn.jpg").write_bytes(b"\xff\xd8\xff torn")
    write_picture(path / "tiny.png", np.zeros((5, 5), np.uint8))
    return path


def test_a_folder(model, folder, tmp_path, capsys):
    out, drawn = tmp_path / "found.json", tmp_path / "drawn"
    assert run(["detect", model, str(folder), "--json", "--out", str(out), "--draw", str(drawn)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content == json.loads(out.read_text())
    assert [entry["image"] for entry in content["images"]] == ["below/0.png", "below/1.png"]
    assert {failure["image"] for failure in content["failures"]} == {"torn.jpg", "tiny.png"}
    for entry, (image, _) in zip(content["images"], scenes()):
        expected = detector().detect(image)
        kept = expected.scores >= 0
        assert entry["scores"] == pytest.approx(expected.scores[kept])
        np.testing.assert_allclose(entry["boxes"], expected.boxes[kept], atol=0.051)
    assert read_image(drawn / "below" / "1.png").shape == (120, 160, 3)
    assert not (drawn / "tiny.png").exists()


def test_photographs_are_decoded_in_other_processes(model, folder, tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise AssertionError("it is decoded in this process")

    monkeypatch.setattr("cbid.data.image_sets.decode_image", fail)
    assert run(["detect", model, str(folder), "--json", "--draw", str(tmp_path / "drawn")]) == 0
    assert len(json.loads(capsys.readouterr().out)["images"]) == 2
    assert run(["detect", "fit", str(folder / "below"), str(folder / "torn.jpg"), "--out", str(tmp_path / "d")]) == 1
    assert "torn.jpg" in capsys.readouterr().err


def test_one_photograph_for_people(model, folder, capsys):
    assert run(["detect", model, str(folder / "below" / "1.png"), "--threshold", "0.5"]) == 0
    shown = capsys.readouterr().out
    assert "1.png: 3 found" in shown
    assert shown.count("score") == 3


def test_no_photograph_can_be_searched(model, folder, capsys):
    assert run(["detect", model, str(folder / "tiny.png")]) == 1
    assert "tiny.png" in capsys.readouterr().err


def test_no_detector(tmp_path, folder, capsys):
    (tmp_path / "text").write_text("a text that is no detector at all")
    assert run(["detect", str(tmp_path / "text"), str(folder)]) == 1
    assert str(tmp_path / "text") in capsys.readouterr().err
    assert run(["detect", str(tmp_path / "nothing"), str(folder)]) == 1


def test_drawing_leaves_the_photographs_alone(model, folder, tmp_path, capsys):
    """With a list file that points to a parent folder, and into the folder of the photographs."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "some.txt").write_text("../photographs/below/0.png\n")
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    drawn = tmp_path / "drawn"
    assert run(["detect", model, str(tmp_path / "lists" / "some.txt"), "--draw", str(drawn)]) == 0
    assert (drawn / "photographs" / "below" / "0.png").exists()
    (drawn / "link").symlink_to(folder)
    for into in (folder, drawn / "link"):
        assert run(["detect", model, str(folder), "--draw", str(into)]) == 1
        assert f"--draw={into}" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before


def test_photographs_with_similar_names_get_different_files(model, tmp_path):
    image = scenes()[0][0]
    for name in ("x/1.png", "y/1.png", "a.jpg", "a.png", "a.jpg.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_picture(tmp_path / name, image)
    names = [tmp_path / "x/1.png", tmp_path / "y/1.png", "a.jpg", "a.png", "a.jpg.png", "x/../a.png"]
    (tmp_path / "some.txt").write_text("".join(f"{name}\n" for name in names))
    drawn = tmp_path / "drawn"
    assert run(["detect", model, str(tmp_path / "some.txt"), "--draw", str(drawn)]) == 0
    inside = tmp_path.relative_to("/")
    expected = [inside / "x/1.png", inside / "y/1.png", "a.jpg.png", "a.png", "a.jpg-2.png", "a-2.png"]
    assert sorted(p for p in drawn.rglob("*") if p.is_file()) == sorted(drawn / name for name in expected)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--n-jobs", "0"], "--n-jobs"),
        (["--out", "nowhere/x.json"], "--out=nowhere/x.json"),
        (["--out", "photographs"], "--out=photographs"),
        (["--draw", "rings.detector"], "--draw=rings.detector"),
    ],
)
def test_a_wrong_call_is_rejected_before_the_work(model, folder, tmp_path, monkeypatch, capsys, options, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cbid.detection.detector.detect_all", lambda *_, **__: pytest.fail("detection has started"))
    assert run(["detect", model, str(folder), *options]) == 2
    assert named in capsys.readouterr().err


def test_a_result_that_cannot_be_written_is_printed(model, folder, tmp_path, monkeypatch, capsys):
    def full(path):
        raise OSError("the disk is full")

    monkeypatch.setattr("cbid.storage.atomic.whole_file", full)
    assert run(["detect", model, str(folder / "below" / "1.png"), "--out", str(tmp_path / "x.json")]) == 1
    shown = capsys.readouterr()
    assert "1.png: 3 found" in shown.out
    assert "the disk is full" in shown.err
