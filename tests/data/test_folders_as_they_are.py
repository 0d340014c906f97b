"""Folders as people have them: pictures of phones, folders of systems, dates, and labels in the names of files."""

import io
import re
import sys
import warnings

import numpy as np
import pytest
from PIL import Image

from cbid.cli import run
from cbid.data import ImageError, ImageFolder, open_source, read_image
from cbid.data.decode import image_size
from cbid.labels import unmarked

PIXELS = np.kron(np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8), np.ones((8, 8, 1), np.uint8))


def write(path, format=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(PIXELS).save(path, format=format)


def encoded(format):
    buffer = io.BytesIO()
    if format == "HEIF":
        pytest.importorskip("pillow_heif").from_pillow(Image.fromarray(PIXELS)).save(buffer, quality=95)
    else:
        Image.fromarray(PIXELS).save(buffer, format, quality=95)
    return buffer.getvalue()


@pytest.mark.parametrize("format", ["AVIF", "HEIF"])
def test_pictures_of_phones_are_read(format):
    content = encoded(format)
    assert image_size(content) == (32, 32)
    found = read_image(content)
    assert found.shape == PIXELS.shape
    assert np.abs(found.astype(int) - PIXELS).mean() < 8  # lossy
    with pytest.raises(ImageError, match="at most 1000"):
        read_image(content, max_pixels=1000)
    with pytest.raises(ImageError):
        read_image(content[: len(content) // 2])
    with pytest.raises(ImageError, match="format is unknown"):
        read_image(content, formats=("JPEG",))


def test_heic_without_its_extra_is_named(monkeypatch, tmp_path):
    content = encoded("HEIF")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"HEIC image; reading it needs the extra 'heif'"):
        read_image(content)
    write(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "2.HEIC").write_bytes(content)
    assert len(ImageFolder(tmp_path)) == 2  # it is found, and skipped by name when it is read


def test_avif_without_support_is_named(monkeypatch):
    monkeypatch.setattr("PIL.features.check", lambda name: False)
    with pytest.raises(ImageError, match=r"AVIF image, which this build of Pillow cannot read"):
        read_image(encoded("AVIF"))


def test_folders_of_systems_are_ignored(tmp_path):
    for name in (
        "cat/1.png",
        "cat/@eaDir/1.png",
        "@eaDir/x.png",
        "__MACOSX/cat/1.png",
        ".trash/1.png",
        "cat/.hid/1.png",
    ):
        write(tmp_path / name)
    write(tmp_path / "Thumbnails" / "1.png")
    images = ImageFolder(tmp_path)
    assert (list(images.names), images.classes.tolist(), images.problems) == (["cat/1.png"], ["cat"], [])


def test_formats_that_cannot_be_read_are_named(tmp_path):
    write(tmp_path / "cat" / "1.png")
    (tmp_path / "cat" / "2.DNG").write_bytes(b"raw")
    images = ImageFolder(tmp_path, on_error="skip")
    assert images.problems == [("cat/2.DNG", "images of the format .dng cannot be read")]
    with pytest.raises(ImageError, match=r"cat/2\.DNG"):
        ImageFolder(tmp_path)


def test_labels_by_depth(tmp_path):
    for name in ("2023/cat/1.png", "2024/cat/spring/2.png", "2024/dog/3.png", "2024/4.png"):
        write(tmp_path / name)
    images = open_source(tmp_path, label_depth=2)
    found = {n: "" if i < 0 else images.classes[i] for n, i in zip(images.names, images.labels)}
    assert found == {
        "2023/cat/1.png": "cat",
        "2024/4.png": "",
        "2024/cat/spring/2.png": "cat",
        "2024/dog/3.png": "dog",
    }
    with pytest.raises(ImageError, match="label_depth=9"):
        ImageFolder(tmp_path, label_depth=9)


def test_labels_by_a_pattern(tmp_path):
    for name in ("cat_1.png", "dog_2.png", "IMG3.png"):
        write(tmp_path / name)
    images = ImageFolder(tmp_path, label="([a-z]+)_")
    assert images.classes.tolist() == ["cat", "dog"]
    assert images.labels.tolist() == [-1, 0, 1]  # IMG3, cat, dog
    assert ImageFolder(tmp_path, label="^[a-z]+").classes.tolist() == ["cat", "dog"]
    with pytest.raises(ImageError, match=r"label='\^x'"):
        ImageFolder(tmp_path, label="^x")
    with pytest.raises(ValueError, match=r"label='\(': expected a regular expression"):
        ImageFolder(tmp_path, label="(")
    with pytest.raises(ValueError, match="exclude each other"):
        ImageFolder(tmp_path, label="x", tree=True)
    with pytest.raises(ValueError, match="label_depth"):
        ImageFolder(tmp_path, label_depth=0)
    with pytest.raises(ValueError, match="are for folders"):
        open_source(tmp_path / "cat_1.png", label="x")


def test_a_mark_is_no_class(tmp_path):
    assert unmarked(np.array([0, -1, 2])).count(None) == 1
    assert unmarked([1.5, -1.0]) == [1.5, -1.0]  # numbers that are no integers are as they are
    np.savez(tmp_path / "v.npz", X=np.eye(4, dtype=np.float32), y=np.array([0, -1, 1, -1]))
    assert open_source(tmp_path / "v.npz").classes.tolist() == [0, 1]
    np.savez(tmp_path / "signs.npz", X=np.eye(4, dtype=np.float32), y=np.array([1, -1, 1, -1]))
    assert open_source(tmp_path / "signs.npz").classes.tolist() == [-1, 1]


@pytest.fixture
def flat(tmp_path, monkeypatch):
    """Photographs in folders by date with labels in their names, one copy in two classes, and what systems leave."""
    rng = np.random.default_rng(1)
    for i in range(24):
        kind = "cat" if i % 2 else "dog"
        shade = 40 if i % 2 else 200
        path = tmp_path / "flat" / f"20{i % 3}" / f"{kind}_{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(rng.normal(shade, 30, (40, 40, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(path)
    (tmp_path / "flat" / "200" / "cat_99.png").write_bytes((tmp_path / "flat" / "200" / "dog_00.png").read_bytes())
    write(tmp_path / "flat" / "@eaDir" / "cat_00.png")
    (tmp_path / "flat" / "200" / "IMG.NEF").write_bytes(b"raw")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_program_on_such_a_folder(flat, capsys):
    settings = ["-d", "pixels", "-b", "8", "--out", "p.cbid", "--held-out", "0.5"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run(["fit", "flat", *settings, "--label", "([a-z]+)_[0-9]+", "--json"]) == 0
    captured = capsys.readouterr()
    assert '"cat",\n  "dog"' in captured.out
    assert "1 file of the source (1 .nef), such as 200/IMG.NEF: images of the format .nef" in captured.err
    assert re.search(r"1 copy is in two classes, such as 200/cat_99.png and 200/dog_00.png", captured.err)
    assert (
        run(["fit", "flat", *settings[:-4], "--out", "q.cbid", "--label", "^.*(...)_", "--max-pixels", "1000"]) == 1
    )
    assert "40 x 40 pixels: expected at most 1000" in capsys.readouterr().err
    assert run(["fit", "flat", *settings, "--label", "("]) == 1
    assert "label='('" in capsys.readouterr().err
