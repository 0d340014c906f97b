"""Rows of arrays, files and parquet files: the same vectors in every process."""

import pickle

import numpy as np
import pytest

from cbid.data.tables import TableError
from cbid.scale.sources import FileRows, MemoryRows, ParquetRows, open_rows


def write_parquet(path, X, *, group=70, **columns):
    import pyarrow as arrow
    from pyarrow import parquet

    table = arrow.table({"vector": arrow.array(list(X)), **columns})
    parquet.write_table(table, path, row_group_size=group)


@pytest.fixture
def npy(tmp_path, vectors):
    np.save(tmp_path / "x.npy", vectors[0])
    return tmp_path / "x.npy"


def test_a_mapped_array_is_known_by_its_file(npy, vectors):
    mapped = np.load(npy, mmap_mode="r")
    for array, expected in (
        (mapped, vectors[0]),
        (mapped[100:200], vectors[0][100:200]),
        (mapped[100:200][10:], vectors[0][110:200]),
    ):
        rows = pickle.loads(pickle.dumps(open_rows(array)))  # noqa: S301 - our own bytes
        assert isinstance(rows, FileRows)
        np.testing.assert_array_equal(rows.read(0, len(rows)), expected)
        np.testing.assert_array_equal(rows.read(5, 9), expected[5:9])
        np.testing.assert_array_equal(rows.take(np.array([0, 3, 70]), 2), expected[[0, 3, 70]])
    assert isinstance(open_rows(npy), FileRows)
    assert isinstance(open_rows(np.array(mapped)), MemoryRows)
    assert isinstance(open_rows(mapped[::2]), MemoryRows)  # not consecutive rows of a file
    assert isinstance(open_rows(np.load(npy, mmap_mode="c")), MemoryRows)  # may differ from its file


def test_an_array_in_columns(tmp_path, vectors):
    np.save(tmp_path / "f.npy", np.asfortranarray(vectors[0]))
    rows = open_rows(tmp_path / "f.npy")
    assert isinstance(rows, FileRows)
    np.testing.assert_array_equal(rows.read(10, 20), vectors[0][10:20])


def test_a_changed_file_has_another_identity(npy, vectors):
    before = open_rows(npy).identity()
    assert open_rows(npy).identity() == before
    np.save(npy, vectors[0][:-1])
    assert open_rows(npy).identity() != before


def test_parquet_parts(tmp_path, vectors):
    X, y = vectors
    names = [f"row {i}" for i in range(1000)]
    for part, rows in enumerate((slice(0, 300), slice(300, 1000))):
        write_parquet(tmp_path / f"{part}.parquet", X[rows], label=y[rows], id=names[rows])
    rows = open_rows(tmp_path)
    assert isinstance(rows, ParquetRows)
    assert rows.shape == (1000, 12)
    np.testing.assert_array_equal(rows.classes[rows.labels], y)
    # Groups of 70 rows, five in the first file (the last of 20 rows), and ten in the second.
    assert rows.spans(150) == [
        (0, 140),
        (140, 280),
        (280, 370),
        *((start, start + 140) for start in range(370, 930, 140)),
        (930, 1000),
    ]
    assert rows.spans(10)[:2] == [(0, 70), (70, 140)]
    copy = pickle.loads(pickle.dumps(rows))  # noqa: S301 - our own bytes
    for reader in (rows, copy):
        for start, stop in ((0, 1000), (0, 70), (250, 330), (999, 1000)):
            np.testing.assert_array_equal(reader.read(start, stop), X[start:stop])
            assert reader.ids_of(start, stop).tolist() == names[start:stop]
        np.testing.assert_array_equal(reader.take(np.array([3, 299, 300, 800]), 100), X[[3, 299, 300, 800]])
    assert copy.ids is None


def test_parquet_parts_that_do_not_fit_together(tmp_path, vectors):
    write_parquet(tmp_path / "a.parquet", vectors[0][:10])
    write_parquet(tmp_path / "b.parquet", vectors[0][:10, :5])
    with pytest.raises(TableError, match=r"b.parquet has vectors of 5 values; .*12.*a.parquet"):
        open_rows(tmp_path)
    write_parquet(tmp_path / "b.parquet", vectors[0][:10], id=list(range(10)))
    with pytest.raises(TableError, match="ids or labels"):
        open_rows([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_wrong_sources_are_rejected(npy):
    with pytest.raises(ValueError, match="source=3"):
        open_rows(3)
    with pytest.raises(ValueError, match=r"labels has shape \(5,\)"):
        open_rows(npy, labels=np.zeros(5))
    with pytest.raises(ValueError, match="ids has type float64"):
        open_rows(npy, ids=np.zeros(1000))
    with pytest.raises(FileNotFoundError):
        open_rows(npy.with_name("y.npy"))


def test_given_ids_win(tmp_path, vectors):
    """Also in copies for threads and workers; the given source does not change."""
    write_parquet(tmp_path / "own.parquet", vectors[0], id=np.arange(1000))
    write_parquet(tmp_path / "none.parquet", vectors[0])
    given = np.arange(1000) + 5000
    for name in ("own", "none"):
        source = open_rows(tmp_path / f"{name}.parquet")
        rows = open_rows(source, ids=given).without_labels()
        for reader in (rows, pickle.loads(pickle.dumps(rows))):  # noqa: S301 - our own bytes
            np.testing.assert_array_equal(reader.ids_of(3, 200), given[3:200])
        assert source.ids_of(3, 5).tolist() == [3, 4]


def test_a_rewritten_parquet_file(tmp_path, vectors):
    path = tmp_path / "x.parquet"
    for first in (0, 77):
        write_parquet(path, vectors[0], id=np.arange(1000) + first)
        rows = pickle.loads(pickle.dumps(open_rows(path)))  # noqa: S301 - our own bytes
        assert rows.ids_of(0, 3).tolist() == [first, first + 1, first + 2]


def test_ids_beyond_int64(npy):
    with pytest.raises(ValueError, match=f"ids holds {2**63 + 7}"):
        open_rows(npy, ids=np.full(1000, 2**63 + 7, np.uint64))
    assert open_rows(npy, ids=np.arange(1000, dtype=np.uint64)).ids.dtype == np.int64


def test_empty_sources_are_rejected(vectors):
    with pytest.raises(ValueError, match=r"source has shape \(0, 12\)"):
        open_rows(vectors[0][:0])
    with pytest.raises(ValueError, match=r"has shape \(1000, 0\)"):
        open_rows(vectors[0][:, :0])
    with pytest.raises(ValueError, match=r"labels has shape \(1000, 1\)"):
        open_rows(vectors[0], labels=np.zeros((1000, 1)))
