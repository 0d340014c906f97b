"""Vectors in arrays and in parquet files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbid.data import ParquetTable, VectorTable
from cbid.data.tables import TableError

VECTORS = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)


def column(kind, values=VECTORS, dtype=None):
    flat = pa.array(values.ravel(), dtype)
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    offsets = pa.array(np.arange(len(values) + 1) * values.shape[1], pa.int64() if kind == "large" else pa.int32())
    return (pa.LargeListArray if kind == "large" else pa.ListArray).from_arrays(offsets, flat)


def written(tmp_path, row_group_size=None, **columns):
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=row_group_size)
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_vectors_of_any_list_type(tmp_path, kind, dtype):
    values = (VECTORS * 3).astype(dtype)
    path = written(tmp_path, row_group_size=13, key=np.arange(100), embedding=column(kind, values))
    table = ParquetTable(path)
    assert table.shape == (100, 8)
    assert len(table) == 100
    assert table.vectors.dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_array_equal(table.vectors, values)
    batches = list(table.batches(7))
    assert max(map(len, batches)) <= 7
    np.testing.assert_array_equal(np.concatenate(batches), values)
    np.testing.assert_array_equal(table.ids, np.arange(100))
    assert table.labels is None


def test_ids_and_labels(tmp_path):
    path = written(
        tmp_path, vec=column("list"), ID=[f"n{i}" for i in range(100)], label=["cat", None, "dog", "cat"] * 25
    )
    table = ParquetTable(path)
    assert table.ids[:2].tolist() == ["n0", "n1"]
    assert table.labels[:4].tolist() == [0, -1, 1, 0]
    assert table.classes.tolist() == ["cat", "dog"]
    assert repr(table) == "<ParquetTable: 100 vectors of 8 values, 2 classes>"


def test_columns_by_name(tmp_path):
    path = written(tmp_path, a=column("list"), b=column("fixed", VECTORS[:, :3]), who=np.arange(100), y2=[1, 2] * 50)
    with pytest.raises(TableError, match=r"there are \['a', 'b'\]; set vectors="):
        ParquetTable(path)
    table = ParquetTable(path, vectors="b", ids="who", labels="y2")
    assert table.shape == (100, 3)
    assert table.classes.tolist() == [1, 2]
    with pytest.raises(TableError, match="ids='nobody'"):
        ParquetTable(path, vectors="b", ids="nobody")
    with pytest.raises(TableError, match="column 'who' has type int64"):
        ParquetTable(path, vectors="who")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1.0, 2.0], [1.0, 2.0], [1.0], [1.0, 2.0]], "has 1 values in row 2"),
        ([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], None], "no vector in row 3"),
        ([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, None]], "null value in row 3"),
        ([[], [], [], []], "has 0 values in row 0"),
    ],
)
def test_rows_that_do_not_fit_are_named(tmp_path, lists, message):
    path = written(tmp_path, row_group_size=2, v=pa.array(lists, pa.list_(pa.float32())))
    with pytest.raises(TableError, match=message):
        list(ParquetTable(path).batches())


def test_what_is_no_table(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 text PAR1")
    with pytest.raises(TableError, match="is not a parquet file"):
        ParquetTable(tmp_path / "a.parquet")
    with pytest.raises(TableError, match="column of lists"):
        ParquetTable(written(tmp_path, a=[1, 2]))
    with pytest.raises(TableError, match="has no rows"):
        ParquetTable(written(tmp_path, a=column("list")[:0]))
    with pytest.raises(FileNotFoundError):
        ParquetTable(tmp_path / "nothing.parquet")


def test_vectors_without_values():
    with pytest.raises(TableError, match=r"\(3, 0\).* d at least 1"):
        VectorTable(np.empty((3, 0), np.float32))


def test_a_damaged_page_is_reported(tmp_path):
    path = written(tmp_path, v=column("fixed"))
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    with pytest.raises(TableError, match=r"t.parquet is damaged"):
        ParquetTable(path)


def test_arrays_as_tables():
    table = VectorTable(VECTORS, ids=np.arange(100), labels=np.zeros(100, np.int64), classes=np.array(["x"]))
    assert table.vectors is VECTORS
    np.testing.assert_array_equal(np.concatenate(list(table.batches(33))), VECTORS)
    assert repr(table) == "<VectorTable: 100 vectors of 8 values, 1 classes>"
    for wrong, message in ((VECTORS[0], "shape"), (VECTORS.astype(str), "type")):
        with pytest.raises(TableError, match=message):
            VectorTable(wrong)
    with pytest.raises(TableError, match="ids has shape"):
        VectorTable(VECTORS, ids=np.arange(3))


@pytest.mark.parametrize("labels", [[["cat", "dog"], None, [], ["dog", "dog"]], [[1, 2], [], None, [2]]])
def test_lists_of_labels(tmp_path, labels):
    """The labels may be numbers: their column is not that of the vectors."""
    table = ParquetTable(written(tmp_path, vec=column("list", VECTORS[:4]), labels=labels))
    assert table.shape == (4, 8)
    assert table.label_sets == [list(dict.fromkeys(row or [])) for row in labels]
    assert table.labels is None
    assert table.classes is None


def test_a_null_label_is_named(tmp_path):
    path = written(tmp_path, vec=column("list", VECTORS[:2]), labels=[["cat"], ["dog", None]])
    with pytest.raises(TableError, match="labels has a null label in row 1"):
        ParquetTable(path)
