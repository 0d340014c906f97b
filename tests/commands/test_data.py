"""``cbid data``: what is here, what is not, and what is damaged."""

import json

import pytest

from cbid.cli import run
from cbid.paper.sets import CATALOGUE
from tests.data.pictures import pgm, write_tree


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("CBID_DATA", raising=False)
    files = {f"graz02/{name}/{i}.pgm": pgm(i) for name in ("bikes", "cars") for i in range(3)}
    return write_tree(tmp_path, files | {"daimler/daimler.npz": b"text"})


def test_all_sets(root, capsys):
    assert run(["data", "--root", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[1 : 1 + len(CATALOGUE)]}
    assert list(rows) == list(CATALOGUE)
    assert rows["graz02"] == ["present", "6", "2", str(root / "graz02")]
    assert rows["scene15"] == ["absent"]
    assert rows["daimler"] == ["damaged", str(root / "daimler")]
    assert rows["digits"] == ["present", "1,797", "10", "scikit-learn"]


def test_all_sets_for_programs(root, capsys, monkeypatch):
    monkeypatch.setenv("CBID_DATA", str(root))
    assert run(["data", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(found) == set(CATALOGUE)
    assert found["graz02"]["images"] == 6
    assert found["graz02"]["protocols"]["paper"]["repeats"] == 5
    assert found["scene15"]["path"] is None
    assert "daimler.npz is no .npz file" in found["daimler"]["problem"]


def test_one_set(root, capsys):
    assert run(["data", "graz02", "--root", str(root)]) == 0
    shown = capsys.readouterr().out
    for part in ("Graz-02", f"present: {root / 'graz02'}", "6 images, 2 classes", "licence: ", "paper (5 repeats): "):
        assert part in shown
    assert run(["data", "scene15", "--root", str(root)]) == 0
    assert "absent: Scene-15 is not there" in capsys.readouterr().out


def test_a_set_that_is_not_known(capsys):
    assert run(["data", "imagenet"]) == 2
    told = capsys.readouterr().err
    assert "'imagenet' is not known; choose one of scene15" in told
    assert told.count("\n") == 1
