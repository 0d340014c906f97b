"""Files that are whole or absent."""

import errno
import os

import pytest

from cbid.storage.atomic import whole_directory, whole_file


@pytest.mark.parametrize("name", ["missing/codes.npy", "folder", "file/codes.npy"])
def test_an_error_names_the_file_that_was_asked_for(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    kinds = {
        "missing/codes.npy": FileNotFoundError,
        "folder": IsADirectoryError,
        "file/codes.npy": NotADirectoryError,
    }
    with pytest.raises(kinds[name]) as told, whole_file(tmp_path / name) as temporary:
        temporary.touch()
    assert told.value.filename == str(tmp_path / name)
    assert told.value.filename2 is None
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.parametrize("given", [None, "temporary", "other"])
def test_a_failed_write_names_the_file(tmp_path, given):
    with pytest.raises(OSError, match="No space") as told, whole_file(tmp_path / "codes") as temporary:
        raise OSError(28, "No space left on device", str(temporary) if given == "temporary" else given)
    assert told.value.filename == ("other" if given == "other" else str(tmp_path / "codes"))
    assert os.listdir(tmp_path) == []


def test_a_directory_is_whole_or_absent(tmp_path):
    target = tmp_path / "table"
    with pytest.raises(FileNotFoundError, match="nowhere"), whole_directory(target) as temporary:
        (temporary / "part").rename(temporary / "nowhere" / "part")
    assert os.listdir(tmp_path) == []
    with whole_directory(target) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "part").write_text("x")
        assert not target.exists()
    assert (target / "inner" / "part").read_text() == "x"
    (tmp_path / "other").mkdir()
    assert target.stat().st_mode == (tmp_path / "other").stat().st_mode
    with pytest.raises(FileExistsError, match="table"), whole_directory(target):
        pass
    with pytest.raises(FileNotFoundError) as told, whole_directory(tmp_path / "missing" / "table"):
        pass
    assert told.value.filename == str(tmp_path / "missing" / "table")
    assert sorted(os.listdir(tmp_path)) == ["other", "table"]


@pytest.mark.parametrize("kind", [whole_file, whole_directory])
def test_an_error_after_the_renaming_says_that_the_content_is_there(tmp_path, monkeypatch, kind):
    def failing(path):
        if os.fspath(path) == os.fspath(tmp_path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("cbid.storage.atomic.flush", failing)
    with (
        pytest.raises(OSError, match="table was written, but a power failure"),
        kind(tmp_path / "table"),
    ):
        pass
    assert (tmp_path / "table").exists()
