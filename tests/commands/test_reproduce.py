"""``cbid reproduce``: calls, and what it says of data that is not there."""

import json
import re

import pytest

from cbid.cli import run
from cbid.paper import EXPERIMENTS


@pytest.fixture(autouse=True)
def _only_the_toy():
    """One experiment, and afterwards all of them in their order."""
    everything = dict(EXPERIMENTS)
    EXPERIMENTS.clear()
    EXPERIMENTS.update({"toy": "tests.paper.toy"})
    yield
    EXPERIMENTS.clear()
    EXPERIMENTS.update(everything)


def test_a_quick_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", "--quick"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "4 cells run, 0 there before; report: reproduction-quick/report.html\n"
    assert re.search(r"^\[2/2\] toy loaded, 0 \(\d+:\d\d gone, about 0:00 left\)$", shown.err, re.M)
    assert (tmp_path / "reproduction-quick" / "report.html").exists()


def test_the_outcome_as_json(tmp_path, capsys):
    assert run(["reproduce", "--quick", "--json", "--out", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"report": str(tmp_path / "report.html"), "ran": 4, "kept": 0, "failures": {}, "left_out": {}}


def test_a_name_that_is_not_known(capsys, tmp_path):
    assert run(["reproduce", "nonsense", "--out", str(tmp_path / "x")]) == 2
    assert "'nonsense' is not known; choose among toy" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    assert run(["reproduce", "--jobs", "0"]) == 2


def test_a_failure_is_status_1(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOY_FAILS", "loaded")
    from dataclasses import replace

    from tests.paper import toy

    monkeypatch.setattr(toy, "EXPERIMENT", replace(toy.EXPERIMENT, claims=()))
    assert run(["reproduce", "toy", "--out", str(tmp_path)]) == 1
    assert "toy failed: ZeroDivisionError" in capsys.readouterr().err


def test_absent_sets_are_named(tmp_path, monkeypatch, capsys):
    from dataclasses import replace

    from tests.paper import toy

    lacking = replace(toy.EXPERIMENT, sets=("graz02",), cells=lambda present, quick: [])
    monkeypatch.setattr(toy, "EXPERIMENT", lacking)
    assert run(["reproduce", "--out", str(tmp_path), "--root", str(tmp_path)]) == 0
    assert "toy: not on this machine: graz02" in capsys.readouterr().err
    report = (tmp_path / "report.html").read_text()
    assert "Left out, for want of data: Two coins." in report
    assert report.count("needs Graz-02.") == 3
