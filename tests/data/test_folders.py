"""Folders of images: classes, order, links, and everything that can be wrong with them."""

import os
import subprocess

import numpy as np
import pytest

from cbid.data import ImageError, ImageFolder
from tests.data.pictures import encoded, pgm, picture, write_tree


@pytest.fixture
def root(tmp_path):
    return write_tree(
        tmp_path / "root",
        {
            "dog/2.pgm": pgm(2),
            "dog/10.PGM": pgm(10),
            "cat/deep/er/1.pgm": pgm(1),
            "cat/0.pgm": pgm(0),
            "cat/notes.txt": b"not an image",
            "cat/.hidden.pgm": pgm(99),
            ".git/objects/1.pgm": pgm(99),
        },
    )


def test_classes_names_and_order(root):
    images = ImageFolder(root)
    assert list(images.names) == ["cat/0.pgm", "cat/deep/er/1.pgm", "dog/10.PGM", "dog/2.pgm"]
    assert images.classes.tolist() == ["cat", "dog"]
    assert images.labels.tolist() == [0, 0, 1, 1]
    assert [image[0, 0] for image in images] == [0, 1, 10, 2]
    assert images.path(3) == root / "dog" / "2.pgm"
    assert images.problems == []
    assert repr(images) == "<ImageFolder: 4 images, 2 classes>"


def test_a_part_of_a_set_is_a_set(root):
    images = ImageFolder(root)
    some = images[[3, 0]]
    assert list(some.names) == ["dog/2.pgm", "cat/0.pgm"]
    assert some.labels.tolist() == [1, 0]
    assert some[0][0, 0] == 2
    assert list(images[1:3].names) == ["cat/deep/er/1.pgm", "dog/10.PGM"]
    assert list(images[images.labels == 1].names) == ["dog/10.PGM", "dog/2.pgm"]
    assert images[-1][0, 0] == 2
    with pytest.raises(IndexError):
        images[4]


def test_a_flat_folder_has_no_labels(tmp_path):
    write_tree(tmp_path, {"b.pgm": pgm(1), "a.pgm": pgm(0)})
    images = ImageFolder(tmp_path)
    assert list(images.names) == ["a.pgm", "b.pgm"]
    assert images.labels is None
    assert images.classes is None
    with pytest.raises(ImageError, match="holds no images"):
        ImageFolder(tmp_path, labelled=True)


def test_unlabelled_takes_every_image(root):
    write_tree(root, {"top.pgm": pgm(7)})
    images = ImageFolder(root, labelled=False)
    assert list(images.names) == ["top.pgm", "cat/0.pgm", "cat/deep/er/1.pgm", "dog/10.PGM", "dog/2.pgm"]
    assert images.labels is None


def test_nothing_there(tmp_path):
    with pytest.raises(ImageError, match=r"holds no images \(files with suffix .avif .bmp .gif"):
        ImageFolder(tmp_path)
    (tmp_path / "cat").mkdir()
    (tmp_path / "readme").write_text("")
    with pytest.raises(ImageError, match="1 other files; cat: a folder without images"):
        ImageFolder(tmp_path)
    with pytest.raises(FileNotFoundError):
        ImageFolder(tmp_path / "nothing")
    with pytest.raises(NotADirectoryError):
        ImageFolder(tmp_path / "readme")


def test_problems_are_listed_by_name_or_raise(root):
    (root / "empty").mkdir()
    write_tree(root, {"stray.pgm": pgm(3)})
    os.symlink("nowhere.pgm", root / "dog" / "broken.pgm")
    os.symlink("self.pgm", root / "dog" / "self.pgm")
    os.mkfifo(root / "dog" / "pipe.pgm")
    images = ImageFolder(root, on_error="skip")
    assert len(images) == 4
    assert dict(images.problems) == {
        "dog/broken.pgm": "a broken link to nowhere.pgm",
        "dog/pipe.pgm": "not a regular file",
        "dog/self.pgm": "a loop of links",
        "empty": "a folder without images",
        "stray.pgm": "an image next to the class folders",
    }
    with pytest.raises(ImageError, match=r"dog/broken.pgm: a broken link .*on_error='skip' skips them"):
        ImageFolder(root)


def test_links_are_followed_once(root, tmp_path):
    """A link to a file or folder elsewhere is followed; one that leads back, above or twice is reported."""
    write_tree(tmp_path, {"elsewhere/e.pgm": pgm(50)})
    os.symlink(tmp_path / "elsewhere", root / "cat" / "linked")
    os.symlink(tmp_path / "elsewhere" / "e.pgm", root / "dog" / "e.pgm")
    assert "cat/linked/e.pgm" in list(ImageFolder(root).names)
    assert "dog/e.pgm" in list(ImageFolder(root).names)
    os.symlink(tmp_path / "elsewhere", root / "bird")  # a whole class may be a link, in another class too
    assert ImageFolder(root).classes.tolist() == ["bird", "cat", "dog"]
    os.symlink("..", root / "cat" / "deep" / "up")
    os.symlink("/", root / "cat" / "everything")
    os.symlink(root, root / "dog" / "again")
    os.symlink(tmp_path / "elsewhere", root / "cat" / "twice")
    images = ImageFolder(root, on_error="skip")
    assert len(images) == 7
    assert {name: reason.split(":")[0] for name, reason in images.problems} == {
        "cat/deep/up": "a loop of links, or a second link to the same folder",
        "cat/everything": "a loop of links",
        "cat/twice": "a loop of links, or a second link to the same folder",
        "dog/again": "a loop of links",
    }


