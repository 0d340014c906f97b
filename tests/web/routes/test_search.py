"""Search and classify through the service; the expected distances are computed here."""

import shutil

import numpy as np
import pytest
from pydantic import ValidationError

from cbid.codes import prefix, weighted_hamming
from cbid.project import Project, ProjectError
from cbid.web.models import SearchRequest
from tests.data.pictures import encoded, png_of_claimed_size, write_tree
from tests.web.conftest import N_BITS, PER_CLASS, client_of
from tests.web.shapes import KINDS, png, shape


def nearest(project, code, n_bits, how, k=10, without=(), vector=None):
    """Return ids and distances by brute force, with the weights of the coder; ties by vectors, then by smaller id."""
    short = project.coder.truncate(n_bits) if n_bits < project.n_bits else project.coder
    weights = np.ones(n_bits) if how == "plain" else short.weights_
    ids = np.setdiff1d(project.ids, without)
    stored = np.stack([project.code(id) for id in ids])
    distances = weighted_hamming(prefix(code, n_bits), prefix(stored, n_bits), weights)
    apart = np.zeros(len(ids))
    if vector is not None:
        apart = np.linalg.norm([project.vector(id).astype(float) - vector for id in ids], axis=1)
    order = np.lexsort((ids, apart, distances.astype(np.float32)))[:k]
    return ids[order].tolist(), distances[order]


def check(answer, wanted):
    assert answer.status_code == 200, answer.text
    ids, distances = wanted
    matches = answer.json()["matches"]
    assert [match["id"] for match in matches] == ids
    np.testing.assert_allclose([match["distance"] for match in matches], distances, rtol=1e-5)


@pytest.mark.parametrize("how", ["weighted", "plain"])
@pytest.mark.parametrize("n_bits", [8, 16, N_BITS])
def test_by_id(client, project, how, n_bits):
    id = int(project.ids[5])
    answer = client.post("/api/search", json={"query": {"id": id}, "how": how, "n_bits": n_bits})
    check(answer, nearest(project, project.code(id), n_bits, how, without=[id], vector=project.vector(id)))
    response = answer.json()
    for match in response["matches"][::4]:
        agree, weights = project.explain(project.code(id), project.code(match["id"]), n_bits)
        assert match["agree"] == agree.sum()
        weights = np.ones(n_bits) if how == "plain" else weights
        assert match["similarity"] == pytest.approx(weights[agree].sum() / weights.sum(), abs=1e-5)
    assert response["bytes_per_image"] == n_bits // 8
    assert response["label"] == project.record(id).label
    assert response["code"] == project.code(id).tobytes().hex()
    assert response["searched"] == len(project)


def test_by_code(client, project):
    code = project.code(int(project.ids[7]))
    answer = client.post("/api/search", json={"query": {"code": code.tobytes().hex()}, "k": 4})
    check(answer, nearest(project, code, N_BITS, "weighted", k=4))


def test_by_vector(client, project):
    vector = project.vector(int(project.ids[3]))
    answer = client.post("/api/search", json={"query": {"vector": vector.tolist()}, "how": "plain"})
    check(answer, nearest(project, project.encode(vector)[0], N_BITS, "plain", vector=vector))


def test_by_raw_vector(client, project):
    id = int(project.ids[3])
    stored = np.stack([project.vector(i) for i in project.ids]).astype(np.float64)
    distances = np.linalg.norm(stored - project.vector(id), axis=1)
    order = [i for i in np.argsort(distances, kind="stable") if project.ids[i] != id][:10]
    answer = client.post("/api/search", json={"query": {"id": id}, "how": "raw"})
    check(answer, (project.ids[order].tolist(), distances[order]))
    assert answer.json()["n_bits"] is None
    assert {match["agree"] for match in answer.json()["matches"]} == {None}
    assert all(0 <= match["similarity"] <= 1 for match in answer.json()["matches"])
    assert answer.json()["bytes_per_image"] == 4 * project.n_features


