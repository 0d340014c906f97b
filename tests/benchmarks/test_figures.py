"""Every figure of the pages has a source, and none is older than the defaults it speaks of."""

import json
import re

import pytest

from benchmarks import figures
from cbid import CBID
from cbid.paper import raw

PAGE = """# Title

Nothing measured.

## Speed

It is 3.4 times as fast.{}

## Settings

`n_bits` is 64.
"""


def test_a_figure_without_a_source_is_found():
    assert figures.without_source(PAGE.format("")) == ["## Speed"]
    for source in ("", " (`python -m benchmarks.search_speed`)", "<!-- source: setting -->", " `cbid reproduce knn`"):
        assert bool(figures.without_source(PAGE.format(source))) == (source == "")


def test_a_source_at_the_head_of_a_page_serves_all_its_sections():
    text = PAGE.format("").replace("Nothing measured.", "Written by `python -m benchmarks.report`.")
    assert figures.without_source(text) == []


def test_what_looks_measured():
    text = "92.4 % of .931 in 12 ms, +7.1 points, 5.1 times as fast; Python 3.11 and 64 bits\n```\n1.234\n```"
    (section,) = figures.sections(text)
    assert figures.figures_of(section) == ["92.4 %", ".931", "12 ms", "+7.1 points", "5.1 times as", "3.11"]


def test_raw_values_behind_a_figure():
    found = dict(figures.paths_to({"a": [0.92, 0.93], "b": {"c": 92.4}}, "92.5 %"))
    assert list(found) == ["100 * mean over .a"]
    seeds = [{"seed": s, "scores": {"16": [v, 0.1]}} for s, v in enumerate((0.7, 0.8))]
    assert list(dict(figures.paths_to(seeds, ".750"))) == ["mean over .scores.16[0]"]
    assert list(dict(figures.paths_to({"b": {"c": 92.44}}, "92.4"))) == [".b.c"]
    assert list(dict(figures.paths_to({"a": [0.1, 0.3, 0.5]}, ".163"))) == ["deviation over .a"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project with one raw file of today's defaults."""
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "ages.json").write_text("{}")
    (results / "x.json").write_text(json.dumps({"defaults": raw.defaults_fingerprint(), "results": 1}))
    for name, value in {"ROOT": tmp_path, "FOLDER": results, "AGES": results / "ages.json"}.items():
        monkeypatch.setattr(figures, name, value)
    monkeypatch.setattr(figures, "EVIDENCE", tmp_path / "docs" / "evidence")
    yield results
    raw.defaults_fingerprint.cache_clear()


def test_figures_chosen_at_random_are_recomputed(folder, monkeypatch, capsys):
    """Of the two measured figures one is in the raw file; the setting is never chosen."""
    docs = folder.parent.parent / "docs"
    docs.mkdir()
    (folder.parent.parent / "README.md").write_text("# Title\n\n<!-- source: setting -->\n\n.123\n")
    (docs / "page.md").write_text("# Page\n\n`benchmarks/x.py`: .250 and .750\n")
    (folder / "x.json").write_text(json.dumps({"results": [0.2, 0.3]}))
    monkeypatch.setattr(figures, "generated", dict)
    assert figures.measured() == [("docs/page.md", ".250"), ("docs/page.md", ".750")]
    assert figures.main(["--sample", "5"]) == 1
    shown = capsys.readouterr().out
    assert "mean over .results = 0.25" in shown
    assert shown.endswith("1 of 2 found\n")
    (docs / "page.md").write_text("# Page\n\n`benchmarks/x.py`: .250\n")
    assert figures.main(["--sample"]) == 0


def change_a_default(monkeypatch, of):
    raw.defaults_fingerprint.cache_clear()
    if of == "parameter":
        known = CBID.get_params
        monkeypatch.setattr(CBID, "get_params", lambda self, deep=True: {**known(self, deep), "tol": 0.5})
    else:
        monkeypatch.setattr("cbid.coders.large_margin._NU", 0.2)


@pytest.mark.parametrize("of", ["parameter", "constant"])
def test_figures_are_stale_when_a_default_changes(folder, monkeypatch, of):
    assert figures.stale() == {}
    old = raw.defaults_fingerprint()
    change_a_default(monkeypatch, of)
    assert raw.defaults_fingerprint() != old
    assert list(figures.stale()) == ["benchmarks/results/x.json"]
    listed = {"benchmarks/results/x.json": {"made": "2026-11-18", "defaults": "earlier", "fingerprints": [old]}}
    (folder / "ages.json").write_text(json.dumps(listed))
    assert figures.stale() == {}  # listed with its date


def test_lines_without_a_fingerprint_are_stale_unless_listed(folder):
    (folder / "y.jsonl").write_text('{"a": 1}\n')
    assert list(figures.stale()) == ["benchmarks/results/y.jsonl"]


def test_the_text_of_readme_about_its_table():
    """Codes of 8 bytes and more are above the vectors, and nothing else is bold."""
    text = (figures.ROOT / "README.md").read_text()
    assert "codes of 8 bytes and more\nclassify better than the vectors" in text
    rows = re.findall(r"^\| .* \| (\d+ bytes: [\d.]+%) \| (.*) \|$", text, re.M)
    assert len(rows) >= 3
    for vectors, codes in rows:
        least = float(vectors.split(": ")[1].rstrip("%"))
        for size, bold, accuracy in re.findall(r"(\d+) bytes: (\**)([\d.]+)%", codes):
            assert float(accuracy) > least or (int(size) < 8 and not bold), (vectors, codes)


# Long, so that the everyday tests of a change to the learner do not wait for a rerun of its figures.


@pytest.mark.long
@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.name)
def test_figures_of_the_pages_have_a_source(page):
    assert figures.without_source(page.read_text()) == []


@pytest.mark.long
@pytest.mark.parametrize("page", figures.generated())
def test_generated_pages_are_what_the_raw_files_give(page):
    assert figures.show(page, None) == 0, f"python -m benchmarks figure {page}"


@pytest.mark.long
def test_no_figure_is_older_than_the_defaults():
    """Rerun what is named here, or accept it with its date: python -m benchmarks figure --list-older."""
    assert figures.stale() == {}
