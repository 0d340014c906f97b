"""List files: separators, headers, missing files."""

import os

import pytest

from cbid.data import ImageError, ImageList, open_source
from tests.data.pictures import pgm, write_tree


@pytest.fixture
def folder(tmp_path):
    files = {"a.pgm": pgm(1), "b c.pgm": pgm(2), "sub/d,e.pgm": pgm(3), "猫.pgm": pgm(4)}
    return write_tree(tmp_path, files)


def written(folder, text, name="list.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        'a.pgm,x\nb c.pgm,y\n"sub/d,e.pgm",x\n猫.pgm,y\n',
        'path,label\r\na.pgm,x\r\nb c.pgm,y\r\n"sub/d,e.pgm",x\r\n\r\n猫.pgm,y',
        "a.pgm\tx\nb c.pgm\ty\nsub/d,e.pgm\tx\n猫.pgm\ty\n",
        "\ufeffFile\tClass\na.pgm\tx\nb c.pgm\ty\nsub/d,e.pgm\tx\n猫.pgm\ty\n",
        "a.pgm x\nb c.pgm y\nsub/d,e.pgm x\n猫.pgm y\n",
    ],
)
def test_paths_and_labels_however_they_are_separated(folder, text):
    images = ImageList(written(folder, text))
    assert list(images.names) == ["a.pgm", "b c.pgm", "sub/d,e.pgm", "猫.pgm"]
    assert images.labels.tolist() == [0, 1, 0, 1]
    assert images.classes.tolist() == ["x", "y"]
    assert [image[0, 0] for image in images] == [1, 2, 3, 4]


def test_paths_alone(folder):
    images = ImageList(written(folder, f"a.pgm\nb c.pgm\n{folder / 'sub' / 'd,e.pgm'}\n"))
    assert images.labels is None
    assert [image[0, 0] for image in images] == [1, 2, 3]
    assert images.path(2) == folder / "sub" / "d,e.pgm"


def test_an_empty_label_is_no_label(folder):
    images = ImageList(written(folder, "a.pgm,x\nb c.pgm,\n"))
    assert images.labels.tolist() == [0, -1]
    assert images.classes.tolist() == ["x"]


def test_missing_files_are_named(folder):
    os.symlink("gone", folder / "link.pgm")
    path = written(folder, "a.pgm,x\nno.pgm,y\nlink.pgm,y\nsub,y\n")
    with pytest.raises(ImageError, match=r"no.pgm: no such file; link.pgm: a broken link; sub: not a regular file"):
        ImageList(path)
    images = ImageList(path, on_error="skip")
    assert list(images.names) == ["a.pgm"]
    assert images.classes.tolist() == ["x"]
    assert images.problems == [
        ("no.pgm", "no such file"),
        ("link.pgm", "a broken link"),
        ("sub", "not a regular file"),
    ]
    with pytest.raises(ImageError, match="all of its 1 images"):
        ImageList(written(folder, "no.pgm,x\n"), on_error="skip")


def test_names_that_are_no_unicode(folder):
    with open(os.fsencode(folder) + b"/\xff.pgm", "wb") as file:
        file.write(pgm(9))
    images = ImageList(written(folder, b"\xff.pgm,x\n"))
    assert images[0][0, 0] == 9
    assert images.names[0] == "\\xff.pgm"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lists no images"),
        ("path,label\n\n", "lists no images"),
        ("a.pgm,x\nb c.pgm\n", "line 2: expected a path and a label"),
        ("a.pgm,x,1\n", "line 1"),
        ("a.pgm,x\n,y\n", "line 2"),
        ("a.pgm\nb c.pgm,x,y,z w\n", "line 2: expected a path alone"),
        ('"a.pgm,x\n' + "y" * 200_000, "is not a list of paths and labels: field larger"),
        ("a\0b.pgm,x\n", "no such file"),
    ],
)
def test_files_that_are_not_lists_are_rejected(folder, text, message):
    with pytest.raises(ImageError, match=message):
        ImageList(written(folder, text))


@pytest.mark.parametrize(
    "text",
    [
        "path,labels\na.pgm,sea; sky\nb c.pgm,\n猫.pgm,sky;sky;\n",
        "File\tLabels\na.pgm\tsea;sky\nb c.pgm\t\n猫.pgm\tsky\n",
    ],
)
def test_a_column_called_labels_holds_several(folder, text):
    images = ImageList(written(folder, text))
    assert images.label_sets == [["sea", "sky"], [], ["sky"]]
    assert images.labels is None
    assert images.classes is None
    assert images[[2, 0]].label_sets == [["sky"], ["sea", "sky"]]


def test_a_column_of_another_name_holds_one_label(folder):
    images = ImageList(written(folder, "path,label\na.pgm,sea;sky\n"))
    assert images.label_sets is None
    assert images.classes.tolist() == ["sea;sky"]


def test_labels_in_a_file_next_to_the_images(folder):
    written(folder, "path,labels\na.pgm,sea;sky\nsub/../b c.pgm,sky\n", "labels.csv")
    images = open_source(folder)
    assert dict(zip(images.names, images.label_sets)) == {
        "a.pgm": ["sea", "sky"],
        "b c.pgm": ["sky"],
        "sub/d,e.pgm": [],
        "猫.pgm": [],
    }
    written(folder, "a.pgm,x\n猫.pgm,y\n", "labels.csv")
    images = open_source(folder)
    assert images.classes.tolist() == ["x", "y"]
    assert dict(zip(images.names, images.labels.tolist())) == {
        "a.pgm": 0,
        "b c.pgm": -1,
        "sub/d,e.pgm": -1,
        "猫.pgm": 1,
    }


def test_labels_of_missing_images_are_problems(folder):
    written(folder, "a.pgm,x\nno.pgm,y\n", "labels.csv")
    with pytest.raises(ImageError, match=r"no.pgm: no such image, but labels.csv lists it"):
        open_source(folder)
    images = open_source(folder, on_error="skip")
    assert images.problems == [("no.pgm", "no such image, but labels.csv lists it")]
    written(folder, "a.pgm\n", "labels.csv")
    with pytest.raises(ImageError, match=r"labels.csv has no labels"):
        open_source(folder)


def test_class_folders_count_more_than_a_label_file_above_them(tmp_path):
    root = write_tree(tmp_path, {"x/1.pgm": pgm(1), "y/2.pgm": pgm(2), "labels.csv": b"anything"})
    assert open_source(root).classes.tolist() == ["x", "y"]
