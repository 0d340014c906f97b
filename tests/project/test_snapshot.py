"""What a project holds."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from cbid.coders import CBID
from cbid.data import ImageItems, VectorTable, read_image
from cbid.project import ImageRecord, Project, ProjectError
from cbid.project.files import _sealed_text
from cbid.search import UnknownIdError
from cbid.storage.digests import digest_file
from tests.project.made import N_BITS, TINY, fitted, picture


def test_what_there_is(project, made):
    assert len(project) == 36
    assert project.classes == ["blue", "green", "red"]
    assert isinstance(project.coder, CBID)
    assert (project.n_bits, project.lengths) == (N_BITS, [8, 16, N_BITS])
    assert project.ids.tolist() == list(range(36))
    assert project.descriptor.get_params() == TINY.get_params()
    assert project.n_features == 75
    assert project.path == made[1]
    assert repr(project).endswith("36 images, 24 bits>")


def test_records(project, made):
    """Twelve images a class: round(0.2 * 12) = 2 are held out."""
    images = made[0]
    assert project.record(13) == ImageRecord(
        13, "green/001.png", str(images / "green" / "001.png"), "green", project.record(13).part, ["green"]
    )
    records = project.records(0, 100)
    assert [record.id for record in records] == list(range(36))
    assert project.records(34, 5) == records[34:]
    for colour in project.classes:
        parts = [record.part for record in records if record.label == colour]
        assert (parts.count("held-out"), parts.count("train")) == (2, 10)


def test_vectors_codes_and_thumbnails_are_those_of_the_images(project):
    for id in (0, 17, 35):
        image = read_image(project.record(id).path)
        np.testing.assert_array_equal(project.vector(id), TINY.describe(image))
        np.testing.assert_array_equal(project.code(id), project.coder.encode(project.vector(id)[None])[0])
        np.testing.assert_array_equal(project.describe_image(image), project.vector(id))
        small = Image.open(io.BytesIO(project.thumbnail(id)))
        assert (small.format, small.size) == ("JPEG", (24, 24))


def test_an_unknown_id(project):
    for ask in (project.record, project.vector, project.thumbnail, project.code):
        with pytest.raises(UnknownIdError, match="99"):
            ask(99)
    with pytest.raises(UnknownIdError):
        project.record(-1)


def test_which_files_it_holds(project, made, tmp_path):
    assert project.holds(made[0] / "red" / "003.png")
    assert not project.holds(tmp_path / "red" / "003.png")


def test_what_of_a_source_it_holds(project, made, tmp_path):
    """A file by its path, whatever its time; anything else by what it is."""
    folder = tmp_path / "other" / "red"
    folder.mkdir(parents=True)
    (folder / "003.png").write_bytes((made[0] / "red" / "003.png").read_bytes())
    files = [str(folder / "003.png"), str(made[0] / "red" / "003.png"), str(tmp_path / "none.png")]
    assert project.held(ImageItems([*files, picture("red", 2003)])) == {1}
    X = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    with fitted(tmp_path / "v.cbid", VectorTable(X[:20]), coder="LSH", n_bits=4) as vectors:
        assert vectors.held(VectorTable(X[[25, 3, 19, 20]], np.array([3, 25, 20, 19]))) == {1, 2}


def test_own_descriptors_are_given_again(tmp_path, made):
    from tests.data.toys import Means

    path = tmp_path / "own.cbid"
    fitted(path, made[0], descriptor=Means(repeat=3), n_bits=4).close()
    with (
        Project.open(path) as opened,
        pytest.raises(ProjectError, match="class Means"),
    ):
        _ = opened.descriptor
    with Project.open(path, descriptor=Means(repeat=3)) as opened:
        assert opened.describe_image(np.full((4, 4), 255, np.uint8)).tolist() == [1] * 6
    with (
        Project.open(path, descriptor=Means(repeat=2)) as opened,
        pytest.raises(ProjectError, match="Means gives other values"),
    ):
        _ = opened.descriptor


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: (p / "project.json").write_text("{"), "project.json is damaged"),
        (lambda p: (p / "project.json").write_text("[]"), "project.json is not"),
        (lambda p: _change(p, version=3), "project.json has format version 3"),
        (lambda p: _change(p, index="../elsewhere"), "project.json is damaged: index"),
        (lambda p: _change(p, n_features="75"), "project.json is damaged: n_features"),
        (lambda p: _change(p, n_features=74), "n_features differ"),
        (lambda p: (p / "project.json").unlink(), "it has no project.json"),
        (lambda p: next(p.glob("coder-*")).unlink(), "is not a complete project"),
        (lambda p: next(p.glob("coder-*")).write_bytes(b"text"), r"coder-\w+.safetensors"),
        (lambda p: (next(p.glob("index-*")) / "manifest.json").write_text("no"), "index|manifest"),
        (lambda p: next(p.glob("evaluation-*")).write_text("{"), r"evaluation-\w+.json is damaged"),
        (lambda p: next(p.glob("evaluation-*")).write_text("{}"), r"evaluation-\w+.json is damaged"),
        (lambda p: next(p.glob("evaluation-*")).write_text("[1]"), r"evaluation-\w+.json is damaged"),
        (lambda p: _change_measured(p, confusion=3), r"evaluation-\w+.json is damaged"),
        (lambda p: _change_measured(p, raw={}), r"evaluation-\w+.json is damaged"),
        (lambda p: _change_measured(p, codes=[{"n_bits": 8}]), r"evaluation-\w+.json is damaged"),
        (lambda p: (p / "images.sqlite").write_bytes(b"no table" * 1000), "images.sqlite is damaged"),
        (lambda p: (p / "images.sqlite").unlink(), "images.sqlite is missing"),
        (lambda p: (p / "vectors.f32").unlink(), "is not a complete project"),
    ],
)
def test_damage_is_reported(copied, damage, message):
    damage(copied)
    with pytest.raises(ValueError, match=message) as error:
        Project.open(copied).record(0)
    assert "\n" not in str(error.value)


def _change(path, **entries):
    """Change the manifest, with the right checksum."""
    content = json.loads((path / "project.json").read_text())
    (path / "project.json").write_bytes(_sealed_text({**content, **entries}))


def _change_measured(path, **entries):
    file = next(path.glob("evaluation-*"))
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))
    checksums = json.loads((path / "project.json").read_text())["checksums"]
    _change(path, checksums={**checksums, file.name: digest_file(file)})


def test_a_file_of_vectors_that_was_cut(copied, made):
    (copied / "vectors.f32").write_bytes((copied / "vectors.f32").read_bytes()[: 75 * 4 * 20])
    with Project.open(copied) as opened:
        assert opened.vector(19).shape == (75,)
        with pytest.raises(ProjectError, match="too short: it has no vector for id=20"):
            opened.vector(20)
        query = opened.vector(3)
        for ask in (
            lambda: opened.search(query, how="raw"),
            lambda: opened.bit(0),
            lambda: opened.evaluate(query[None], ["red"]),
            lambda: fitted(copied, made[0], n_bits=8),
        ):
            with pytest.raises(ProjectError, match=r"vectors.f32 is too short: it has no vector for id=20"):
                ask()
        assert opened.search(query, 1).distances[0, 0] == 0  # codes need no vectors


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.cbid does not exist"):
        Project.open(tmp_path / "none.cbid")
