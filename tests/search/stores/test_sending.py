"""From an index to a collection, more than once; from a project to it by the program; and the service on top."""

import json

import numpy as np
import pytest

from cbid.cli import run
from cbid.project import Project
from cbid.search.stores import MilvusError, MilvusStore, Sent, index_to
from cbid.storage.models import model_digest
from tests.project.made import write_images
from tests.search.stores.conftest import same
from tests.web.conftest import client_of


def test_only_what_differs_is_sent(lite, stored):
    address, index = lite + "sent", stored.index()
    assert index_to(index, address, made_by="me") == Sent(600, 0, 0, 0)
    assert index_to(index, address, made_by="me") == Sent(0, 0, 0, 600)
    index.remove(stored.ids[:30])
    index.add(stored.codes[:10] ^ np.uint8(128), stored.ids[:10], stored.labels[:10])  # another code
    index.add(stored.codes[10:15], stored.ids[10:15], ["new"] * 5)  # another label
    index.add(stored.codes[15:18], [9001, 9002, 9003], ["a", "b", "c"])
    assert index_to(index, address, made_by="me") == Sent(3, 15, 15, 570)
    with MilvusStore.open(address) as store:
        assert store.made_by == "me"
        same(store.search(stored.codes[:40], candidates=600), index.search(stored.codes[:40]))


