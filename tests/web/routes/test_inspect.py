"""The served project, two codes bit by bit, examples of a bit, and the confusion matrix."""

import numpy as np
import pytest

from cbid.codes import unpack
from tests.web.conftest import N_BITS, PER_CLASS
from tests.web.shapes import KINDS


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
