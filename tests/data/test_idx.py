"""IDX files: types, gzip, and headers that lie."""

import gzip
import os
import struct

import numpy as np
import pytest

from cbid.data import open_source
from cbid.data.arrays import IdxError, is_idx, labels_beside, read_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array, code=None):
    header = struct.pack(">BBBB", 0, 0, code or CODES[array.dtype.str[1:]], array.ndim)
    return (
        header + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_type_plain_and_packed(tmp_path, kind, packed):
    array = np.arange(24).reshape(2, 3, 4).astype(kind)
    data = idx(array)
    (tmp_path / "a").write_bytes(gzip.compress(data) if packed else data)
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), array)
    assert is_idx(tmp_path / "a")
    assert read_idx(tmp_path / "a").dtype == np.dtype(kind).newbyteorder(">")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an IDX file"),
        (b"text that is long enough", "not an IDX file"),
        (b"\0\0\x08\x07" + bytes(40), "not an IDX file"),
        (b"\0\0\x05\x01" + bytes(40), "not an IDX file"),
        (b"\0\0\x08\x02" + bytes(5), "truncated"),
        (idx(np.arange(9, dtype="u1"))[:-1], "describes 9 bytes.*8"),
        (idx(np.arange(9, dtype="u1")) + b"x", "describes 9 bytes"),
        (b"\0\0\x0e\x03" + b"\xff" * 12 + bytes(100), "describes"),
    ],
)
def test_what_is_no_whole_file(tmp_path, packed, data, message):
    (tmp_path / "a").write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(IdxError, match=message):
        read_idx(tmp_path / "a")


def test_damaged_gzip(tmp_path):
    data = gzip.compress(idx(np.random.default_rng(0).integers(0, 256, 5000).astype("u1")))
    (tmp_path / "a").write_bytes(data[:3000])
    with pytest.raises(IdxError, match="damaged"):
        read_idx(tmp_path / "a")
    (tmp_path / "a").write_bytes(data[:12])
    assert not is_idx(tmp_path / "a")


def test_an_empty_array(tmp_path):
    (tmp_path / "a").write_bytes(idx(np.empty((0, 28, 28), "u1")))
    assert read_idx(tmp_path / "a").shape == (0, 28, 28)


def test_the_labels_next_to_the_images(tmp_path):
    images = tmp_path / "train-images-idx3-ubyte.gz"
    assert labels_beside(images) is None
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"")
    assert labels_beside(images) == tmp_path / "train-labels-idx1-ubyte"
    assert labels_beside(tmp_path / "train-labels-idx1-ubyte") is None


def test_a_pipe_in_the_place_of_the_labels_does_not_block(tmp_path):
    images = tmp_path / "train-images-idx3-ubyte"
    images.write_bytes(idx(np.zeros((2, 4, 4), "u1")))
    os.mkfifo(tmp_path / "train-labels-idx1-ubyte")
    with pytest.raises(OSError, match="labels-idx1-ubyte"):
        open_source(images)
