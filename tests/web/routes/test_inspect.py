"""Why an image was found, what one bit sees, and what is confused."""

import numpy as np
import pytest

from cbid.codes import unpack
from tests.web.conftest import N_BITS, PER_CLASS
from tests.web.shapes import KINDS


def test_what_is_served(client, project):
    told = client.get("/api/project").json()
    assert told["name"] == "shapes.cbid"
    assert told["total"] == len(KINDS) * PER_CLASS
    assert told["classes"] == list(KINDS)
    assert (told["n_bits"], told["lengths"]) == (N_BITS, project.lengths)
    assert (told["descriptor"], told["coder"]) == ("RawPixels", "CBID")
    assert told["writable"] is False
    assert [entry["n_bits"] for entry in told["evaluation"]["codes"]] == project.lengths


@pytest.mark.parametrize("n_bits", [8, None])
def test_the_weights_of_differing_bits_add_up_to_the_distance(client, project, n_bits):
    a, b = int(project.ids[0]), int(project.ids[-1])
    length = n_bits or N_BITS
    told = client.post("/api/explain", json={"a": {"id": a}, "b": {"id": b}, "n_bits": n_bits}).json()
    bits = [unpack(project.code(id), N_BITS)[:length] for id in (a, b)]
    assert told["agree"] == (bits[0] == bits[1]).tolist()
    assert told["bits"] == (bits[0] > 0).tolist()
    assert told["differing"] == np.count_nonzero(bits[0] != bits[1]) > 0
    everything = client.post("/api/search", json={"query": {"id": a}, "k": 1000, "n_bits": n_bits}).json()["matches"]
    distance = next(match["distance"] for match in everything if match["id"] == b)
    assert told["distance"] == pytest.approx(distance, rel=1e-5)
    assert np.dot(told["weights"], np.logical_not(told["agree"])) == pytest.approx(distance, rel=1e-5)


def test_explain_takes_codes_and_vectors(client, project):
    id = int(project.ids[4])
    ways = [{"id": id}, {"code": project.code(id).tobytes().hex()}, {"vector": project.vector(id).tolist()}]
    for way in ways:
        assert client.post("/api/explain", json={"a": ways[0], "b": way}).json()["differing"] == 0
    assert client.post("/api/explain", json={"a": ways[0], "b": {"id": 10**6}}).status_code == 404


def test_the_two_sides_of_a_bit(client, project):
    values = project.coder.project(np.stack([project.vector(id) for id in project.ids]))[:, 3]
    told = client.get("/api/bits/3", params={"count": 6}).json()
    assert [image["id"] for image in told["positive"]] == project.ids[np.argsort(-values)[:6]].tolist()
    assert [image["id"] for image in told["negative"]] == project.ids[np.argsort(values)[:6]].tolist()
    assert told["weight"] == pytest.approx(project.coder.weights_[3])
    answer = client.get(f"/api/bits/{N_BITS}")
    assert answer.status_code == 422
    assert str(N_BITS) in answer.json()["error"]


def test_weights(client, project):
    assert client.get("/api/bits").json()["weights"] == pytest.approx(project.coder.weights_.tolist())
    short = client.get("/api/bits", params={"n_bits": 8}).json()
    assert short["weights"] == pytest.approx(project.coder.truncate(8).weights_.tolist())


def test_confusion(client, project):
    told = client.get("/api/confusion").json()
    assert told["classes"] == list(KINDS)
    held_out = [r.label for r in project.records(0, 1000) if r.part == "held-out"]
    assert [sum(row) for row in told["matrix"]] == [held_out.count(kind) for kind in KINDS]
