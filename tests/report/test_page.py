"""The report of a project is valid HTML, self-contained, and shows what was measured."""

import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from cbid.project import Project
from cbid.report import write_report
from cbid.report.page import choose_examples, confusion_plot, headline, interval
from tests.project.made import fitted, write_images


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    images = write_images(root / "images", n=10, colours=("red", "green", "blue"))
    (images / "red").rename(images / "red & <hot>")
    fitted(root / "p.cbid", images).close()
    return root


@pytest.fixture(scope="module")
def page(made):
    with Project.open(made / "p.cbid") as project:
        write_report(project, made / "report.html", queries=6)
    return (made / "report.html").read_text()


class Reader(HTMLParser):
    """Collect open elements, class names and everything that a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.text, self.classes = [], [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.fetched += [found[name] for name in ("src", "href", "xlink:href", "data") if name in found]
        self.classes += (found.get("class") or "").split()
        if tag not in ("meta", "img", "br", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_page_is_well_formed_and_self_contained(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert all(
        where.startswith(("data:image/jpeg;base64,", "data:image/png;base64,", "#")) for where in reader.fetched
    )
    assert not re.search(r"url\((?!#)|@import|<script", page)
    assert "viewport" in page
    assert page.count("<svg") == 2
    assert page.count("<img") == 6 * 11


def test_page_shows_what_was_measured(made, page):
    with Project.open(made / "p.cbid") as project:
        for entry in project.evaluation["codes"]:
            assert f"<td>{entry['n_bits']} bits</td><td>{entry['bytes']}</td>" in page
            assert f"<td>{entry['weighted']['accuracy']:.1%} (" in page
        assert all(
            text in page for text in ("30 images of 3 classes", "24 bits", "learned from 24", "6 were held out")
        )
        assert str(project.settings["source"]) in page
    for part in ("cbid 0.", "Python 3.", "numpy ", "RawPixels(", "CBID("):
        assert part in page


def test_the_headline():
    """90 of 100: the Wilson interval is 82.6 to 94.5 %, so the larger side is 7 points."""
    assert [round(100 * end, 1) for end in interval(0.9, 100)] == [82.6, 94.5]
    assert interval(1.0, 20)[1] == 1.0
    how = {"accuracy": 0.9, "map": 0.8, "overlap": 0.5}
    measured = {"n_queries": 100, "raw": {"bytes": 5120, "accuracy": 0.7}, "codes": [{"bytes": 16, "weighted": how}]}
    confusion = {"classes": ["cat", "dog", "owl"], "matrix": [[40, 10, 0], [0, 50, 0], [0, 0, 0]]}
    assert headline(measured, confusion) == (
        "16 bytes an image: 90% ± 7 on held-out images, 70% with 5,120-byte vectors; "
        "best class dog (50 of 50 images), worst cat (40 of 50 images)."
    )
    even = {"classes": ["cat", "dog"], "matrix": [[45, 5], [5, 45]]}
    assert headline(measured, even).endswith("5,120-byte vectors; each class 90%.")
    measured["codes"][0]["weighted"] = {**how, "accuracy": 0.99}  # 99 + 4 would be more than all
    assert headline(measured, even).startswith("16 bytes an image: 99% (95–100) on held-out images")
    measured["codes"][0]["weighted"] = {**how, "accuracy": None}
    assert headline(measured, {"classes": [], "matrix": []}) == (
        "16 bytes an image keep 50% of the ten nearest neighbours of 5,120-byte vectors."
    )
    assert "no images were held out" in headline({**measured, "n_queries": 0}, confusion)


def test_the_page_is_readable_in_the_dark_and_has_no_timings(page):
    assert "prefers-color-scheme: dark" in page
    assert "ms per query" not in page
    assert "bytes an image: " in page
    names = {"classes": ["猫の写真", "b"], "matrix": [[3, 1], [0, 4]]}
    assert confusion_plot(names).count("猫の写真") >= 2  # as text, in the fonts of the reader
    formula = {"classes": [r"$\foo$", "b"], "matrix": [[3, 1], [0, 4]]}
    assert confusion_plot(formula).count(r"$\foo$") >= 2
    many = confusion_plot({"classes": [f"c{i}" for i in range(70)], "matrix": np.eye(70, dtype=int).tolist()})
    assert ">c3<" not in many


def test_names_are_escaped(page):
    assert "red &amp; &lt;hot&gt;" in page
    assert "<hot>" not in page


def test_wrong_matches_are_marked(made, page):
    """The page has as many red frames as there are matches of another class."""
    with Project.open(made / "p.cbid") as project:
        shown = choose_examples(project, 6)
        wrong = 0
        for entry in shown:
            assert len(entry.matches) == 10
            assert entry.query.id not in [match.id for match in entry.matches]
            found = project.search(project.code(entry.query.id), 10, exclude=entry.query.id)
            assert sorted(entry.agree) == sorted(found.agree[0].tolist())
            assert f"{entry.agree[0]} of {project.n_bits} bits agree" in page
            wrong += sum(match.label != entry.query.label for match in entry.matches)
    reader = Reader()
    reader.feed(page)
    assert reader.classes.count("wrong") == wrong
    assert reader.classes.count("query") == 6


def test_images_without_a_label_are_neither_right_nor_wrong(made, tmp_path):
    with Project.open(shutil.copytree(made / "p.cbid", tmp_path / "p.cbid"), write=True) as project:
        project.relabel(project.ids_of("green"), None)
        project.relabel(project.ids_of("blue"), ["blue", "cold"])
        examples = choose_examples(project, 30)
        assert {example.query.label for example in examples} >= {"blue, cold"}
        for example in examples:
            own = example.query.label
            assert example.n_wrong == sum(bool(m.label and own) and m.label != own for m in example.matches)


def test_equal_projects_give_equal_reports(made, page):
    with Project.open(made / "p.cbid") as project:
        write_report(project, made / "again.html", queries=6)
    assert (made / "again.html").read_text() == page


def test_report_without_labels_or_images(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    np.save(tmp_path / "v.npy", X)
    with fitted(tmp_path / "p.cbid", tmp_path / "v.npy", n_bits=4, coder="LSH") as project:
        write_report(project, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "row 3" in text
    assert "<img" not in text
    assert 'class="wrong"' not in text


def test_report_without_held_out_images(tmp_path):
    images = write_images(tmp_path / "images", n=4)
    with fitted(tmp_path / "p.cbid", images, held_out=0.0, n_bits=8) as project:
        assert project.evaluation["n_queries"] == 0
        write_report(project, tmp_path / "r.html", queries=2)
    text = (tmp_path / "r.html").read_text()
    assert "Nothing was measured" in text
    assert "<svg" not in text.split("Searches")[0]


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the report is not tested in a browser")
def test_in_the_browser(made, page):
    """On a screen, on a phone and in the dark: accessible, nothing cut off, no error and nothing fetched."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    from tests.web.test_page import DESKTOP, FLAGS, PHONE

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        errors, asked = [], []
        for viewport, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")):
            tab = browser.new_page(viewport=viewport, color_scheme=scheme)
            tab.on("console", lambda message: message.type == "error" and errors.append(message.text))
            tab.on("pageerror", lambda error: errors.append(str(error)))
            tab.on("request", lambda request: asked.append(request.url))
            tab.goto((made / "report.html").as_uri())
            results = Axe().run(tab)
            assert results.violations_count == 0, results.generate_report()
            assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
            table = tab.locator("table").first  # the accuracies, in one line each
            assert table.evaluate("t => Math.max(...[...t.rows].map((r) => r.offsetHeight))") < 50
            tab.close()
        browser.close()
    assert errors == []
    assert all(url.startswith(("file:", "data:")) for url in asked)
