"""``.npy`` headers, maps and growing files. Damaged headers: tests/data/test_arrays.py and test_code_files.py."""

import io

import numpy as np
import pytest

from cbid.storage.tensors import DAMAGED_NPY, GrowingArray, header_bytes, map_npy, read_header


@pytest.mark.parametrize("shape", [(3, 2), (7,), (0, 4), ()])
def test_a_header_is_that_of_numpy(shape):
    file = io.BytesIO()
    np.save(file, np.zeros(shape, np.float32))
    assert file.getvalue().startswith(header_bytes(np.float32, shape))
    file.seek(0)
    assert read_header(file, len(file.getvalue())) == (shape, "C", np.float32)


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.empty((0, 2))])
def test_maps_are_read_only_views_of_the_file(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    mapped = map_npy(tmp_path / "a.npy")
    np.testing.assert_array_equal(mapped, array)
    assert mapped.dtype == array.dtype
    assert mapped.flags.f_contiguous == array.flags.f_contiguous
    assert not array.size or not mapped.flags.writeable


def test_objects_missing_bytes_and_trailing_bytes_are_rejected(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([None]), allow_pickle=True)
    with pytest.raises(DAMAGED_NPY, match="objects"):
        map_npy(path)
    np.save(path, np.zeros(4))
    content = path.read_bytes()
    for changed in (content[:-1], content + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(DAMAGED_NPY, match="32 bytes"):
            map_npy(path)


def test_rows_are_appended_and_counted_at_the_end(tmp_path):
    pieces = [np.full((n, 2), n, np.float32) for n in (1, 0, 1000)]
    with open(tmp_path / "a.npy", "wb") as file:
        rows = GrowingArray(file, np.float32, (2,))
        for piece in pieces:
            rows.append(piece)
        with pytest.raises(ValueError, match="float64"):
            rows.append(np.zeros((1, 2)))
        with pytest.raises(ValueError, match=r"\(3,\)"):
            rows.append(np.zeros((1, 3), np.float32))
        rows.finish()
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.concatenate(pieces))