def test_by_image(client, project):
    upload = {"image": ("rings.png", png("rings", 500), "image/png")}
    answer = client.post("/api/search/image", params={"k": 5, "vector": True}, files=upload)
    vector = project.describe_image(shape("rings", 500))
    check(answer, nearest(project, project.encode(vector)[0], N_BITS, "weighted", k=5, vector=vector))
    np.testing.assert_array_equal(np.float32(answer.json()["vector"]), vector)
    assert answer.json()["matches"][0]["label"] == "rings"
    assert client.post("/api/search/image", files=upload).json()["vector"] is None


def test_only_one_class_and_without_some(client, project):
    id = int(project.ids[0])
    wanted = {"query": {"id": id}, "label": "spots", "k": 100}
    everything = client.post("/api/search", json=wanted).json()["matches"]
    assert len(everything) == PER_CLASS
    assert {match["label"] for match in everything} == {"spots"}
    first = everything[0]["id"]
    rest = client.post("/api/search", json={**wanted, "exclude": [first]}).json()["matches"]
    assert [match["id"] for match in rest] == [match["id"] for match in everything[1:]]
    assert client.post("/api/search", json={**wanted, "label": "unheard"}).json()["matches"] == []


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"query": {"id": 10**9}}, 404, str(10**9)),
        ({"query": {"id": -1}}, 422, "id"),
        ({"query": {}}, 422, "query"),
        ({"query": {"id": 1, "code": "00"}}, 422, "query"),
        ({"query": {"code": "0g"}}, 422, "code"),
        ({"query": {"code": "00"}}, 422, "code"),
        ({"query": {"code": "000000"}, "how": "raw"}, 422, "raw"),
        ({"query": {"vector": [1.0]}}, 422, "vectors"),
        ({"query": {"vector": []}}, 422, "vector"),
        ({"query": {"id": 1}, "k": 0}, 422, "k: "),
        ({"query": {"id": 1}, "k": 10**6}, 422, "k: "),
        ({"query": {"id": 1}, "n_bits": 4000}, 422, "n_bits=4000"),
        ({"query": {"id": 1}, "how": "raw", "n_bits": 8}, 422, "n_bits"),
        ({"query": {"id": 1}, "how": "nearly"}, 422, "how"),
        ({"query": {"id": 1}, "label": "a\x00b"}, 422, "label"),
        ({"query": {"id": 1}, "more": 1}, 422, "more"),
    ],
)
def test_requests_that_are_rejected(client, body, status, named):
    answer = client.post("/api/search", json=body)
    assert answer.status_code == status, answer.text
    assert named in answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"query": {"id": NaN}}', b"\xff\xfe", b"1" * 5000])
def test_bodies_that_are_not_json(client, body):
    answer = client.post("/api/search", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]


@pytest.mark.parametrize("route", ["/api/search/image", "/api/classify/image"])
@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"Dear image, I am a letter.", "JPEG"),
        (b"", "empty"),
        (png("rings", 1)[:-40], ""),
        (png_of_claimed_size(60_000, 60_000), "60000"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "JPEG"),
        (b"GIF89a" + b"\xff" * 50, ""),
    ],
)
def test_files_that_are_not_images(client, route, content, named):
    answer = client.post(route, files={"image": ("../../etc/passwd", content, "image/png")})
    assert answer.status_code == 415, answer.text
    assert named in answer.json()["error"]


def test_classify(client, project):
    upload = {"image": ("new.jpg", encoded(shape("stripes", 900), "JPEG", quality=92))}
    answer = client.post("/api/classify/image", files=upload).json()
    assert answer["label"] == "stripes"
    assert answer["votes"][0]["label"] == "stripes"
    assert sum(vote["votes"] for vote in answer["votes"]) == 5
    assert sum(vote["share"] for vote in answer["votes"]) == pytest.approx(1)
    vector = project.describe_image(shape("stripes", 900)).tolist()
    assert client.post("/api/classify", json={"query": {"vector": vector}, "k": 3}).json()["label"] == "stripes"


def test_an_image_does_not_vote_for_itself(client, project):
    id = int(project.ids[0])
    votes = client.post("/api/classify", json={"query": {"id": id}, "k": len(project)}).json()["votes"]
    count = {vote["label"]: vote["votes"] for vote in votes}
    assert count[project.record(id).label] == PER_CLASS - 1
    assert sum(count.values()) == len(project) - 1


