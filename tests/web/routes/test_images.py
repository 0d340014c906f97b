"""Stored images: list, show, add, remove; many readers and one writer."""

import io
import threading
import time
from pathlib import Path

import pytest
from PIL import Image

from cbid.data.isolated import _Worker
from cbid.project import Project
from cbid.web.served import ServedProject
from tests.data.pictures import png_of_claimed_size
from tests.web.conftest import PER_CLASS, client_of
from tests.web.shapes import KINDS, png


def upload(*pictures, **data):
    files = [("images", (name, content, "image/png")) for name, content in pictures]
    return {"files": files, "data": data}


def test_pages_of_images(client, project):
    first = client.get("/api/images", params={"count": 5}).json()
    assert first["total"] == len(project)
    assert [image["id"] for image in first["images"]] == project.ids[:5].tolist()
    spread = client.get("/api/images", params={"first": 1, "every": 7, "count": 3}).json()
    assert [image["id"] for image in spread["images"]] == project.ids[1::7][:3].tolist()
    assert client.get("/api/images", params={"first": 10**6}).json()["images"] == []


def test_one_image_and_its_picture(client, project):
    id = int(project.ids[2])
    image = client.get(f"/api/images/{id}").json()
    record = project.record(id)
    wanted = {"id": id, "name": record.name, "part": record.part, "has_file": True}
    wanted |= {"label": record.label, "labels": [record.label]}
    assert wanted.items() <= image.items()
    picture = client.get(f"/api/images/{id}/thumbnail")
    assert picture.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).size == (64, 64)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/images/999999", 404),
        ("/api/images/999999/thumbnail", 404),
        ("/api/images/-1", 422),
        ("/api/images/1e3/thumbnail", 422),
        ("/api/images/99999999999999999999999", 422),
        ("/api/images/..%2f..%2fmanifest.json", 404),
        ("/..%2f..%2fsettings.py", 404),
        ("/../settings.py", 404),
        ("/%2e%2e/settings.py", 404),
        ("//etc/passwd", 404),
        ("/page%00.js", 404),
    ],
)
def test_paths_that_lead_nowhere(client, path, status):
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_add_find_and_remove(writing, copied):
    before = writing.get("/health").json()["images"]
    answer = writing.post("/api/images", **upload(("new.png", png("rings", 700)), label="rings"))
    assert answer.status_code == 201, answer.text
    (image,) = answer.json()["images"]
    assert answer.json()["total"] == before + 1
    assert (image["name"], image["label"], image["part"]) == ("new.png", "rings", "added")

    found = writing.post("/api/search/image", files={"image": png("rings", 700)}).json()["matches"]
    assert found[0]["distance"] == 0
    assert image["id"] in [match["id"] for match in found if match["distance"] == 0]
    assert writing.get(f"/api/images/{image['id']}/thumbnail").status_code == 200
    with Project.open(copied) as other:  # committed, so other processes see it
        assert other.record(image["id"]).name == "new.png"

    assert writing.delete(f"/api/images/{image['id']}").json() == {"id": image["id"], "total": before}
    assert writing.delete(f"/api/images/{image['id']}").status_code == 404
    found = writing.post("/api/search/image", files={"image": png("rings", 700)}).json()["matches"]
    assert image["id"] not in [match["id"] for match in found]


