"""The served project, two codes bit by bit, examples of a bit, and the confusion matrix."""

import csv
import io

import numpy as np
import pytest

from cbid.codes import unpack
from tests.web.conftest import N_BITS, PER_CLASS, client_of
from tests.web.shapes import KINDS, png


def test_what_is_served(client, project):
    body = client.get("/api/project").json()
    assert body["name"] == "shapes.cbid"
    assert body["total"] == len(KINDS) * PER_CLASS
    assert body["classes"] == list(KINDS)
    assert (body["n_bits"], body["lengths"]) == (N_BITS, project.lengths)
    assert (body["descriptor"], body["coder"]) == ("RawPixels", "CBID")
    assert body["writable"] is False
    assert [entry["n_bits"] for entry in body["evaluation"]["codes"]] == project.lengths


@pytest.mark.parametrize("n_bits", [8, None])
def test_the_weights_of_differing_bits_add_up_to_the_distance(client, project, n_bits):
    a, b = int(project.ids[0]), int(project.ids[-1])
    length = n_bits or N_BITS
    body = client.post("/api/explain", json={"a": {"id": a}, "b": {"id": b}, "n_bits": n_bits}).json()
    bits = [unpack(project.code(id), N_BITS)[:length] for id in (a, b)]
    assert body["agree"] == (bits[0] == bits[1]).tolist()
    assert body["bits"] == (bits[0] > 0).tolist()
    assert body["differing"] == np.count_nonzero(bits[0] != bits[1]) > 0
    everything = client.post("/api/search", json={"query": {"id": a}, "k": 1000, "n_bits": n_bits}).json()["matches"]
    distance = next(match["distance"] for match in everything if match["id"] == b)
    assert body["distance"] == pytest.approx(distance, rel=1e-5)
    assert np.dot(body["weights"], np.logical_not(body["agree"])) == pytest.approx(distance, rel=1e-5)


def test_explain_takes_codes_and_vectors(client, project):
    id = int(project.ids[4])
    ways = [{"id": id}, {"code": project.code(id).tobytes().hex()}, {"vector": project.vector(id).tolist()}]
    for way in ways:
        assert client.post("/api/explain", json={"a": ways[0], "b": way}).json()["differing"] == 0
    assert client.post("/api/explain", json={"a": ways[0], "b": {"id": 10**6}}).status_code == 404


def test_the_two_sides_of_a_bit(client, project):
    values = project.coder.project(np.stack([project.vector(id) for id in project.ids]))[:, 3]
    body = client.get("/api/bits/3", params={"count": 6}).json()
    assert [image["id"] for image in body["positive"]] == project.ids[np.argsort(-values)[:6]].tolist()
    assert [image["id"] for image in body["negative"]] == project.ids[np.argsort(values)[:6]].tolist()
    assert body["weight"] == pytest.approx(project.coder.weights_[3])
    answer = client.get(f"/api/bits/{N_BITS}")
    assert answer.status_code == 422
    assert str(N_BITS) in answer.json()["error"]


def test_weights(client, project):
    assert client.get("/api/bits").json()["weights"] == pytest.approx(project.coder.weights_.tolist())
    short = client.get("/api/bits", params={"n_bits": 8}).json()
    assert short["weights"] == pytest.approx(project.coder.truncate(8).weights_.tolist())


def test_confusion(client, project):
    body = client.get("/api/confusion").json()
    assert body["classes"] == list(KINDS)
    held_out = [r.label for r in project.records(0, 1000) if r.part == "held-out"]
    assert [sum(row) for row in body["matrix"]] == [held_out.count(kind) for kind in KINDS]


def test_predictions_behind_the_matrix(client, project):
    """Each cell of the matrix has as many images as it says, and the CSV lists the mistakes."""
    found = client.get("/api/confusion").json()
    assert found == project.confusion
    wrong = 0
    for i, true in enumerate(found["classes"]):
        for j, predicted in enumerate(found["classes"]):
            cell = client.get("/api/predictions", params={"label": true, "predicted": predicted}).json()
            assert cell["total"] == found["matrix"][i][j] == len(cell["images"])
            assert {(image["label"], image["predicted"]) for image in cell["images"]} <= {(true, predicted)}
            wrong += cell["total"] * (true != predicted)
    assert client.get("/api/predictions?wrong=true").json()["total"] == wrong
    everything = client.get("/api/predictions").json()
    assert everything["total"] == project.last_fit["images"]["held-out"]
    assert client.get("/api/predictions?first=1&count=2").json()["images"] == everything["images"][1:3]
    answer = client.get("/api/mistakes.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0] == ["id", "name", "label", "predicted"]
    assert len(rows) == 1 + wrong


def test_csv_holds_no_formulas(copied):
    with client_of(copied, rate=0) as client:
        held = client.get("/api/predictions").json()["images"]
        client.post("/api/images/labels", json={"ids": [held[0]["id"]], "label": "=1+1"})
        rows = list(csv.reader(io.StringIO(client.get("/api/mistakes.csv").text)))
        assert [row[2] for row in rows if row[0] == str(held[0]["id"])] == ["'=1+1"]


def test_duplicates_of_the_service(writing):
    twice = writing.post("/api/images", files=[("images", (f"{i}.png", png("rings", 900))) for i in range(2)]).json()
    ids = [image["id"] for image in twice["images"]]
    found = writing.get("/api/duplicates?similarity=0.999&radius=0").json()
    assert found["total"] == 1
    assert [image["id"] for image in found["groups"][0]["images"]] == ids
    assert found["groups"][0]["similarity"] == pytest.approx(1)
    assert writing.get("/api/duplicates?similarity=0.999&first=1").json()["groups"] == []
    assert writing.get("/api/duplicates?radius=9999").status_code == 422


def test_what_a_bit_separates(client, project):
    found = client.get("/api/bits/3").json()["classes"]
    wanted = project.bit_classes(3)
    assert [entry["label"] for entry in found] == wanted.classes
    assert [entry["ones"] for entry in found] == wanted.ones.tolist()


def test_occlusion(client, project):
    a, b = (int(id) for id in project.ids[:2])
    found = client.post("/api/occlusion", json={"id": a, "other": {"id": b}, "likeness": 0.5}).json()
    assert len(found["heat"]) == len(found["heat"][0]) == len(found["flipped"])
    assert 0 < found["n_bits"] <= project.n_bits
    files = {"image": ("q.png", png("rings", 800))}
    other = client.post(f"/api/occlusion/image?id={b}&n_bits=8&grid=3", files=files).json()
    assert other["n_bits"] <= 8
    assert len(other["heat"]) == 3
    assert client.post("/api/occlusion", json={"id": a, "other": {"id": b}, "grid": 13}).status_code == 422
    assert client.post("/api/occlusion", json={"id": 9999, "other": {"id": b}}).status_code == 404
    assert client.post(f"/api/occlusion/image?id={b}", files={"image": ("q.png", b"text")}).status_code == 415
