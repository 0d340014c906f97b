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


def test_one_photograph_for_people(model, folder, capsys):
    assert run(["detect", model, str(folder / "below" / "1.png"), "--threshold", "0.5"]) == 0
    shown = capsys.readouterr().out
    assert "1.png: 3 found" in shown
    assert shown.count("score") == 3


def test_nothing_could_be_searched(model, folder, capsys):
    assert run(["detect", model, str(folder / "tiny.png")]) == 1
    assert "no photograph" in capsys.readouterr().err


def test_no_detector(tmp_path, folder, capsys):
    (tmp_path / "text").write_text("a text that is no detector at all")
    assert run(["detect", str(tmp_path / "text"), str(folder)]) == 1
    assert "is no whole detector file" in capsys.readouterr().err
    assert run(["detect", str(tmp_path / "nothing"), str(folder)]) == 1