def test_other_codes_are_not_mixed_in(lite, stored):
    address, index = lite + "not_mixed", stored.index()
    index_to(index, address, made_by="me")
    for how, message in [
        ({"made_by": "you"}, "already exists with codes of a different coder"),
        ({"made_by": "me", "weights": np.ones(61)}, "different weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            index_to(index, address, **how)
    unlabelled = type(index)(61, stored.weights)
    with pytest.raises(ValueError, match="labels of kind str, not None"):
        index_to(unlabelled, address, made_by="me")
    with pytest.raises(ValueError, match="codes of 61 bits, not 8"):
        index_to(type(index)(8), address)
    assert index_to(index, address, made_by="you", overwrite=True) == Sent(600, 0, 0, 0)


def test_overwrite_leaves_what_is_the_same(lite, stored):
    """Candidates that were kept stay too; what is not of cbid is dropped."""
    address, index = lite + "overwritten", stored.index()
    index_to(index, address, made_by="me")
    with MilvusStore.open(address) as store:
        store.keep_candidates(77)
    assert index_to(index, address, made_by="me", overwrite=True) == Sent(0, 0, 0, 600)
    with MilvusStore.open(address) as store:
        assert store.candidates == {10: 77}
        client = store._collection.connection
        client.call("drop", lambda c, left: c.drop_collection("overwritten", timeout=left))
        client.call("make", lambda c, left: c.create_collection("overwritten", dimension=8, timeout=left))
    with pytest.raises(ValueError, match="is not a collection of cbid"):
        index_to(index, address, made_by="me")
    assert index_to(index, address, made_by="me", overwrite=True) == Sent(600, 0, 0, 0)


def test_a_stopped_run_resumes(lite, stored, monkeypatch):
    """Stopped after the first batch of 250: of the three, one is not sent again."""
    monkeypatch.setattr("cbid.search.stores.sending._BATCH", 250)
    address, index, upsert = lite + "stopped", stored.index(), MilvusStore.upsert
    with monkeypatch.context() as patch:

        def once(store, *rows):
            upsert(store, *rows)
            patch.setattr(MilvusStore, "upsert", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))

        patch.setattr(MilvusStore, "upsert", once)
        with pytest.raises(KeyboardInterrupt):
            index_to(index, address)
    assert index_to(index, address) == Sent(350, 0, 0, 250)


# The program and the service


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    write_images(root / "images", n=10)
    Project.fit(root / "images.cbid", root / "images", descriptor="pixels", n_bits=16).close()
    return root


@pytest.fixture(scope="module")
def sent(lite, images):
    """The address of a collection with the codes of the project."""
    assert run(["index", "--project", str(images / "images.cbid"), "--to", lite + "images", "-q"]) == 0
    return lite + "images"


def test_the_program_sends_a_project(sent, images, capsys):
    path = str(images / "images.cbid")
    assert run(["index", "-p", path, "--to", sent, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["sent"]
    assert answer == {
        "address": sent, "added": 0, "changed": 0, "removed": 0, "same": 30, "candidates": 10, "recall": 1.0,
    }  # fmt: skip
    assert run(["index", "-p", path, "--to", sent]) == 0
    assert "0 added, 0 changed, 0 removed, 30 same; 10 candidates" in capsys.readouterr().out
    with Project.open(path) as project, MilvusStore.open(sent) as store:
        assert store.made_by == model_digest(project.coder)
        assert store.candidates == {10: 10}
        np.testing.assert_array_equal(store.weights, project.weights(16))
        query = project.code(3)
        found, exact = store.search(query, 30), project.search(query, 30)
        np.testing.assert_array_equal(found.ids, exact.ids)
        np.testing.assert_array_equal(found.labels, exact.labels)


def test_images_are_added_and_sent(lite, images, tmp_path, capsys):
    write_images(tmp_path / "more", n=2, first=90)
    Project.fit(tmp_path / "p.cbid", images / "images", descriptor="pixels", n_bits=16).close()
    arguments = ["-p", str(tmp_path / "p.cbid"), "--to", lite + "grown", "--json"]
    assert run(["index", *arguments]) == 0
    capsys.readouterr()
    assert run(["index", str(tmp_path / "more"), *arguments]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["added"], answer["images"], answer["sent"]["added"], answer["sent"]["same"]) == (6, 36, 6, 30)


def test_wrong_calls(sent, images, capsys):
    path = str(images / "images.cbid")
    assert run(["index", "-p", path]) == 2
    assert run(["index", "-p", path, "--to", "milvus://127.0.0.1:9/images", "--timeout", "0.5"]) == 1
    assert run(["index", "-p", path, "--to", sent, "--recall", "2"]) == 1
    answer = capsys.readouterr().err.splitlines()
    assert "--to" in answer[0]
    assert answer[1].startswith("cbid: milvus://127.0.0.1:9/images: Milvus did not answer within 0.5 s")
    assert "recall=2.0" in answer[2]
    assert len(answer) == 3


def test_the_service_searches_the_collection(sent, images, monkeypatch):
    path = images / "images.cbid"
    asked = []
    search = MilvusStore.search
    monkeypatch.setattr(MilvusStore, "search", lambda *a, **k: asked.append(a) or search(*a, **k))
    questions = [
        {"query": {"id": 3}, "k": 5},
        {"query": {"id": 3}, "k": 5, "how": "plain"},
        {"query": {"id": 3}, "k": 5, "label": "red"},
        {"query": {"id": 3}, "k": 40, "exclude": [4, 5]},
    ]
    with client_of(path, rate=0) as here, client_of(path, rate=0, store=sent) as there:
        before = len(asked)
        for question in questions:
            exact, found = (client.post("/api/search", json=question).json() for client in (here, there))
            assert found["matches"] == exact["matches"]
        votes = [c.post("/api/classify", json={"query": {"id": 3}}).json() for c in (here, there)]
        assert votes[0] == votes[1]
        # Each question asks the collection once, and once more if images are tied at the last place.
        assert before + len(questions) + 1 <= len(asked) <= before + 2 * (len(questions) + 1)
        answer = there.get("/api/project").json()
        assert (answer["lengths"], answer["writable"]) == ([16], False)
        shorter = there.post("/api/search", json={"query": {"id": 3}, "n_bits": 8})
        assert shorter.status_code == 422
        assert "n_bits=8" in shorter.json()["error"]
        removed = there.delete("/api/images/3")
        assert removed.status_code == 403
        assert sent in removed.json()["error"]


def test_a_store_that_does_not_answer(sent, images, monkeypatch):
    with client_of(images / "images.cbid", rate=0, store=sent) as client:

        def dead(*_, **__):
            raise MilvusError("milvus://secret-host/photos: Milvus did not search within 10 s")

        monkeypatch.setattr(MilvusStore, "search", dead)
        answer = client.post("/api/search", json={"query": {"id": 3}})
        assert answer.status_code == 503
        assert "secret-host" not in answer.json()["error"]
        assert client.get("/health").status_code == 200


def test_codes_of_another_fit_are_not_searched(lite, sent, images, tmp_path, caplog):
    """At the start, and after a fit that came while the project was served."""
    Project.fit(tmp_path / "p.cbid", images / "images", descriptor="pixels", n_bits=24).close()
    with pytest.raises(ValueError, match=r"images holds codes of another fit than .*p.cbid; send them again"):
        client_of(tmp_path / "p.cbid", store=sent).__enter__()
    assert run(["index", "-p", str(tmp_path / "p.cbid"), "--to", lite + "refitted", "-q"]) == 0
    with client_of(tmp_path / "p.cbid", rate=0, store=lite + "refitted") as client:
        assert client.post("/api/search", json={"query": {"id": 3}}).status_code == 200
        Project.fit(tmp_path / "p.cbid", images / "images", descriptor="pixels", n_bits=16).close()
        client.app.state.served.project.refresh()
        answer = client.post("/api/search", json={"query": {"id": 3}})
        assert answer.status_code == 503
    assert "holds codes of another fit" in caplog.text
