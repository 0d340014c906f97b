"""Projects written by cbid 0.1.0 open unchanged, with a note that they have no checksums."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cbid.project import Project
from cbid.project.files import ProjectWarning
from cbid.project.refitting import refit

SAMPLES = Path(__file__).parents[1] / "storage" / "samples_0_1_0"


no_checksums = pytest.mark.filterwarnings("ignore:.*no checksums:UserWarning")


@pytest.fixture
def sample(tmp_path):
    """A copy of a project that ``cbid fit photos --bits 16 --descriptor gist --kernel none`` wrote."""
    shutil.copytree(SAMPLES / "photos.cbid", tmp_path / "photos.cbid")
    return tmp_path / "photos.cbid"


@no_checksums
def test_a_search_gives_the_same_answer(sample):
    (expected,) = json.loads((SAMPLES / "search.json").read_text())
    matches = expected["matches"]
    with Project.open(sample) as project:
        vector = project.describe_image((SAMPLES / "query.png").read_bytes())
        found = project.search(project.encode(vector), len(matches))  # 0.1.0 ranked ties by id, as codes alone do
        assert found.ids[0].tolist() == [match["id"] for match in matches]
        np.testing.assert_allclose(found.distances[0], [match["distance"] for match in matches], rtol=1e-5)
        assert found.n_bytes == expected["bytes"]
        for match in matches:
            record = vars(project.record(match["id"]))
            assert {k: record[k] for k in match if k != "distance"} == {k: match[k] for k in match if k != "distance"}
            assert project.thumbnail(match["id"]).startswith(b"\xff\xd8")


def test_opening_says_that_there_are_no_checksums_and_repair_adds_them(sample):
    with pytest.warns(ProjectWarning, match="no checksums"):
        Project.open(sample).close()
    problems, (note,) = Project.check(sample)
    assert not problems
    assert "21 images have no checksums" in note
    problems, (note,) = Project.check(sample, repair=True)
    assert not problems
    assert "21 images got" in note
    assert Project.check(sample) == ([], [])
    Project.open(sample).close()


@no_checksums
def test_a_fit_adds_checksums(sample):
    with Project.open(sample, write=True) as project:
        project.add([str(SAMPLES / "query.png")], labels=["stripes"])
        assert not project.is_sealed
    refit(sample)
    assert Project.check(sample) == ([], [])


@no_checksums
def test_images_can_be_added_and_removed(sample):
    with Project.open(sample, write=True) as project:
        n = len(project)
        (id,) = project.add([str(SAMPLES / "query.png")], labels=["stripes"])
        assert len(project) == n + 1
        assert project.search(project.vector(id), 1).distances[0, 0] == 0
        project.remove([id])
    with Project.open(sample) as project:
        assert len(project) == n
