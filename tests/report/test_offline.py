"""The search page without a server finds in the browser what the project finds."""

import base64
import json
import re
import shutil

import numpy as np
import pytest

from cbid.cli import run
from cbid.data import ImageError
from cbid.project import Project
from cbid.report import offline
from cbid.report.offline import write_offline_page
from tests.project.made import fitted, write_images

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("offline")
    images = write_images(root / "images", n=8, colours=("red", "green", "blue"))
    (images / "red").rename(images / "red <b>&")
    fitted(root / "p.cbid", images).close()
    with Project.open(root / "p.cbid", write=True) as project:
        project.relabel(project.ids_of("red <b>&"), "red </script><b>")
    return root


def test_one_file_or_a_folder(made, tmp_path, monkeypatch):
    with Project.open(made / "p.cbid") as project:
        one = write_offline_page(project, tmp_path / "page.html")
        assert (one.path, one.in_folder) == (tmp_path / "page.html", False)
        text = one.path.read_text()
        assert one.n_bytes == len(text.encode())
        assert text.count("</script>") == 2  # a name cannot end the element
        assert not re.search(r"https?://", text)
        folder = write_offline_page(project, tmp_path / "many.html", max_file_bytes=1000)
        assert (folder.path, folder.in_folder) == (tmp_path / "many" / "index.html", True)
        assert len(list((tmp_path / "many" / "thumbs" / "0").iterdir())) == len(project)
        with pytest.raises(FileExistsError, match="many exists"):
            write_offline_page(project, tmp_path / "many.html", max_file_bytes=1000)
        with pytest.raises(ValueError, match=r"ends in \.html"):
            write_offline_page(project, tmp_path / "page.txt")
        monkeypatch.setattr(offline, "MAX_IMAGES", 10)
        with pytest.raises(ValueError, match="24 images: expected at most 10"):
            write_offline_page(project, tmp_path / "page.html")


def test_thumbnails_are_decoded_in_another_process(made, tmp_path, monkeypatch):
    """A project may be of a stranger, and so are its thumbnails."""
    with Project.open(made / "p.cbid") as project:
        monkeypatch.setattr(project, "thumbnail", lambda id: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
        with pytest.raises(ImageError, match="format is unknown"):
            write_offline_page(project, tmp_path / "page.html")


def test_a_folder_is_written_whole_or_not_at_all(made, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "no space")

    with Project.open(made / "p.cbid") as project:
        monkeypatch.setattr(offline, "_script", full)
        for limit in (1000, 10**9):
            with pytest.raises(OSError, match="no space"):
                write_offline_page(project, tmp_path / "page.html", max_file_bytes=limit)
    assert list(tmp_path.iterdir()) == []


def test_through_the_program(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    project = ["--project", str(made / "p.cbid")]
    assert run(["export", "--page", "out.html", *project]) == 0
    assert "24 images" in capsys.readouterr().out
    assert (tmp_path / "out.html").exists()
    assert run(["export", "--page", "out.html", "--to", "npy", *project]) == 2
    assert run(["export", *project]) == 2


def test_several_labels_of_an_image(made, tmp_path):
    with Project.open(shutil.copytree(made / "p.cbid", tmp_path / "p.cbid"), write=True) as project:
        project.relabel(project.ids_of("green"), ["grass", "green"])
        project.relabel(project.ids_of("blue")[:1], None)
        text = write_offline_page(project, tmp_path / "page.html").path.read_text()
        data = json.loads(re.search(r"window\.CBID=(.*?);</script>", text)[1])
        labels = np.frombuffer(base64.b64decode(data["labels"]), "<i4").tolist()
        names = [[data["classes"][c] for c in ([*data["label_sets"], []])[place]] for place in labels]
        assert names == [project.record(id).labels for id in project.ids]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the page is not tested in a browser")
def test_in_the_browser(made, tmp_path):
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect, sync_playwright

    from tests.web.test_page import FLAGS, PHONE

    with Project.open(made / "p.cbid") as project, sync_playwright() as playwright:
        one = write_offline_page(project, tmp_path / "page.html").path
        many = write_offline_page(project, tmp_path / "many.html", max_file_bytes=1000).path
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        errors, asked = [], []
        for path in (one, many):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.on("console", lambda message: message.type == "error" and errors.append(message.text))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(path.as_uri())
            expect(page.locator(".card")).to_have_count(len(project))
            loaded = page.evaluate(
                "Promise.all([...document.images].map((i) => i.decode())).then(() => document.images.length)"
            )
            assert loaded == len(project)
            id = int(project.ids[3])
            page.click(f".card[title='{project.record(id).name}']")
            expect(page.locator("#query")).to_be_visible()
            for point in (0, 0.3, 1):
                page.locator("#dial").fill(str(round(100 * point)))
                page.locator("#dial").dispatch_event("input")
                places = page.eval_on_selector_all(".card", "cards => cards.map((c) => Number(c.dataset.place))")
                found = project.search(project.code(id), len(project) - 1, exclude=id, likeness=point)
                assert len(places) == len(project) - 1
                distances = dict(zip(found.ids[0].tolist(), found.distances[0].tolist()))
                np.testing.assert_allclose(
                    [distances[int(project.ids[place])] for place in places], found.distances[0], atol=1e-5
                )
            page.select_option("#class", label="green")
            expect(page.locator(".card")).to_have_count(8)
            assert page.locator(".card.other").count() in (0, 8)
            page.fill("#name", "001")
            expect(page.locator(".card")).to_have_count(1)
            assert Axe().run(page).violations_count == 0, Axe().run(page).generate_report()
            page.fill("#name", "")
            page.set_viewport_size(PHONE)
            assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
            page.close()
        browser.close()
        assert errors == []
        assert all(url.startswith(("file:", "data:")) for url in asked)
