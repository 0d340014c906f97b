"""``cbid duplicates``: resized and recompressed copies, the page, and copies moved or linked."""

import json

import numpy as np
import pytest
from PIL import Image

from cbid.cli import run


@pytest.fixture
def folder(tmp_path):
    """Three different images; the first also smaller, the second also as JPEG; a plain and a damaged one."""
    path = tmp_path / "photos"
    (path / "old").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(3):
        small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        small.resize((160, 120), Image.Resampling.BICUBIC).save(path / f"{i}.png")
    with Image.open(path / "0.png") as image:
        image.resize((100, 75)).save(path / "old" / "smaller.png")
    with Image.open(path / "1.png") as image:
        image.save(path / "old" / "1.jpg", quality=60)
    Image.new("RGB", (40, 40)).save(path / "black.png")
    (path / "torn.jpg").write_bytes(b"\xff\xd8\xff torn")
    return path


GROUPS = [["0.png", "old/smaller.png"], ["1.png", "old/1.jpg"]]


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_groups_page_and_table(folder, tmp_path, capsys):
    before = files(folder)
    page = tmp_path / "page.html"
    assert run(["duplicates", str(folder), "--json", "--html", str(page)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"n_images": 5, "groups": GROUPS}
    assert "torn.jpg" in err
    assert "black.png" in err
    assert page.read_text().count("<img") == 4
    assert run(["duplicates", str(folder)]) == 0
    assert "5 images, 2 groups, 2 copies" in capsys.readouterr().out
    assert files(folder) == before


def test_copies_are_moved_or_linked_and_nothing_is_lost(folder, tmp_path, capsys):
    before = files(folder)
    linked, moved = tmp_path / "linked", tmp_path / "moved"
    assert run(["duplicates", str(folder), "--link", str(linked)]) == 0
    assert sorted(p.resolve().relative_to(folder.resolve()).as_posix() for p in linked.glob("*/*")) == sorted(
        name for group in GROUPS for name in group
    )
    assert files(folder) == before
    assert run(["duplicates", str(folder), "--move", str(moved)]) == 0
    assert set(files(moved)) == {"old/smaller.png", "old/1.jpg"}
    assert files(folder) | files(moved) == before
    capsys.readouterr()
    assert run(["duplicates", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == []


def test_links_show_where_moved_copies_are(folder, tmp_path, capsys):
    before = files(folder)
    linked, moved = tmp_path / "linked", tmp_path / "moved"
    assert run(["duplicates", str(folder), "--move", str(moved), "--link", str(linked), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["moved"] == [str(moved / group[1]) for group in GROUPS]
    shown = [p.resolve() for p in sorted(linked.glob("*/*"))]
    assert shown == [(place / name).resolve() for group in GROUPS for place, name in zip((folder, moved), group)]
    assert all(p.is_file() for p in shown)
    assert files(folder) | files(moved) == before


def test_links_and_repeated_names_are_no_copies(folder, tmp_path, capsys):
    """Moving the only file behind two names would lose it from its place."""
    (folder / "-first.png").symlink_to("2.png")
    before = files(folder)
    moved = tmp_path / "moved"
    assert run(["duplicates", str(folder), "--json", "--move", str(moved)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["groups"] == GROUPS
    assert "-first.png: a link to another of the images" in err
    assert set(files(moved)) == {"old/smaller.png", "old/1.jpg"}
    assert files(folder) | files(moved) == before
    listed = tmp_path / "list.txt"
    listed.write_text(f"photos/2.png\nphotos/../photos/2.png\n{folder}/2.png\n")
    assert run(["duplicates", str(listed), "--json", "--move", str(tmp_path / "other")]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"n_images": 1, "groups": [], "moved": []}
    assert err.count("listed twice") == 2
    assert (folder / "2.png").is_file()


def test_a_link_that_is_moved_leads_to_its_file(folder, tmp_path, capsys):
    store = tmp_path / "store"
    store.mkdir()
    (folder / "old" / "1.jpg").rename(store / "1.jpg")
    (folder / "old" / "1.jpg").symlink_to("../../store/1.jpg")
    assert run(["duplicates", str(folder), "--json", "--move", str(tmp_path / "deep" / "moved")]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == GROUPS
    link = tmp_path / "deep" / "moved" / "old" / "1.jpg"
    assert link.is_symlink()
    assert link.samefile(store / "1.jpg")
    assert not (folder / "old" / "1.jpg").is_symlink()


def test_pages_and_folders_that_are_refused_before_the_work(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cbid.descriptors.describe", None)
    before = files(folder)
    for options, message in (
        (["--html", str(tmp_path / "none" / "page.html")], "in a folder that exists"),
        (["--html", str(tmp_path)], "expected a file"),
        (["--html", str(folder / "0.png")], "is one of the images"),
        (["--move", str(tmp_path / "a"), "--link", str(tmp_path / "a")], "expected two folders"),
        (["--move", str(tmp_path / "a" / "b"), "--link", str(tmp_path / "a")], "expected two folders"),
    ):
        assert run(["duplicates", str(folder), *options]) == 1
        assert message in capsys.readouterr().err
    assert files(folder) == before


@pytest.mark.parametrize("option", ["--move", "--link"])
def test_folders_that_are_refused(folder, option, capsys):
    before = files(folder)
    for target in (folder / "inside", folder.parent):
        assert run(["duplicates", str(folder), option, str(target)]) == 1
        assert option in capsys.readouterr().err
    assert files(folder) == before
