"""docs/program.md: the code runs, the commands and options exist, the figures are the measured ones."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from cbid.cli import run
from cbid.commands.options import accuracy_table
from cbid.project.files import is_project_file
from tests.project.made import picture, write_images

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "program.md").read_text()


def test_the_code_runs(tmp_path, monkeypatch):
    write_images(tmp_path / "photos", n=8)
    Image.fromarray(picture("red", 5)).save(tmp_path / "query.png")
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "docs"}
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    exec(block.replace("n_bits=128", "n_bits=16"), scope)  # few images support few bits
    assert scope["matches"].ids.shape == (1, 10)
    assert len(scope["ids"]) == 1


def test_the_figures_are_those_measured():
    found = json.loads((ROOT / "benchmarks" / "results" / "program_demo.json").read_text())["results"]
    table = accuracy_table(found["evaluation"])
    assert "\n".join(f"    {line}".rstrip() for line in table.splitlines()) in TEXT
    parts = found["parts"]
    prefix = f"{found['images']} images, {found['classes']} classes ("
    assert f"{prefix}{parts['train']} for training, {parts['held-out']} held out)" in TEXT


def lines():
    return re.findall(r"(?:\$ |^    |`)(cbid [a-z]+ ?[^`\n#]*)", TEXT, re.M)


@pytest.mark.parametrize("command", sorted({line.split()[1] for line in lines()} - {"serve"}))
def test_documented_options_exist(capsys, command):
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    options = {
        word for line in lines() if line.split()[1] == command for word in line.split() if word.startswith("-")
    }
    assert all(option in shown for option in options)


def test_every_file_of_a_project_is_documented(made):
    names = {entry.name for entry in made[1].iterdir()} - {"lock"}
    patterns = [re.escape(cell).replace(r"\*", ".*") for cell in re.findall(r"^\| `([\w.*-]+)/?` \|", TEXT, re.M)]
    for name in names:
        assert is_project_file(name)
        assert any(re.fullmatch(pattern, name) for pattern in patterns), name