# Requests that would block the service


def _many(n):
    return b"{" + b",".join(b'"%d":1' % i for i in range(n)) + b"}"


_MISTAKES = {
    "fields": {str(i): 1 for i in range(100_000)},
    "fields of a query": {"query": {str(i): 1 for i in range(100_000)}},
    "ids": {"query": {"id": 0}, "exclude": [[]] * 100_000},
    "numbers": {"query": {"vector": ["x"] * 100_000}},
}


@pytest.mark.parametrize("mistakes", _MISTAKES.values(), ids=_MISTAKES)
def test_json_with_many_mistakes_reports_few(client, mistakes):
    """Every reported mistake costs time on the event loop."""
    with pytest.raises(ValidationError) as raised:
        SearchRequest.model_validate(mistakes)
    assert raised.value.error_count() < 10
    answer = client.post("/api/search", json=mistakes)
    assert answer.status_code == 422
    assert len(answer.text) < 1000


def test_json_has_a_smaller_limit_than_files(client):
    answer = client.post("/api/search", content=_many(1_400_000), headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_a_session_request_has_a_small_limit(fitted):
    with client_of(fitted, rate=0, api_key="a key of sixteen or more") as client:
        assert client.post("/api/session", json={"key": "x" * 900}).status_code == 401
        assert client.post("/api/session", content=_many(1000)).status_code == 413


def test_a_fit_during_a_search_does_not_mix_two_states(copied, monkeypatch):
    """Codes of the old coder never meet the new index: the search is repeated."""
    with client_of(copied, rate=0) as client:
        served = client.app.state.served
        vector = served.project.vector(3).tolist()
        encode = type(served.project).encode
        fits = []

        def refit_meanwhile(self, vectors):
            code = encode(self, vectors)
            if not fits:
                fits.append(Project.fit(copied, self.settings["source"], descriptor="pixels", n_bits=16))
                self.refresh()
            return code

        monkeypatch.setattr(type(served.project), "encode", refit_meanwhile)
        answer = client.post("/api/search", json={"query": {"vector": vector}, "k": 1})
        assert answer.status_code == 200, answer.text
        assert answer.json()["n_bits"] == 16
        assert len(answer.json()["code"]) == 4
        assert answer.json()["matches"][0]["distance"] == 0
        fits[0].close()


def test_a_project_recreated_under_the_same_name(copied, tmp_path):
    """Names and labels are those of the new project."""
    with client_of(copied, rate=0) as client:
        assert client.get("/api/images/0").json()["label"] in KINDS
        source = write_tree(
            tmp_path / "other", {f"{k}/n{i}.png": png(KINDS[k == "y"], i) for k in "xy" for i in range(8)}
        )
        shutil.rmtree(copied)
        Project.fit(copied, source, descriptor="pixels", n_bits=8).close()
        client.app.state.served.project.refresh()
        image = client.get("/api/images/0").json()
        assert (image["name"], image["label"]) == ("x/n0.png", "x")
        assert client.post("/api/search", json={"query": {"id": 0}}).json()["matches"][0]["label"] in "xy"


def test_a_damaged_project_is_a_503(copied, monkeypatch):
    def damaged(*arguments, **options):
        raise ProjectError("vectors.f32 is too short")

    with client_of(copied, rate=0) as client:
        monkeypatch.setattr(type(client.app.state.served.project), "search_examples", damaged)
        answer = client.post("/api/search", json={"query": {"id": 0}})
        assert answer.status_code == 503
        assert "vectors.f32" not in answer.text


@pytest.mark.parametrize("likeness", [0, 0.3, 1])
def test_likeness(client, project, likeness):
    id = int(project.ids[5])
    answer = client.post("/api/search", json={"query": {"id": id}, "likeness": likeness, "k": 47})
    ids = np.setdiff1d(project.ids, [id])
    stored = np.stack([project.code(i) for i in ids])
    distances = weighted_hamming(project.code(id), stored, project.coder.weights_at(likeness))
    assert [m["distance"] for m in answer.json()["matches"]] == pytest.approx(np.sort(distances), rel=1e-5)
    explained = client.post(
        "/api/explain", json={"a": {"id": id}, "b": {"id": answer.json()["matches"][9]["id"]}, "likeness": likeness}
    )
    assert explained.json()["distance"] == pytest.approx(answer.json()["matches"][9]["distance"], abs=1e-5)


@pytest.mark.parametrize(
    "wrong", [{"likeness": 1.1}, {"likeness": 0.5, "how": "plain"}, {"likeness": 0, "how": "raw"}]
)
def test_wrong_likeness(client, project, wrong):
    answer = client.post("/api/search", json={"query": {"id": int(project.ids[0])}, **wrong})
    assert answer.status_code == 422
    assert "likeness" in answer.json()["error"]


def test_pages_of_results(client, project):
    query = {"query": {"id": int(project.ids[5])}}
    whole = client.post("/api/search", json={**query, "k": 47}).json()["matches"]
    parts = [client.post("/api/search", json={**query, "first": i, "k": 20}).json()["matches"] for i in (0, 20, 40)]
    assert [len(part) for part in parts] == [20, 20, 7]
    assert [match for part in parts for match in part] == whole
    assert client.post("/api/search", json={**query, "first": 100}).json()["matches"] == []


def test_several_classes(client, project):
    answer = client.post(
        "/api/search", json={"query": {"id": int(project.ids[0])}, "labels": ["rings", "spots"], "k": 40}
    )
    assert {match["label"] for match in answer.json()["matches"]} == {"rings", "spots"}
    assert len(answer.json()["matches"]) == 2 * PER_CLASS


def test_several_examples_are_one_query(client, project):
    """The mean distance to the examples less half the mean distance to the counter-examples ranks the images."""
    like, unlike = [int(project.ids[i]) for i in (0, 13, 25)], [int(project.ids[i]) for i in (40, 41)]
    body = {"query": {"id": like[0]}, "also": [{"id": i} for i in like[1:]], "unlike": [{"id": i} for i in unlike]}
    answer = client.post("/api/search", json={**body, "k": 43})
    ids = np.setdiff1d(project.ids, [*like, *unlike])
    stored = np.stack([project.code(i) for i in ids])
    weights = project.coder.weights_

    def mean_distance(of):
        return np.mean([weighted_hamming(project.code(i), stored, weights) for i in of], axis=0)

    wanted = mean_distance(like) - mean_distance(unlike) / 2
    found = answer.json()["matches"]
    order = np.array([np.flatnonzero(ids == match["id"])[0] for match in found])
    np.testing.assert_allclose(wanted[order], np.sort(wanted), atol=1e-6)
    np.testing.assert_allclose(
        np.diff([match["distance"] for match in found]), np.diff(wanted[order]), atol=1e-6
    )  # the same up to a constant
    raw = client.post("/api/search", json={**body, "k": 43, "how": "raw"}).json()["matches"]
    middle = np.mean([project.vector(i) for i in like], axis=0)
    target = middle + 0.5 * (middle - np.mean([project.vector(i) for i in unlike], axis=0))
    near = np.linalg.norm(np.stack([project.vector(i) for i in ids]) - target, axis=1)
    assert [match["id"] for match in raw] == ids[np.argsort(near, kind="stable")].tolist()


def test_votes_by_distance(client, project):
    """Five neighbours vote with 1 / distance; with neighbours at distance 0, those alone."""
    id = int(project.ids[30])
    body = {"query": {"id": id}, "weights": "distance"}
    answer = client.post("/api/classify", json=body).json()
    near = project.search(project.code(id), 5, exclude=id, vectors=project.vector(id))
    same = near.distances[0] == 0
    vote = same.astype(float) if same.any() else 1 / near.distances[0]
    shares = {label: vote[near.labels[0] == label].sum() / vote.sum() for label in set(near.labels[0].tolist())}
    assert {v["label"]: v["share"] for v in answer["votes"]} == pytest.approx(
        {label: share for label, share in shares.items() if share}, abs=1e-6
    )
