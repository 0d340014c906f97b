"""Files that are whole or absent."""

import os

import pytest

from cbid.storage.atomic import whole_file


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
