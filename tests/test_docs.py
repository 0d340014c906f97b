"""The pages of the documentation: their code runs, their pictures and links exist."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")])
SELF_CONTAINED = ["embeddings", "choosing_bits"]
LONGEST_EXAMPLE = 40


def code_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("name", SELF_CONTAINED)
def test_the_code_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "docs"}
    blocks = code_blocks(DOCS / f"{name}.md")
    assert blocks
    for block in blocks:
        exec(block, scope)
        for expression, value in re.findall(r"^(.*\.shape)  # (\(.*?\))", block, re.M):
            assert str(eval(expression, scope)) == value


@pytest.mark.parametrize("number", range(3), ids=["coder", "descriptor", "data set"])
def test_contributing_example(number, tmp_path, monkeypatch):
    """The guides to adding a part are short, and what they show works and checks itself."""
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks(ROOT / "CONTRIBUTING.md")
    assert len(blocks) == 3
    block = blocks[number]
    assert len(block.splitlines()) <= LONGEST_EXAMPLE
    assert "\nassert " in block
    exec(block, {"__name__": "contributing"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#.*?)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_citation_names_this_version_and_changelog_has_it():
    from cbid import __version__

    released = __version__.split(".dev")[0]
    assert re.search(rf"^version: {re.escape(released)}$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert f"## [{released}]" in (ROOT / "CHANGELOG.md").read_text()


def test_format_page_lists_every_version():
    """Versions on the page are those in the code."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    declared = dict(re.findall(r'FileKind\(\s*format="(cbid-\w+)", version=(\d+)', source))
    listed = dict(re.findall(r"\| `(cbid-\w+)` \| (\d+) \|", (DOCS / "file_formats.md").read_text()))
    assert declared
    assert declared.items() <= listed.items()
    for name in ("codes.index/manifest.json", "photos.cbid/project.json"):
        saved = json.loads((ROOT / "tests/storage/samples_0_1_0" / name).read_text())
        saved = saved.get("manifest", saved)
        assert listed[saved["format"]] == str(saved["version"])
