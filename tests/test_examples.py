"""Every script of examples/ runs as its first lines say, and its picture is on the page of examples."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SHORT = {"digits"}
NEEDS = {"texts": "wordllama"}


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem not in SHORT)) for path in SCRIPTS],
)
def test_it_runs_and_draws(script, tmp_path):
    pytest.importorskip(NEEDS.get(script.stem, "matplotlib"))
    done = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    with Image.open(tmp_path / f"{script.stem}.png") as picture:
        colours = picture.convert("RGB").resize((100, 100)).getcolors(10_000)
    assert len(colours) > 20  # something was drawn


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_it_is_on_the_page(script):
    page = (ROOT / "docs" / "examples.md").read_text()
    assert f"../examples/{script.name}" in page
    assert f"pictures/example_{script.stem}.png" in page
    assert (ROOT / "docs" / "pictures" / f"example_{script.stem}.png").exists()
