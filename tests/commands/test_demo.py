"""``cbid demo``: the whole flow, on images that need no download."""

from importlib import import_module

import numpy as np
import pytest
from PIL import Image

from cbid.cli import run
from cbid.project import Project

DEMO = import_module("cbid.commands.demo")  # the attribute cbid.commands.demo is the function


@pytest.fixture
def few(monkeypatch):
    """Reduce the number of images: the demo takes seconds."""
    monkeypatch.setattr(DEMO, "_SKIMAGE", ("brick", "gravel"))
    monkeypatch.setattr(DEMO, "_SKLEARN", ())
    monkeypatch.setattr(DEMO, "_TILES_PER_CLASS", 8)
    monkeypatch.setattr(DEMO, "_IMAGES_PER_DIGIT", 6)


def test_the_demo(few, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--n-bits", "16"]) == 0
    out = capsys.readouterr().out
    for part in (
        "$ cbid fit cbid-demo/images",
        "76 images, 12 classes",
        "$ cbid search cbid-demo/queries/digit-7.png",
    ):
        assert part in out
    assert "cbid-demo/report.html" in out
    assert "cbid serve cbid-demo/images.cbid" in out
    assert "<svg" in (tmp_path / "cbid-demo" / "report.html").read_text()
    with Project.open("cbid-demo/images.cbid") as project:
        assert len(project) == 76
    # The second run reads no image.
    before = (tmp_path / "cbid-demo" / "images.cbid" / "project.json").stat().st_mtime_ns
    assert run(["demo", "--n-bits", "16", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "cbid-demo" / "images.cbid" / "project.json").stat().st_mtime_ns == before


def test_queries_are_not_in_the_class_folders(few, tmp_path):
    queries = DEMO.make_images(tmp_path)
    assert [query.name for query in queries] == ["digit-7.png", "gravel.png"]
    pictures = [np.asarray(Image.open(path)) for path in (tmp_path / "images").rglob("*.png")]
    for query in queries:
        asked = np.asarray(Image.open(query))
        assert not any(p.shape == asked.shape and (p == asked).all() for p in pictures)


def test_tiles_differ():
    tiles = DEMO._tiles(np.random.default_rng(0))
    for tiles_of_class in tiles.values():
        assert len(tiles_of_class) >= 13
        assert len({tile.tobytes() for tile in tiles_of_class}) == len(tiles_of_class)


def test_a_folder_with_other_files(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("precious")
    assert run(["demo", "--out", str(tmp_path)]) == 1
    assert f"--out={tmp_path}" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_serve_starts_the_service(few, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("os.execv", lambda program, arguments: started.append(arguments[1:]))
    assert run(["demo", "--n-bits", "8", "--quiet", "--out", str(tmp_path / "d"), "--serve"]) == 0
    assert started == [["-m", "cbid", "serve", str(tmp_path / "d" / "images.cbid")]]
