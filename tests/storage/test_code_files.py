"""Files of codes and exports, read back with the stores themselves."""

import builtins
import os

import faiss
import numpy as np
import pytest

from cbid import codes
from cbid.storage import code_files


@pytest.fixture(params=[1, 13, 64, 100])
def n_bits(request):
    return request.param


@pytest.fixture
def stored(n_bits):
    return codes.pack(np.random.default_rng(n_bits).integers(0, 2, (300, n_bits)))


IDS = np.random.default_rng(1).permutation(10**12 // 7 * np.arange(1, 301)) + 5


def test_npy_is_memory_mapped(tmp_path, stored):
    code_files.save(tmp_path / "codes.npy", stored)
    mapped = code_files.load(tmp_path / "codes.npy")
    assert isinstance(mapped.base, np.memmap) or isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable
    np.testing.assert_array_equal(mapped, stored)
    np.testing.assert_array_equal(code_files.load(tmp_path / "codes.npy", mmap=False), stored)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), stored)


def test_no_codes_at_all(tmp_path):
    none = np.empty((0, 3), np.uint8)
    code_files.save(tmp_path / "none.npy", none)
    assert code_files.load(tmp_path / "none.npy").shape == (0, 3)
    code_files.save_parquet(tmp_path / "none.parquet", none, 20)
    read, ids, n_bits = code_files.load_parquet(tmp_path / "none.parquet")
    assert read.shape == (0, 3)
    assert len(ids) == 0
    assert n_bits == 20
    for to in code_files.EXPORTS.keys() - {"lance"}:  # tested with the package pylance
        code_files.export(tmp_path / to, none, 20, to)
        read, ids = code_files.load_export(tmp_path / to, 20, to)
        assert read.shape == (0, 3)
        assert ids is None or len(ids) == 0


@pytest.mark.parametrize("ids", [None, IDS])
def test_parquet_keeps_ids_and_bits(tmp_path, stored, n_bits, ids, monkeypatch):
    monkeypatch.setattr(code_files, "_ROWS", 128)  # several row groups
    code_files.save_parquet(tmp_path / "codes.parquet", stored, n_bits, ids)
    read, read_ids, read_bits = code_files.load_parquet(tmp_path / "codes.parquet")
    np.testing.assert_array_equal(read, stored)
    np.testing.assert_array_equal(read_ids, np.arange(300) if ids is None else ids)
    assert read_bits == n_bits


@pytest.mark.parametrize("ids", [None, IDS])
def test_faiss_finds_the_same_distances(tmp_path, stored, n_bits, ids):
    code_files.export(tmp_path / "codes.faiss", stored, n_bits, "faiss", ids)
    index = faiss.read_index_binary(str(tmp_path / "codes.faiss"))
    assert isinstance(index, faiss.IndexBinaryFlat if ids is None else faiss.IndexBinaryIDMap2)
    distances, found = index.search(stored[:5], 4)
    expected = codes.hamming(stored[:5], stored)
    np.testing.assert_array_equal(distances, np.sort(expected, axis=1)[:, :4])
    keys = np.arange(300) if ids is None else ids
    rows = np.array([[np.flatnonzero(keys == key)[0] for key in row] for row in found])
    np.testing.assert_array_equal(np.take_along_axis(expected, rows, axis=1), distances)


@pytest.mark.parametrize("ids", [None, IDS])
def test_usearch_finds_the_same_distances(tmp_path, stored, n_bits, ids):
    usearch = pytest.importorskip("usearch.index")
    code_files.export(tmp_path / "codes.usearch", stored, n_bits, "usearch", ids)
    index = usearch.Index.restore(str(tmp_path / "codes.usearch"))
    matches = index.search(stored[:5], 4, exact=True)
    keys = np.arange(300) if ids is None else ids
    expected = codes.hamming(stored[:5], stored)
    np.testing.assert_array_equal(matches.distances, np.sort(expected, axis=1)[:, :4])
    rows = np.array([[np.flatnonzero(keys == key)[0] for key in row] for row in matches.keys])
    np.testing.assert_array_equal(np.take_along_axis(expected, rows, axis=1), matches.distances)
    np.testing.assert_array_equal(index.get(int(keys[7])), stored[7])


@pytest.mark.parametrize("ids", [None, IDS])
def test_text_is_bit_0_first(tmp_path, stored, n_bits, ids):
    for to in ("pgvector", "hex"):
        code_files.export(tmp_path / to, stored, n_bits, to, ids)
    bit_lines = (tmp_path / "pgvector").read_text().splitlines()
    hex_lines = (tmp_path / "hex").read_text().splitlines()
    if ids is not None:
        np.testing.assert_array_equal([int(line.split("\t")[0]) for line in bit_lines], ids)
        bit_lines, hex_lines = ([line.split("\t")[1] for line in lines] for lines in (bit_lines, hex_lines))
    bits = np.array([[int(digit) for digit in line] for line in bit_lines])
    assert bits.shape == (300, n_bits)
    np.testing.assert_array_equal(codes.pack(bits), stored)
    np.testing.assert_array_equal([list(bytes.fromhex(line)) for line in hex_lines], stored)


