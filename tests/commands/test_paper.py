"""``cbid reproduce`` and ``cbid data``: calls, missing and damaged data, output."""

import json
import re
from dataclasses import replace

import pytest

from cbid.cli import run
from cbid.paper import EXPERIMENTS
from cbid.paper.sets import CATALOGUE
from tests.data.pictures import pgm, write_tree

# cbid data


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
    assert found["daimler"]["state"] == "damaged"
    assert "daimler.npz" in found["daimler"]["problem"]


def test_one_set(root, capsys):
    assert run(["data", "graz02", "--root", str(root)]) == 0
    shown = capsys.readouterr().out
    for part in ("Graz-02", f"present: {root / 'graz02'}", "6 images, 2 classes", "licence: ", "paper (5 repeats): "):
        assert part in shown
    assert run(["data", "scene15", "--root", str(root)]) == 0
    assert "absent: Scene-15" in capsys.readouterr().out


def test_an_unknown_data_set(capsys):
    assert run(["data", "imagenet"]) == 2
    shown = capsys.readouterr().err
    assert "'imagenet'" in shown
    assert "scene15" in shown
    assert shown.count("\n") == 1


# cbid reproduce


@pytest.fixture
def toy_only():
    """Replace the experiments of the paper by a small one."""
    everything = dict(EXPERIMENTS)
    EXPERIMENTS.clear()
    EXPERIMENTS.update({"toy": "tests.paper.toy:EXPERIMENT"})
    yield
    EXPERIMENTS.clear()
    EXPERIMENTS.update(everything)


def test_a_quick_run(toy_only, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", "--quick"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"\b4 cells .* 0 .*: reproduction-quick/report\.html\n$", shown.out)
    assert re.search(r"^\[2/2\] toy loaded, 0 \(\d+:\d\d .* 0:00 \w+\)$", shown.err, re.M)
    assert (tmp_path / "reproduction-quick" / "report.html").exists()


def test_the_outcome_as_json(toy_only, tmp_path, capsys):
    assert run(["reproduce", "--quick", "--json", "--out", str(tmp_path)]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome == {"report": str(tmp_path / "report.html"), "ran": 4, "kept": 0, "failures": {}, "left_out": {}}


def test_an_unknown_experiment(toy_only, capsys, tmp_path):
    assert run(["reproduce", "nonsense", "--out", str(tmp_path / "x")]) == 2
    shown = capsys.readouterr().err
    assert "'nonsense'" in shown
    assert "toy" in shown
    assert not (tmp_path / "x").exists()
    assert run(["reproduce", "--n-jobs", "0"]) == 2


def test_a_failure_is_status_1(toy_only, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOY_FAILS", "loaded")
    from tests.paper import toy

    monkeypatch.setattr(toy, "EXPERIMENT", replace(toy.EXPERIMENT, claims=()))
    assert run(["reproduce", "toy", "--out", str(tmp_path)]) == 1
    assert "toy failed: ZeroDivisionError" in capsys.readouterr().err


def test_absent_sets_are_named(toy_only, tmp_path, monkeypatch, capsys):
    from tests.paper import toy

    lacking = replace(toy.EXPERIMENT, sets=("graz02",), cells=lambda present, quick: [])
    monkeypatch.setattr(toy, "EXPERIMENT", lacking)
    assert run(["reproduce", "--out", str(tmp_path), "--root", str(tmp_path)]) == 0
    assert re.search(r"^toy: .*: graz02$", capsys.readouterr().err, re.M)
    assert "Needs Graz-02." in (tmp_path / "report.html").read_text()
