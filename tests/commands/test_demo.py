"""``cbid demo``: the whole flow on images that come with the libraries."""

import numpy as np
import pytest
from PIL import Image

from cbid.cli import run
from cbid.commands import demo_images
from cbid.project import Project


@pytest.fixture
def few(monkeypatch):
    """Fewer images, so that it takes seconds."""
    monkeypatch.setattr(demo_images, "_SKIMAGE", ("brick", "gravel"))
    monkeypatch.setattr(demo_images, "_SKLEARN", ())
    monkeypatch.setattr(demo_images, "_TILES", 8)
    monkeypatch.setattr(demo_images, "_DIGITS", 6)


def test_the_demo(few, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--bits", "16"]) == 0
    out = capsys.readouterr().out
    for part in (
        "$ cbid fit cbid-demo/images",
        "76 images, 12 classes",
        "$ cbid search cbid-demo/queries/digit-7.png",
    ):
        assert part in out
    assert "cbid-demo/report.html: open it in a browser" in out
    assert "cbid serve cbid-demo/images.cbid" in out
    assert "<svg" in (tmp_path / "cbid-demo" / "report.html").read_text()
    with Project.open("cbid-demo/images.cbid") as project:
        assert len(project) == 76
    # The second time nothing is read again.
    before = (tmp_path / "cbid-demo" / "images.cbid" / "project.json").stat().st_mtime_ns
    assert run(["demo", "--bits", "16", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "cbid-demo" / "images.cbid" / "project.json").stat().st_mtime_ns == before


def test_its_queries_are_in_no_class(few, tmp_path):
    queries = demo_images.make_images(tmp_path)
    assert [query.name for query in queries] == ["digit-7.png", "gravel.png"]
    pictures = [np.asarray(Image.open(path)) for path in (tmp_path / "images").rglob("*.png")]
    for query in queries:
        asked = np.asarray(Image.open(query))
        assert not any(p.shape == asked.shape and (p == asked).all() for p in pictures)


def test_squares_do_not_overlap():
    """Each square lies in its own cell of the grid: put back, no cell is covered twice."""
    tiles = demo_images._photographs(np.random.default_rng(0))
    for squares in tiles.values():
        assert len(squares) >= 13
        assert len({square.tobytes() for square in squares}) == len(squares)


def test_a_folder_with_other_files(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("precious")
    assert run(["demo", "--out", str(tmp_path)]) == 1
    assert "holds other files; give the demo a folder of its own" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_it_ends_in_the_service_when_asked_to(few, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("os.execv", lambda program, arguments: started.append(arguments[1:]))
    assert run(["demo", "--bits", "8", "--quiet", "--out", str(tmp_path / "d"), "--serve"]) == 0
    assert started == [["-m", "cbid", "serve", str(tmp_path / "d" / "images.cbid")]]
