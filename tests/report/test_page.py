"""The report: whole, self-contained, and true to what was measured."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from cbid.project import Project
from cbid.report import write_report
from cbid.report.gallery import gallery
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
    """Elements that must be closed, and everything that a browser would fetch."""

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


def test_it_is_well_formed_and_needs_nothing_else(page):
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


def test_it_says_what_was_measured(made, page):
    with Project.open(made / "p.cbid") as project:
        for entry in project.evaluation["codes"]:
            assert f"<td>{entry['n_bits']} bits</td><td>{entry['bytes']}</td>" in page
            assert f"<td>{entry['weighted']['accuracy']:.1%}</td>" in page
        assert "30 images of 3 classes. Codes of 24 bits were learned from 24 of them; 6 were held out" in page
        assert str(project.settings["source"]) in page
    for part in ("cbid 0.", "Python 3.", "numpy ", "RawPixels(", "CBID("):
        assert part in page


def test_names_are_escaped(page):
    assert "red &amp; &lt;hot&gt;" in page
    assert "<hot>" not in page


def test_errors_are_framed(made, page):
    """As many frames as there are matches of another class."""
    with Project.open(made / "p.cbid") as project:
        shown = gallery(project, 6)
        wrong = 0
        for entry in shown:
            assert len(entry.matches) == 10
            assert entry.query.id not in [match.id for match in entry.matches]
            found = project.search(project.code(entry.query.id), 10, exclude=entry.query.id)
            np.testing.assert_allclose(entry.distances, found.distances[0])
            wrong += sum(match.label != entry.query.label for match in entry.matches)
    reader = Reader()
    reader.feed(page)
    assert reader.classes.count("wrong") == wrong
    assert reader.classes.count("query") == 6


def test_the_same_project_gives_the_same_report(made, page):
    with Project.open(made / "p.cbid") as project:
        write_report(project, made / "again.html", queries=6)
    assert (made / "again.html").read_text() == page


def test_without_labels_or_pictures(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    np.save(tmp_path / "v.npy", X)
    with fitted(tmp_path / "p.cbid", tmp_path / "v.npy", n_bits=4, coder="LSH") as project:
        write_report(project, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "The images have no labels" in text
    assert "row 3" in text
    assert "<img" not in text
    assert "wrong" not in text.split("</style>")[1].replace("wrong answers", "")


def test_without_held_out_images(tmp_path):
    images = write_images(tmp_path / "images", n=4)
    with fitted(tmp_path / "p.cbid", images, held_out=0.0, n_bits=8) as project:
        assert project.evaluation["n_queries"] == 0
        write_report(project, tmp_path / "r.html", queries=2)
    assert "No images were held out: nothing was measured." in (tmp_path / "r.html").read_text()
