"""docs/evidence is what its raw lines give."""

import json
import shutil

import pytest

from benchmarks import evidence
from benchmarks.results import FOLDER
from cbid.paper import EXPERIMENTS, get_experiment
from cbid.paper.raw import RawResults


def claims_of(folder):
    """The claims of every experiment, with verdict and figures."""
    found = json.loads((folder / "summary.json").read_text())["experiments"]
    return {name: of["claims"] for name, of in found.items()}


@pytest.mark.long
def test_claims_and_verdicts_are_those_of_the_raw_lines(tmp_path):
    """If this fails, write docs/evidence again: python -m benchmarks.evidence."""
    shutil.copytree(evidence.EVIDENCE / "raw", tmp_path / "raw")
    evidence.write(tmp_path)
    assert claims_of(tmp_path) == claims_of(evidence.EVIDENCE)
    assert list(claims_of(tmp_path)) == list(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_lines_that_a_script_has_stored_are_in_the_evidence(name):
    path = FOLDER / f"{name}.jsonl"
    if path.exists():
        experiment = get_experiment(name)
        script = RawResults(path, experiment.revision, experiment.independent).read()
        packed = RawResults.of(experiment, evidence.EVIDENCE).read()
        assert script
        assert set(script) <= set(packed)


def test_runs_are_packed_into_the_evidence(tmp_path, monkeypatch):
    """Later lines replace earlier ones, and the report lists every experiment."""
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence")
    monkeypatch.setattr(evidence, "FOLDER", tmp_path / "none")
    spiral = get_experiment("spiral")
    cell = spiral.cells((), True)[0]
    region = ["0" * 80] * 80
    for run, predicted in (("a", [1, 1]), ("b", [1, 0])):
        RawResults.of(spiral, tmp_path / run).add(
            cell, {"truth": [1, 0], "predicted": predicted, "region": region}, 1
        )
    evidence.main([str(tmp_path / "a"), str(tmp_path / "b")])
    packed = RawResults.of(spiral, tmp_path / "evidence")
    assert [row["predicted"] for row in packed.read().values()] == [[1, 0]]
    assert not packed.path.exists()
    verdicts = {claim["verdict"] for claims in claims_of(tmp_path / "evidence").values() for claim in claims}
    assert verdicts == {"not run"}