def test_all_or_none(writing):
    before = writing.get("/health").json()["images"]
    answer = writing.post("/api/images", **upload(("a.png", png("rings", 1)), ("notes.txt", b"no image")))
    assert answer.status_code == 415
    assert answer.json()["error"].startswith("notes.txt: ")
    assert writing.get("/health").json()["images"] == before


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../../etc/passwd", "passwd"),
        ("C:\\pictures\\cat.png", "cat.png"),
        ("a\u202eb\x07c", "abc"),
        ("/", "image"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_names_of_uploads_are_cleaned(given, kept):
    from cbid.web.routes.images import _clean_name

    assert _clean_name(given) == kept


def test_limits(copied):
    with client_of(copied, rate=0, max_files=2, max_pixels=5000, max_upload=100_000) as client:
        three = upload(*[(f"{i}.png", png("rings", i)) for i in range(3)])
        assert client.post("/api/images", **three).status_code == 413
        one = upload(("large.png", png("rings", 1, size=72)))
        assert "5000" in client.post("/api/images", **one).json()["error"]
        bomb = upload(("bomb.png", png_of_claimed_size(50_000, 50_000)))
        assert client.post("/api/images", **bomb).status_code == 415
        answer = client.post("/api/images", **upload(("big.png", bytes(200_000))))
        assert answer.status_code == 413
        assert answer.headers["connection"] == "close"
        assert client.get("/health").json()["images"] == 48


def test_pixels_of_all_images_together(copied):
    with client_of(copied, rate=0, max_pixels=64 * 64) as client:
        files = [("images", (f"{i}.png", png("rings", i))) for i in range(6)]
        answer = client.post("/api/images", files=files)
        assert answer.status_code == 413
        assert "pixels" in answer.json()["error"]
        assert client.post("/api/images", files=files[:5]).status_code == 201


def test_uploads_are_decoded_once(copied, monkeypatch):
    decoded, pixels = [], _Worker.pixels
    monkeypatch.setattr(_Worker, "pixels", lambda worker, reply: (decoded.append(reply), pixels(worker, reply))[1])
    with client_of(copied, rate=0) as client:
        decoded.clear()  # of warming up
        files = [("images", (f"{i}.png", png("rings", i))) for i in range(3)]
        assert client.post("/api/images", files=files).status_code == 201
    assert len(decoded) == 3


def test_a_slow_addition_is_waited_for(copied, monkeypatch):
    add = Project.add
    with client_of(copied, rate=0, seconds=0.5) as client:
        monkeypatch.setattr(Project, "add", lambda self, *a, **k: (time.sleep(1.0), add(self, *a, **k))[1])
        answer = client.post("/api/images", files=[("images", ("a.png", png("rings", 1)))])
        assert answer.status_code == 201
        assert answer.json()["total"] == len(client.app.state.served.project) == 49


def test_read_only(client):
    answer = client.post("/api/images", **upload(("a.png", png("rings", 1))))
    assert answer.status_code == 403
    assert "read-only" in answer.json()["error"]
    assert client.delete("/api/images/1").status_code == 403


def test_while_another_program_writes(writing, copied):
    with Project.open(copied, write=True) as other:
        answer = writing.post("/api/images", **upload(("a.png", png("rings", 1))))
        assert answer.status_code == 409
        assert answer.json()["error"]
        other.remove([int(other.ids[0])])
    writing.app.state.served.project.refresh()
    assert writing.get("/health").json()["images"] == 47


def test_an_empty_project(copied):
    with Project.open(copied, write=True) as project:
        project.remove(project.ids)
    with client_of(copied, rate=0) as client:
        assert client.get("/api/project").json()["total"] == 0
        code = {"query": {"code": "000000"}}
        assert client.post("/api/search", json=code).status_code == 422
        assert client.post("/api/classify", json=code).status_code == 422
        assert client.get("/api/bits/0").json()["positive"] == []
        assert client.post("/api/images", **upload(("a.png", png("rings", 1)), label="rings")).status_code == 201
        found = client.post("/api/search/image", files={"image": png("rings", 1)}).json()["matches"]
        assert [match["label"] for match in found] == ["rings"]


def test_many_read_while_one_writes(writing):
    """Searches and classifications never fail while images are added and removed."""
    failures, counts, stop = [], [], threading.Event()

    def read(kind, how):
        while not stop.is_set():
            found = writing.post("/api/search/image", params={"how": how}, files={"image": png(kind, 300)})
            classified = writing.post("/api/classify", json={"query": {"id": 1}})
            if found.status_code != 200 or classified.status_code != 200:
                failures.append((found.text, classified.text))
                return
            counts.append((how, found.json()["searched"]))

    readers = [
        threading.Thread(target=read, args=(kind, how))
        for kind, how in zip(KINDS, ["weighted", "plain", "raw", "raw"])
    ]
    for reader in readers:
        reader.start()
    try:
        for i in range(6):
            picture = (f"{i}.png", png("spots", 400 + i))
            assert writing.post("/api/images", **upload(picture, label="spots")).status_code == 201
        assert writing.delete("/api/images/5").status_code == 200
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert failures == []
    assert len(counts) >= 4
    assert writing.get("/health").json()["images"] == 48 + 6 - 1


def test_a_match_that_is_removed_before_its_record_is_read_is_replaced(writing, monkeypatch):
    calls, records = [], ServedProject.records

    def without_the_first(self, ids):
        calls.append(len(ids))
        return records(self, ids[1:] if len(calls) < 3 else ids)

    monkeypatch.setattr(ServedProject, "records", without_the_first)
    found = writing.post("/api/search", json={"query": {"id": 1}, "k": 7}).json()
    assert len(found["matches"]) == 7
    assert calls == [7, 7, 7]


def test_images_of_a_class_and_of_a_part(client, project):
    rings = client.get("/api/images?label=rings&count=50").json()
    assert rings["total"] == PER_CLASS
    assert [image["id"] for image in rings["images"]] == project.ids_of("rings").tolist()
    held = client.get("/api/images?part=held-out").json()
    assert held["total"] == project.last_fit["images"]["held-out"] == len(held["images"])
    assert {image["part"] for image in held["images"]} == {"held-out"}
    both = client.get("/api/images?part=held-out&label=rings").json()["images"]
    assert both == [image for image in held["images"] if image["label"] == "rings"]
    assert client.get("/api/images?unlabelled=true").json() == {"total": 0, "images": []}
    assert client.get("/api/images?unlabelled=true&label=rings").status_code == 422
    assert client.get("/api/images?part=pending").status_code == 422
    counts = client.get("/api/classes").json()
    assert counts == [{"label": kind, "images": PER_CLASS} for kind in KINDS]


def test_original_files(client, project, fitted, tmp_path):
    id = int(project.ids[0])
    answer = client.get(f"/api/images/{id}/file")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.content == Path(project.record(id).path).read_bytes()
    assert client.get("/api/images/9999/file").status_code == 404
    part = client.get(f"/api/images/{id}/file", headers={"range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, answer.content[:4])  # large files are sent in parts


def test_original_files_that_are_missing_or_not_images(copied, fitted):
    with Project.open(copied) as project:
        a, b, c = (project.record(int(id)) for id in project.ids[:3])
    held = Path(a.path).read_bytes(), Path(b.path).read_bytes()
    with client_of(copied, rate=0) as client:
        added = client.post("/api/images", files=[("images", ("x.png", png("rings", 901)))]).json()["images"][0]["id"]
        assert client.get(f"/api/images/{added}/file").status_code == 404  # it never had a file
        try:
            Path(a.path).unlink()
            Path(b.path).write_text("secret")
            assert client.get(f"/api/images/{a.id}/file").status_code == 404
            refused = client.get(f"/api/images/{b.id}/file")
            assert refused.status_code == 415
            assert "secret" not in refused.text
        finally:
            Path(a.path).write_bytes(held[0])
            Path(b.path).write_bytes(held[1])
        assert client.get(f"/api/images/{c.id}/file").status_code == 200


def test_relabel_through_the_service(writing, client):
    ids = [image["id"] for image in writing.get("/api/images?label=rings&count=2").json()["images"]]
    answer = writing.post("/api/images/labels", json={"ids": ids, "label": "ringlets"})
    assert answer.status_code == 200
    assert {image["label"] for image in answer.json()["images"]} == {"ringlets"}
    assert answer.json()["unlearned"] == 2
    assert "ringlets" in writing.get("/api/project").json()["classes"]
    found = writing.post("/api/search", json={"query": {"id": ids[0]}, "label": "ringlets"}).json()["matches"]
    assert [match["id"] for match in found] == [ids[1]]
    writing.post("/api/images/labels", json={"ids": ids[:1], "label": None})
    assert writing.get("/api/images?unlabelled=true").json()["total"] == 1
    assert writing.post("/api/images/labels", json={"ids": [9999], "label": "x"}).status_code == 404
    assert writing.post("/api/images/labels", json={"ids": ids, "label": "a\nb"}).status_code == 422
    assert client.post("/api/images/labels", json={"ids": ids, "label": "x"}).status_code == 403  # read-only


def test_an_error_after_the_commit_says_so(writing, monkeypatch):
    def add(*arguments, **options):
        error = OSError(5, "Input/output error", "/secret/path")
        error.add_note("the commit took place before this error: 1 images were added")
        raise error

    monkeypatch.setattr(Project, "add", add)
    answer = writing.post("/api/images", **upload(("a.png", png("rings", 1))))
    assert answer.status_code == 500
    assert "the commit took place before this error" in answer.json()["error"]
    assert "secret" not in answer.text