def test_many_links_do_not_multiply(tmp_path):
    """Thirty folders, each with two links to the next: a billion paths, thirty folders."""
    for i in range(30):
        (tmp_path / f"store/{i}").mkdir(parents=True)
        if i:
            for twin in "ab":
                os.symlink(tmp_path / f"store/{i}", tmp_path / f"store/{i - 1}/{twin}")
    write_tree(tmp_path, {"store/29/x.pgm": pgm(1)})
    (tmp_path / "root").mkdir()
    os.symlink(tmp_path / "store/0", tmp_path / "root" / "class")
    images = ImageFolder(tmp_path / "root", on_error="skip")
    assert len(images) == 1
    assert len(images.problems) == 29


def test_deep_folders(tmp_path):
    """Deeper than Python's stack, and at the end deeper than a path may be long: reported, not fatal."""
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1100):
            os.mkdir("ddd")
            os.chdir("ddd")
        with open("x.pgm", "wb") as file:
            file.write(pgm(1))
    finally:
        os.chdir(here)
    write_tree(tmp_path, {"class/a.pgm": pgm(0)})
    try:
        images = ImageFolder(tmp_path, on_error="skip")
        assert list(images.names) == ["class/a.pgm"]
        assert any("File name too long" in reason for _, reason in images.problems)
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "ddd"], check=True)  # too deep for Python's own


@pytest.mark.parametrize("name", ["猫", "Übung", "пёс", "e\u0301", "a b\tc", "🐈\u200d⬛", "-rf", "'\"", "new\nline"])
def test_names_in_any_script(tmp_path, name):
    write_tree(tmp_path, {f"{name}/{name}.pgm": pgm(5)})
    images = ImageFolder(tmp_path)
    assert images.classes.tolist() == [name]
    assert images.names[0] == f"{name}/{name}.pgm"
    assert images[0][0, 0] == 5


def test_names_that_are_no_unicode(tmp_path):
    os.makedirs(os.fsencode(tmp_path) + b"/caf\xe9")
    with open(os.fsencode(tmp_path) + b"/caf\xe9/\xff.pgm", "wb") as file:
        file.write(pgm(5))
    images = ImageFolder(tmp_path)
    assert images.names[0] == "caf\\xe9/\\xff.pgm"
    assert images.classes.tolist() == ["caf\\xe9"]
    assert images[0][0, 0] == 5
    assert os.fsencode(images.path(0)).endswith(b"caf\xe9/\xff.pgm")


def test_a_folder_that_may_not_be_read(root, monkeypatch):
    real = os.scandir

    def scandir(path):
        if path.endswith(b"cat/deep"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root, as tests may run, may read everything
    images = ImageFolder(root, on_error="skip")
    assert images.problems == [("cat/deep", "Permission denied")]
    assert list(images.names) == ["cat/0.pgm", "dog/10.PGM", "dog/2.pgm"]


def test_an_image_that_cannot_be_read_is_named_when_it_is_read(tmp_path):
    write_tree(tmp_path, {"a/1.jpg": b"text", "a/2.jpg": b"", "a/3.jpg": encoded(picture(), "JPEG")[:500]})
    images = ImageFolder(tmp_path)
    for i, reason in enumerate(("one of JPEG", "it is empty", "(?i:truncated)")):
        with pytest.raises(ImageError, match=f"a/{i + 1}.jpg: .*{reason}"):
            images.read(i)
    os.remove(images.path(0))
    with pytest.raises(ImageError, match=r"a/1.jpg: No such file"):
        images[0]


def test_the_same_content_has_the_same_digest_under_any_name(root):
    write_tree(root, {"dog/copy.pgm": pgm(0)})
    images = ImageFolder(root)
    digests = [images.digest(i) for i in range(len(images))]
    assert len(set(digests)) == 4
    assert digests[list(images.names).index("dog/copy.pgm")] == digests[0]


def test_the_limit_of_pixels_is_the_sets(tmp_path):
    write_tree(tmp_path, {"a/1.pgm": pgm(0, 10, 10)})
    with pytest.raises(ImageError, match="10 x 10 pixels: expected at most 99"):
        ImageFolder(tmp_path, max_pixels=99)[0]
    assert np.shape(ImageFolder(tmp_path, max_pixels=100)[0]) == (10, 10)
    with pytest.raises(ImageError, match="at most 99"):
        ImageFolder(tmp_path, max_pixels=99)[:1][0]


def test_nested_folders_as_a_tree(root):
    images = ImageFolder(root, tree=True)
    assert images.classes.tolist() == ["cat", "cat/deep/er", "dog"]
    assert images.labels.tolist() == [0, 1, 2, 2]
    assert images.take([1]).labels.tolist() == [1]
    with pytest.raises(ValueError, match="tree=True"):
        ImageFolder(root, tree=True, labelled=False)


def test_a_folder_without_class_folders_is_no_tree(tmp_path):
    root = write_tree(tmp_path, {"1.pgm": pgm(1), "2.pgm": pgm(2)})
    assert ImageFolder(root, tree=True).labels is None
