"""The pages of the documentation: their code runs, their pictures and links are there."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.glob("*.md"))
SELF_CONTAINED = ["embeddings", "choosing_bits"]


@pytest.mark.parametrize("name", SELF_CONTAINED)
def test_the_code_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "docs"}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(block, scope)
        for expression, value in re.findall(r"^(.*\.shape)  # (\(.*?\))", block, re.M):
            assert str(eval(expression, scope)) == value


@pytest.mark.parametrize("page", [*PAGES, DOCS.parent / "README.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#.*?)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
