"""The pages of the documentation: their code runs, their pictures and links exist."""

import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

from cbid.project.files import VERSION as PROJECT_VERSION
from cbid.search.manifest import VERSION as INDEX_VERSION

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")])
SELF_CONTAINED = ["embeddings", "integrations", "labels", "metrics", "settings", "stores"]
NEEDED = {"integrations": ["langchain_core", "onnxruntime"], "stores": ["usearch", "lance", "qdrant_client"]}
LINES_BEFORE_PICTURE = 40
LONGEST_EXAMPLE = 40


def code_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("name", SELF_CONTAINED)
def test_the_code_runs(name, tmp_path, monkeypatch):
    for package in NEEDED.get(name, []):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "docs"}
    blocks = code_blocks(DOCS / f"{name}.md")
    assert blocks
    for block in blocks:
        exec(block, scope)
        for expression, value in re.findall(r"^(.*\.shape)  # (\(.*?\))", block, re.M):
            assert str(eval(expression, scope)) == value


def test_readme_example():
    """The first example runs as it is and reaches the accuracy it states."""
    text = (ROOT / "README.md").read_text()
    assert len(text.split("![")[0].splitlines()) <= LINES_BEFORE_PICTURE
    (block,) = code_blocks(ROOT / "README.md")
    scope = {"__name__": "readme"}
    exec(block, scope)
    stated = float(re.search(r"accuracy = .*# about (0\.\d+)", block).group(1))
    assert scope["accuracy"] == pytest.approx(stated, abs=0.02)
    assert scope["matches"].ids.shape == (297, 10)


def test_tutorial_runs_as_written(tmp_path, monkeypatch, capsys):
    """Every block after the installation runs in order, in an empty folder: Python, commands, and the request."""
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from cbid.cli import run
    from cbid.web import ServiceSettings, create_app

    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|console)\n(.*?)```", (DOCS / "tutorial.md").read_text(), re.S)[1:]
    app, seen = None, set()
    for language, block in blocks:
        if language == "python":
            scope = {"__name__": "tutorial"}
            exec(block, scope)
            continue
        for line in re.findall(r"^\$ (.*)", block, re.M):
            program, command, *options = shlex.split(line)
            seen.add(command if program == "cbid" else program)
            if command == "serve":
                app = create_app(Path(*options), ServiceSettings(rate=0, read_only=True))
            elif program == "curl":
                field, path = options[0].split("=@")
                url = options[1].removeprefix("http://127.0.0.1:8000")
                with TestClient(app, base_url="http://127.0.0.1") as client:
                    assert client.get("/").status_code == 200
                    reply = client.post(url, files={field: Path(path).read_bytes()})
                    assert reply.status_code == 200, reply.text
            else:
                assert program == "cbid"
                assert run([command, *options]) == 0, capsys.readouterr().err
    assert {"fit", "search", "classify", "index", "serve", "curl", "report"} <= seen
    assert (tmp_path / "digits.html").exists()
    assert (scope["matches"].labels[:, 0] == list("5282001763")).mean() >= 0.9


def test_architecture_picture_shows_the_layers_of_the_contracts():
    path = DOCS / "pictures" / "architecture.py"
    script = runpy.run_path(str(path))
    drawn = (DOCS / "pictures" / "architecture.svg").read_text()
    assert drawn == script["draw"](), f"run python {path.relative_to(ROOT)}"
    assert all(f">{name}</text>" in drawn for row in script["layers"]() for name in row)


def test_architecture_page_names_existing_places():
    text = (DOCS / "architecture.md").read_text()
    places = set(re.findall(r"`(\w+(?:/\w+)+(?:\.py)?/?|\w+/)`", text))
    assert len(places) > 20
    for place in places:
        assert any((root / place).exists() for root in (ROOT, ROOT / "src" / "cbid")), place


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
    assert (listed["cbid-project"], listed["cbid-index"]) == (str(PROJECT_VERSION), str(INDEX_VERSION))
    for name in ("codes.index/manifest.json", "photos.cbid/project.json"):
        saved = json.loads((ROOT / "tests/storage/samples_0_1_0" / name).read_text())
        saved = saved.get("manifest", saved)
        assert saved["version"] <= int(listed[saved["format"]])
