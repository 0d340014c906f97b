"""Learning again from the stored images."""

import json
import subprocess
import sys

import numpy as np

from cbid.project import Project
from cbid.project.refitting import main, refit
from tests.project.made import fitted, picture, write_images


def test_refit_learns_from_added_and_relabelled_images(tmp_path):
    images = write_images(tmp_path / "images", n=6, colours=("red", "green"))
    fitted(tmp_path / "p.cbid", images, n_bits=8).close()
    with Project.open(tmp_path / "p.cbid", write=True) as project:
        added = project.add([picture("blue", i) for i in range(6)], ["blue"] * 6)
        moved = project.ids_of("red")[:1]
        project.relabel(moved, "green")
    seen = []
    refit(tmp_path / "p.cbid", report=lambda *values: seen.append(values))
    assert [phase for phase, _, _ in seen[-2:]] == ["encoding", "measuring"]
    assert [done for phase, done, _ in seen if phase == "learning"] == [*range(9)]
    with Project.open(tmp_path / "p.cbid") as project:
        assert {record.part for record in project.records_of(added)} == {"train", "held-out"}
        assert "blue" in project.confusion["classes"]
        assert (project.record(int(moved[0])).label, project.n_unlearned) == ("green", 0)
        assert (
            project.index.reconstruct(added) == project.encode(np.stack([project.vector(i) for i in added]))
        ).all()
    assert Project.check(tmp_path / "p.cbid") == ([], [])
    # A fit of the folder has nothing more to learn: it keeps the added images and the changed labels.
    with fitted(tmp_path / "p.cbid", images, n_bits=8) as project:
        assert {record.part for record in project.records_of(added)} == {"train", "held-out"}
        assert project.record(int(moved[0])).label == "green"


def test_a_fit_learns_from_added_images_with_a_label(tmp_path):
    images = write_images(tmp_path / "images", n=6, colours=("red", "green"))
    fitted(tmp_path / "p.cbid", images, n_bits=8).close()
    with Project.open(tmp_path / "p.cbid", write=True) as project:
        added = project.add([picture("blue", i) for i in range(7)], ["blue"] * 6 + [None])
        assert {record.part for record in project.records_of(added)} == {"added"}
    with fitted(tmp_path / "p.cbid", images, n_bits=8) as project:
        assert not project.was_up_to_date
        assert [record.part for record in project.records_of(added)].count("train") == 5
        assert project.record(int(added[-1])).part == "added"  # it has no label
        assert project.last_fit["images"] == {"train": 15, "held-out": 3, "added": 1}
        assert "blue" in project.confusion["classes"]
    with fitted(tmp_path / "p.cbid", images, n_bits=8) as project:
        assert project.was_up_to_date
    # They are not in the source, and stay; one that is removed is no longer learned from.
    with Project.open(tmp_path / "p.cbid", write=True) as project:
        project.remove(added[:1])
    with fitted(tmp_path / "p.cbid", images, n_bits=8) as project:
        assert not project.was_up_to_date
        assert len(project) == 18
    assert Project.check(tmp_path / "p.cbid") == ([], [])


def test_as_a_process(tmp_path, capsys):
    fitted(tmp_path / "p.cbid", write_images(tmp_path / "images", n=4), n_bits=8).close()
    done = subprocess.run(
        [sys.executable, "-m", "cbid.project.refitting", str(tmp_path / "p.cbid")], capture_output=True, text=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, lines[0]["phase"], lines[-1]) == (0, "learning", {"phase": "done"})
    with Project.open(tmp_path / "p.cbid", write=True):
        assert main(str(tmp_path / "p.cbid")) == 1
    assert main(str(tmp_path / "nowhere")) == 1
    busy, missing = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert busy["phase"] == missing["phase"] == "failed"
    assert "nowhere" in missing["error"]
