"""``cbid demo``: the whole flow, on images that need no download."""

import re
import shlex
import subprocess
from importlib import import_module
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image

from cbid.cli import run
from cbid.project import Project

DEMO = import_module("cbid.commands.demo")  # the attribute cbid.commands.demo is the function


@pytest.fixture
def few(monkeypatch):
    """Reduce the number of images: the demo takes seconds."""
    monkeypatch.setattr(DEMO, "_SKIMAGE", ("brick", "chelsea", "coffee"))
    monkeypatch.setattr(DEMO, "_SKLEARN", ())
    monkeypatch.setattr(DEMO, "_TILES_PER_CLASS", 8)


def test_the_demo(few, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--n-bits", "16"]) == 0
    out = capsys.readouterr().out
    for part in (
        "cbid fit cbid-demo/images",
        "24 images, 3 classes",
        "descriptor: ",
        "cbid search cbid-demo/queries/coffee.png",
        "cbid-demo/report.html",
    ):
        assert part in out
    assert out.splitlines()[-1].endswith("cbid serve cbid-demo/images.cbid")
    assert "<svg" in (tmp_path / "cbid-demo" / "report.html").read_text()
    with Project.open("cbid-demo/images.cbid") as project:
        assert len(project) == 24
    # The second run reads no image.
    before = (tmp_path / "cbid-demo" / "images.cbid" / "project.json").stat().st_mtime_ns
    assert run(["demo", "--n-bits", "16", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "cbid-demo" / "images.cbid" / "project.json").stat().st_mtime_ns == before


def test_queries_are_not_in_the_class_folders(few, tmp_path):
    queries = DEMO.make_images(tmp_path)
    assert [query.name for query in queries] == ["chelsea.png", "coffee.png"]
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
    demo = ["demo", "--n-bits", "8", "--out", str(tmp_path / "d"), "--serve", "--quiet"]
    assert run(demo) == 0
    assert started == [["-m", "cbid", "serve", str(tmp_path / "d" / "images.cbid")]]
    # The second time only the service starts.
    monkeypatch.setattr(DEMO, "make_images", lambda folder: pytest.fail("the work is repeated"))
    assert run(demo) == 0
    assert len(started) == 2


def test_searches_are_no_row_of_ties(few, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--n-bits", "32"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "of 32 " in line]
    distances = [float(line[3]) for line in lines if line[1] == "of"]
    assert len(distances) == 10
    assert len(set(distances)) > 2


def test_the_last_command_runs_as_it_is_printed(few, tmp_path, monkeypatch, capsys):
    """The search page answers at the address that it prints."""
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--n-bits", "8"]) == 0
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    command += ["--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            address = re.search(r"http://\S+", process.stdout.readline())[0]
            with urlopen(f"{address}/", timeout=300) as answer:
                assert b"<html" in answer.read()
        finally:
            process.terminate()


def test_without_the_service_the_demo_says_how_to_install_it(few, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(DEMO, "find_spec", lambda name: None)
    assert run(["demo", "--n-bits", "8", "--out", str(tmp_path / "d")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "-m pip install" in last
    assert "uvicorn" in last
