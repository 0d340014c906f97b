"""What holds for every experiment."""

import json
import re
from pathlib import Path

import pytest

from cbid.evaluation import METRICS
from cbid.paper import EXPERIMENTS, Results, get_experiment
from cbid.paper.base import key_of
from cbid.paper.sets import CATALOGUE


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_declares_what_the_report_needs(name):
    experiment = get_experiment(name)
    assert experiment.name == name
    assert set(experiment.sets) <= set(CATALOGUE)
    assert set(experiment.metrics) <= set(METRICS)
    for text in (experiment.title, experiment.shows, experiment.protocol):
        assert text
    cells = experiment.cells(experiment.sets, False)
    shown = json.dumps(dict(experiment.methods))
    titles = {str(c["method"]) for c in cells} if name != "patches" else set()
    assert all(json.dumps(title)[1:-1] in shown for title in titles)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("quick", [False, True])
def test_its_cells_are_distinct_and_survive_a_file(name, quick):
    experiment = get_experiment(name)
    cells = experiment.cells(experiment.sets, quick)
    assert cells
    assert len({key_of(c) for c in cells}) == len(cells)
    assert [json.loads(key_of(c)) for c in cells] == cells
    assert all(set(experiment.together) <= set(c) for c in cells)
    assert sum(len(task) for task in experiment.tasks(cells)) == len(cells)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_quick_run_has_cells_of_its_own(name):
    """Reduced sizes are other settings, so that quick results are never taken for full ones."""
    experiment = get_experiment(name)
    quick, full = ({key_of(c) for c in experiment.cells(experiment.sets, q)} for q in (True, False))
    assert not quick & full or name == "spiral"  # which has fewer repeats, of the same size


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_without_its_data_it_has_no_cells_and_judges_nothing(name):
    experiment = get_experiment(name)
    own = [s for s in experiment.sets if CATALOGUE[s].packaged]
    cells = experiment.cells(own, True)
    assert bool(cells) == bool(own or name == "spiral")
    for claim in experiment.claims:
        assert claim.judge(Results([])) is None
        assert claim.text
        assert claim.source


def test_the_page_names_every_experiment_and_metric():
    text = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text()
    experiments, metrics = text.split("## Metrics")
    assert re.findall(r"^\| `(\w+)`", experiments, re.M) == list(EXPERIMENTS)
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", metrics, re.M)))
    assert listed == list(METRICS)
