"""docs/images.md: its code runs, its names are known, its figures are those measured."""

import json
import re
from pathlib import Path

from cbid.paper.sets import CATALOGUE
from tests.data.pictures import encoded, picture, write_tree

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "images.md").read_text()


def test_the_code_runs(tmp_path, monkeypatch):
    write_tree(
        tmp_path / "photos", {f"{c}/{i}.png": encoded(picture(seed=i), "PNG") for c in ("cat", "dog") for i in (1, 2)}
    )
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "docs"}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.S):
        exec(block, scope)
    assert scope["found"].values.shape == (4, 1)
    assert scope["found"].failures == []


def test_every_set_and_protocol_is_documented():
    rows = {
        tuple(re.findall(r"`([\w-]+)`", row.split("|")[1])): row.split("|")[3]
        for row in re.findall(r"^\| `.*$", TEXT[TEXT.index("| name | set |") :], re.M)
    }
    assert [name for names in rows for name in names] == list(CATALOGUE)
    for names, protocols in rows.items():
        told = re.findall(r"[\w-]+", protocols)
        assert sorted(set(told)) == sorted({p for name in names for p in CATALOGUE[name].protocols})


def test_the_figures_are_those_measured():
    found = json.loads((ROOT / "benchmarks" / "results" / "describe_folder.json").read_text())["results"]
    assert found["files"] == 10_000
    assert found["values are equal"]
    peaks = [round(found[name]["peak MB"]) for name in ("a tenth of the files", "all files")]
    assert f"libraries included | {peaks[0]} MB | {peaks[1]} MB |" in TEXT
    killed = found["killed"]
    assert f"{killed['kills']} times kill -9" in TEXT
    assert f"at most {max(killed['lost images'])} images had to be described again" in TEXT
    assert max(killed["lost images"]) <= 256 + 8