def test_text_by_hand(tmp_path):
    code_files.export(tmp_path / "bits", codes.pack([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]), 10, "pgvector", [42])
    assert (tmp_path / "bits").read_text() == "42\t1001000001\n"


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "codes.npy"
    old = np.zeros((3, 2), np.uint8)
    code_files.save(path, old)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    for broken in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, fail)
            with pytest.raises(OSError, match="No space"):
                code_files.save(path, np.ones((9, 2), np.uint8))
        assert os.listdir(tmp_path) == ["codes.npy"]
        np.testing.assert_array_equal(code_files.load(path), old)


def test_files_have_the_usual_mode(tmp_path):
    code_files.save(tmp_path / "codes.npy", np.zeros((3, 2), np.uint8))
    (tmp_path / "other").touch()
    assert (tmp_path / "codes.npy").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "pyarrow":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="the extra 'tables'"):
        code_files.save_parquet(tmp_path / "x", np.zeros((3, 2), np.uint8), 16)
    assert os.listdir(tmp_path) == []


def test_errors_leave_nothing_behind(tmp_path):
    stored = np.zeros((3, 2), np.uint8)
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="to='milvus'"):
        code_files.export(path, stored, 16, "milvus")
    with pytest.raises(ValueError, match=r"ids has shape \(2,\)"):
        code_files.export(path, stored, 16, "hex", [1, 2])
    with pytest.raises(ValueError, match="duplicates"):
        code_files.export(path, stored, 16, "hex", [1, 2, 2])
    with pytest.raises(ValueError, match="negative"):
        code_files.export(path, stored, 16, "usearch", [-1, 2, 3])
    with pytest.raises(ValueError, match="is 2 bytes wide: expected 3 for 24 bits"):
        code_files.save_parquet(path, stored, 24)
    np.save(tmp_path / "floats.npy", np.zeros((3, 2)))
    with pytest.raises(TypeError, match=r"floats.npy has dtype float64"):
        code_files.load(tmp_path / "floats.npy")
    assert os.listdir(tmp_path) == ["floats.npy"]


def test_a_foreign_table_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"id": [1], "code": [b"ab"]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="n_bits=None"):
        code_files.load_parquet(tmp_path / "other.parquet")


@pytest.mark.parametrize("byte", range(96))
def test_a_damaged_header_names_the_file(tmp_path, byte):
    path = tmp_path / "codes.npy"
    code_files.save(path, np.arange(12, dtype=np.uint8).reshape(3, 4))
    content = path.read_bytes()
    for change in (0x55, 0x41, 0x01, 0x80):
        path.write_bytes(content[:byte] + bytes([content[byte] ^ change]) + content[byte + 1 :])
        for mmap in (True, False):
            try:
                code_files.load(path, mmap=mmap)  # a space more or less is nothing
            except (ValueError, TypeError) as error:
                assert "codes.npy" in str(error)  # noqa: PT017


def test_ids_that_do_not_fit_are_refused(tmp_path):
    two = np.zeros((2, 1), np.uint8)
    ids = np.array([1, 2**63], dtype=np.uint64)
    with pytest.raises(ValueError, match="ids holds 9223372036854775808"):
        code_files.save_parquet(tmp_path / "codes.parquet", two, 8, ids)
    for to in code_files.EXPORTS:
        with pytest.raises(ValueError, match="ids holds 9223372036854775808"):
            code_files.export(tmp_path / to, two, 8, to, ids)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("ids", "kind", "message"),
    [
        ([1, None], "int64", "the column id of .*codes.parquet has type int64 and 1 nulls"),
        ([1.5, 2.0], "double", "codes.parquet has type double"),
        (["a", "b"], "string", "codes.parquet has type string"),
        ([7, 7], "int32", "the column id of .*codes.parquet has duplicates"),
        ([7, 2**63], "uint64", "the column id of .*codes.parquet holds 9223372036854775808"),
    ],
)
def test_tables_with_other_ids_are_refused(tmp_path, ids, kind, message):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = [pyarrow.array(ids, kind), pyarrow.array([b"a", b"b"], pyarrow.binary(1))]
    table = pyarrow.table(columns, ["id", "code"])
    parquet.write_table(table.replace_schema_metadata({"cbid.n_bits": "8"}), tmp_path / "codes.parquet")
    with pytest.raises(ValueError, match=message):
        code_files.load_parquet(tmp_path / "codes.parquet")


@pytest.mark.parametrize("n_bits", ["abc", "0", "-8", "8.0", ""])
def test_tables_with_another_number_of_bits_are_refused(tmp_path, n_bits):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table([[1], pyarrow.array([b"a"], pyarrow.binary(1))], ["id", "code"])
    parquet.write_table(table.replace_schema_metadata({"cbid.n_bits": n_bits}), tmp_path / "codes.parquet")
    with pytest.raises(ValueError, match=rf"codes.parquet has cbid.n_bits='{n_bits}'"):
        code_files.load_parquet(tmp_path / "codes.parquet")


def test_the_name_of_0_1_0_is_kept():
    from cbid import codes_io

    assert codes_io is code_files
