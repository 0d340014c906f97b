"""Arrays from files: mapped where possible, never unpickled, sizes checked."""

import contextlib
import io
import os
import zipfile

import numpy as np
import pytest

from cbid.data.arrays import ArrayFileError, read_npy, read_npz

ARRAYS = {
    "X": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "F": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "names": np.array(["a", "猫"]),
    "empty": np.empty((0, 3)),
    "one": np.array(3.5),
}


def is_mapped(array):
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base if isinstance(array, np.ndarray) else None
    return False


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_round_trip(tmp_path, save):
    save(tmp_path / "a.npz", **ARRAYS)
    read = read_npz(tmp_path / "a.npz")
    assert set(read) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
    assert is_mapped(read["X"]) == is_mapped(read["F"]) == (save is np.savez)


def test_npy_is_mapped(tmp_path):
    np.save(tmp_path / "a.npy", ARRAYS["X"])
    read = read_npy(tmp_path / "a.npy")
    np.testing.assert_array_equal(read, ARRAYS["X"])
    assert is_mapped(read)


class Harm:
    def __reduce__(self):
        return os.system, ("false",)


def test_objects_are_not_unpickled(tmp_path):
    harm = np.array([Harm()], dtype=object)
    np.save(tmp_path / "a.npy", harm, allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=harm)
    with pytest.raises(ArrayFileError, match=r"a\.npy is not"):
        read_npy(tmp_path / "a.npy")
    with pytest.raises(ArrayFileError, match="could run any code"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("claimed", [(10**6, 10**6), (3, 3), (2**40, 2**40)])
def test_a_header_that_claims_another_size(tmp_path, compression, claimed):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": claimed})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
        archive.writestr("X.npy", content.getvalue() + bytes(80))
    with pytest.raises(ArrayFileError, match="80"):
        read_npz(tmp_path / "a.npz")
    (tmp_path / "a.npy").write_bytes(content.getvalue() + bytes(64))
    with pytest.raises(ArrayFileError, match=r"a\.npy"):
        read_npy(tmp_path / "a.npy")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 text", b"\x93NUMPY\x09\x00"])
def test_what_is_no_array_file(tmp_path, content):
    for name, read in (("a.npz", read_npz), ("a.npy", read_npy)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ArrayFileError, match=name):
            read(tmp_path / name)


def test_damage_of_a_compressed_array_is_found(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).integers(0, 4, 5000))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises(ArrayFileError):
        read_npz(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ArrayFileError):
        read_npz(path)


@pytest.mark.parametrize("change", [0x55, 0x41, 0x01, 0x80])
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_damaged_byte_is_one_kind_of_error(tmp_path, suffix, change):
    """Wherever it is; one that hits a number is not noticed."""
    path = tmp_path / f"a.{suffix}"
    X = np.arange(6.0).reshape(2, 3)
    np.save(path, X) if suffix == "npy" else np.savez(path, X=X, y=np.arange(2))
    content = path.read_bytes()
    for byte in range(len(content)):
        path.write_bytes(content[:byte] + bytes([content[byte] ^ change]) + content[byte + 1 :])
        with contextlib.suppress(ArrayFileError):
            read_npy(path) if suffix == "npy" else read_npz(path)


def test_a_file_that_is_not_there_is_not_damaged(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "a.npz")
