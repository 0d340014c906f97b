"""Health, metrics, the OpenAPI document, and the files of the page."""

import time
from importlib.resources import files

import pytest

PAGE = sorted(entry.name for entry in files("cbid.web").joinpath("page").iterdir())


def test_health(client, project):
    assert client.get("/health").json() == {"status": "ok", "images": len(project)}


def test_metrics_count_by_route(client):
    client.get("/api/images/1")
    client.get("/api/images/2")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert float(lines['cbid_requests_total{method="GET",route="/api/images/{id}",status="200"}']) >= 2
    assert float(lines["cbid_images"]) == 48
    assert float(lines["process_resident_memory_bytes"]) > 1e7


def test_the_openapi_document_names_every_route(client):
    document = client.get("/openapi.json").json()
    ways = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert {
        ("post", "/api/search"),
        ("post", "/api/search/image"),
        ("post", "/api/classify"),
        ("post", "/api/classify/image"),
        ("post", "/api/explain"),
        ("get", "/api/bits/{bit}"),
        ("get", "/api/confusion"),
        ("post", "/api/images"),
        ("delete", "/api/images/{id}"),
        ("get", "/api/images/{id}/thumbnail"),
        ("get", "/health"),
        ("get", "/metrics"),
    } <= ways


@pytest.mark.parametrize("name", PAGE)
def test_the_page_names_no_other_host(client, name):
    answer = client.get(f"/{name}")
    assert answer.status_code == 200
    text = answer.text.replace("http://www.w3.org/2000/svg", "")  # a name space, which nothing fetches
    assert "http:" not in text
    assert "https:" not in text


def test_the_page_is_at_the_root(client):
    assert client.get("/").text == client.get("/index.html").text
    assert "<title>cbid</title>" in client.get("/").text


def test_the_usual_documentation_pages_load_from_elsewhere_and_are_off(client):
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404


def _wait_for(client, *phases):
    for _ in range(1200):
        state = client.get("/api/refit").json()
        if state["phase"] in phases:
            return state
        time.sleep(0.05)
    raise AssertionError(state)


def test_refit_with_progress(writing, client, copied):
    assert client.get("/api/refit").json()["phase"] == "never"
    assert client.post("/api/refit").status_code == 403  # read-only
    assert client.delete("/api/refit").status_code == 403
    id = writing.get("/api/images?label=rings&count=1").json()["images"][0]["id"]
    writing.post("/api/images/labels", json={"ids": [id], "label": "spots"})
    before = writing.get("/api/project").json()
    assert before["unlearned"] == 1
    assert writing.post("/api/refit").status_code == 202
    assert writing.post("/api/refit").status_code == 409  # one at a time
    assert _wait_for(writing, "done", "failed")["phase"] == "done"
    assert writing.get("/api/project").json()["unlearned"] == 0
    assert writing.get(f"/api/images/{id}").json()["label"] == "spots"

    # A cancelled one leaves the project as it was.
    stamp = (copied / "project.json").read_bytes()
    writing.post("/api/refit")
    assert writing.delete("/api/refit").json()["phase"] == "cancelled"
    assert _wait_for(writing, "cancelled")
    assert (copied / "project.json").read_bytes() == stamp
