"""Projects whose images have several labels, path labels, or no known class: in Python, program and service."""

import json

import numpy as np
import pytest

from cbid.cli import run
from cbid.coders import ITQ
from cbid.data import open_source
from cbid.project import Project
from cbid.project.table import LABEL_SEPARATOR, join_labels, split_labels
from tests.project.made import COLOURS, TINY, picture, write_images

SETS = {"blue": ["sea", "sky"], "green": ["grass"], "red": ["rose", "grass"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images beside a label file; one image is not listed."""
    from PIL import Image

    root = tmp_path_factory.mktemp("several") / "photos"
    root.mkdir()
    lines = ["path,labels"]
    for number, colour in enumerate(COLOURS):
        for i in range(12):
            Image.fromarray(picture(colour, 1000 * number + i)).save(root / f"{colour}{i:02}.png")
            lines.append(f"{colour}{i:02}.png,{';'.join(SETS[colour])}")
    Image.fromarray(picture("red", 9999)).save(root / "new.png")
    (root / "labels.csv").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="module")
def path(folder):
    where = folder.parent / "photos.cbid"
    with pytest.warns(UserWarning, match="1 image without a label"):
        Project.fit(where, folder, descriptor=TINY, n_bits=24).close()
    return where


@pytest.fixture(scope="module")
def project(path):
    with Project.open(path) as opened:
        yield opened


def test_texts_and_lists():
    assert split_labels(join_labels(["b", "a", "b", ""])) == ["a", "b"]
    assert join_labels([]) is None
    assert split_labels(None) == split_labels("") == []
    with pytest.raises(ValueError, match=r"U\+001F"):
        join_labels([f"a{LABEL_SEPARATOR}b"])


def test_several_labels_are_stored(project):
    assert project.classes == ["grass", "rose", "sea", "sky"]
    assert project.class_counts == {"": 1, "grass": 24, "rose": 12, "sea": 12, "sky": 12}
    record = project.record(project.ids_of("rose")[0])
    assert (record.label, record.labels) == ("grass, rose", ["grass", "rose"])
    assert len(project.ids_of("grass")) == 24
    assert project.record(project.ids_of("")[0]).labels == []
    assert project.settings["coder"]["kind"] == "CBID"
    assert project.coder.classes_.tolist() == project.classes
    images = project.last_fit["images"]
    assert (images["train"], images["held-out"], images["added"]) == (29, 7, 1)
    assert project.evaluation["codes"][-1]["weighted"]["accuracy"] == 1
    assert project.evaluation["codes"][-1]["weighted"]["map"] > 0.9
    assert project.evaluation["n_classes"] == 4


@pytest.mark.parametrize("how", ["weighted", "raw"])
@pytest.mark.parametrize(
    ("label", "match", "colours"),
    [
        ("sea", "any", {"blue"}),
        (["sea", "rose"], "any", {"blue", "red"}),
        (["grass", "rose"], "all", {"red"}),
        (["sea", "rose"], "all", set()),
        (["grass"], "branch", {"green", "red"}),
        ("nothing", "any", set()),
    ],
)
def test_filters(project, how, label, match, colours):
    found = project.search(project.vector(0), k=37, how=how, label=label, match=match)
    ids = found.ids[0][found.ids[0] >= 0]
    wanted = [r.id for r in map(project.record, project.ids) if r.name[:-6] in colours]
    assert sorted(ids.tolist()) == wanted
    assert set(found.labels[0]) <= {", ".join(sorted(SETS[c])) for c in colours} | {""}


def test_classify_gives_labels_with_half_of_the_votes(project):
    blue, red = (project.describe_image(picture(colour, 5)) for colour in ("blue", "red"))
    voted = project.classify(np.stack([blue, red]))
    assert voted.labels.tolist() == ["sea, sky", "grass, rose"]
    assert voted.label_sets == [["sea", "sky"], ["grass", "rose"]]
    np.testing.assert_allclose(voted.votes, [[0, 0, 5, 5], [5, 5, 0, 0]], atol=1e-6)
    labels, votes = voted
    assert labels is voted.labels
    assert votes is voted.votes


def test_bits_and_predictions_count_each_label(project):
    shares = project.bit_classes(0)
    assert shares.classes == project.classes
    assert shares.images.tolist() == [24, 12, 12, 12]
    predicted = project.predictions()
    assert set(predicted.labels) <= {"grass", "grass, rose", "sea, sky"}
    assert (predicted.labels == predicted.predicted).mean() == 1


def test_another_fit_finds_nothing_to_do_and_labels_can_change(folder, path, tmp_path):
    with pytest.warns(UserWarning, match="1 image without a label"):
        again = Project.fit(path, folder, descriptor=TINY, n_bits=24)
    assert again.was_up_to_date
    again.close()
    listed = tmp_path / "list.csv"
    names = [f"{colour}{i:02}.png" for colour in COLOURS for i in range(4)]
    listed.write_text("path,labels\n" + "".join(f"{folder / name},{name[0]};all\n" for name in names))
    with Project.fit(tmp_path / "p.cbid", open_source(listed), descriptor=TINY, n_bits=8) as other:
        assert other.classes == ["all", "b", "g", "r"]
    with Project.open(tmp_path / "p.cbid", write=True) as other:
        (new,) = other.add([picture("red", 77)], labels=[["r", "new"]])
        assert other.record(new).labels == ["new", "r"]
        assert len(other.search(other.vector(new), 20, label=["new", "all"]).ids[0]) == 20
        assert other.ids_of("new").tolist() == [new]
        other.relabel([new], ["r", "other"])
        assert other.record(new).labels == ["other", "r"]
        with pytest.raises(ValueError, match="label="):
            other.relabel([new], ["r", ""])
        other.remove([new])
        assert "other" not in other.classes


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    write_images(root / "photos" / "cold", n=8, colours=("blue", "green"))
    write_images(root / "photos" / "warm", n=8, colours=("red",))
    return root / "photos"


def test_nested_folders_as_a_tree(nested, tmp_path, capsys):
    arguments = ["--descriptor", "pixels", "--n-bits", "16", "--out", str(tmp_path / "p.cbid"), "-q"]
    assert run(["fit", str(nested), *arguments, "--tree"]) == 0
    with Project.open(tmp_path / "p.cbid") as project:
        assert project.classes == ["cold/blue", "cold/green", "warm/red"]
        assert project.settings["tree"] == "/"
        assert len(project.coder.levels_) == 2
        found = project.search(project.vector(0), k=24, label="cold", match="branch")
        assert np.count_nonzero(found.ids[0] >= 0) == 16
    capsys.readouterr()
    query = [str(nested / "warm" / "red" / "000.png"), "-p", str(tmp_path / "p.cbid"), "--json"]
    assert run(["search", *query, "--label", "cold", "--match", "branch", "-k", "20"]) == 0
    matches = json.loads(capsys.readouterr().out)[0]["matches"]
    assert {match["label"] for match in matches} == {"cold/blue", "cold/green"}
    assert matches[0]["labels"] == [matches[0]["label"]]
    assert run(["search", *query, "--label", "cold", "--match", "all"]) == 1
    assert "--label='cold': expected one of 'cold/blue'" in capsys.readouterr().err
    assert run(["search", *query, "--match", "all"]) == 1
    assert "--match=all: needs --label" in capsys.readouterr().err
    # Other folders are read as the same tree.
    write_images(tmp_path / "more" / "cold", n=2, first=50, colours=("blue",))
    more = [str(tmp_path / "more"), "-p", str(tmp_path / "p.cbid"), "--json"]
    assert run(["evaluate", *more]) == 0
    assert "cold/blue" in json.loads(capsys.readouterr().out)["confusion"]["classes"]
    assert run(["index", *more]) == 0
    with Project.open(tmp_path / "p.cbid", write=True) as project:
        write_images(tmp_path / "more" / "warm", n=1, first=60, colours=("red",))
        project.add_new(tmp_path / "more")
        assert (project.classes, len(project)) == (["cold/blue", "cold/green", "warm/red"], 27)


def test_without_tree_the_top_folder_is_the_class(nested, tmp_path):
    with Project.fit(tmp_path / "p.cbid", nested, descriptor=TINY, n_bits=8) as project:
        assert project.classes == ["cold", "warm"]
    with pytest.raises(ValueError, match="tree='/': expected None with the coder ITQ"):
        Project.fit(tmp_path / "q.cbid", nested, descriptor=TINY, n_bits=8, tree="/", coder=ITQ())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    root = tmp_path_factory.mktemp("plain")
    write_images(root / "photos", n=20, colours=("blue", "green"))
    Project.fit(root / "p.cbid", root / "photos", descriptor=TINY, n_bits=16, held_out=0.4, coder="ITQ").close()
    return root


def test_unknown_images(plain, capsys):
    """Blue and green images are known. A red one is farther from both than held-out images are."""
    with Project.open(plain / "p.cbid") as project:
        known = np.stack([project.describe_image(picture("blue", 500 + i)) for i in range(20)])
        strange = np.stack([project.describe_image(picture("red", 500 + i)) for i in range(20)])
        assert np.mean(project.classify(known, unknown=0.1).labels == "blue") >= 0.7
        voted = project.classify(strange, unknown=0.1)
        assert np.mean(voted.labels == "unknown") >= 0.8
        assert voted.label_sets[int(np.argmax(voted.labels == "unknown"))] == []
        assert "unknown" not in project.classify(strange).labels
        rejected = [np.mean(project.classify(known, unknown=share).labels == "unknown") for share in (0, 0.3, 0.9)]
        assert rejected == sorted(rejected)
        for wrong in (-0.1, 1, "few"):
            with pytest.raises(ValueError, match="unknown="):
                project.classify(known, unknown=wrong)
    from PIL import Image

    Image.fromarray(picture("red", 501)).save(plain / "red.png")
    assert run(["classify", str(plain / "red.png"), "-p", str(plain / "p.cbid"), "--unknown", "0.1", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["label"], answer["labels"]) == ("unknown", [])


def test_held_out_images_are_searched_once_for_many_queries(plain, monkeypatch):
    """The distances of held-out images are measured once for each k, until images change."""
    searched = []
    with Project.open(plain / "p.cbid", write=True) as project:
        search = project.index.search

        def counted(codes, k=10, **options):
            searched.append(len(codes))
            return search(codes, k, **options)

        monkeypatch.setattr(project.index, "search", counted)
        code = project.code(int(project.ids[0]))
        first = project.classify(code, unknown=0.1)
        assert max(searched) > 1
        searched.clear()
        again = project.classify(code, unknown=0.1)
        assert set(searched) == {1}
        np.testing.assert_array_equal(first.votes, again.votes)
        project.classify(code, 3, unknown=0.1)
        assert max(searched) > 1


def test_without_held_out_images_nothing_is_known_about_the_unknown(plain, tmp_path):
    project = Project.fit(tmp_path / "p.cbid", plain / "photos", descriptor=TINY, n_bits=8, held_out=0)
    with project, pytest.raises(ValueError, match=r"unknown=0\.1: expected a project with held-out images"):
        project.classify(project.code(0), unknown=0.1)


def test_the_service_has_labels_as_lists(path, project):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from cbid.web import ServiceSettings, create_app

    app = create_app(path, ServiceSettings(rate=0, read_only=True))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        body = {"query": {"id": 0}, "labels": ["grass", "rose"], "match": "all", "k": 3}
        answer = client.post("/api/search", json=body).json()
        assert [match["labels"] for match in answer["matches"]] == [["grass", "rose"]] * 3
        assert answer["matches"][0]["label"] == "grass, rose"
        assert answer["labels"] == ["sea", "sky"]
        assert client.post("/api/search", json={**body, "match": "some"}).status_code == 422
        voted = client.post("/api/classify", json={"query": {"id": 0}, "unknown": 0.05}).json()
        assert voted["labels"] == ["sea", "sky"]
        assert client.post("/api/classify", json={"query": {"id": 0}, "unknown": 2}).status_code == 422
        counts = {entry["label"]: entry["images"] for entry in client.get("/api/classes").json()}
        assert counts == {"grass": 24, "rose": 12, "sea": 12, "sky": 12, None: 1}
