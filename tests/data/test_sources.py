"""One door for all data."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbid.data import ImageFolder, ImageList, ImageSet, ParquetTable, VectorTable, open_source
from cbid.data.arrays import ArrayFileError
from tests.data.pictures import encoded, pgm, picture, write_tree
from tests.data.test_idx import idx

IMAGES = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)


def test_folders_lists_and_single_images(tmp_path):
    write_tree(tmp_path, {"a/1.pgm": pgm(1), "b/2.pgm": pgm(2), "list.csv": b"a/1.pgm,x\n"})
    assert isinstance(open_source(tmp_path), ImageFolder)
    assert isinstance(open_source(tmp_path / "list.csv"), ImageList)
    one = open_source(tmp_path / "a" / "1.pgm")
    assert len(one) == 1
    assert one[0][0, 0] == 1
    write_tree(tmp_path, {"b/bad.jpg": b"", "list.csv": b"a/1.pgm,x\nno.pgm,y\n"})
    assert open_source(tmp_path / "list.csv", on_error="skip").problems == [("no.pgm", "no such file")]


def test_arrays_of_images_and_of_vectors(tmp_path):
    np.save(tmp_path / "i.npy", IMAGES)
    images = open_source(tmp_path / "i.npy")
    assert isinstance(images, ImageSet)
    assert images.names[1] == "image 1"
    np.testing.assert_array_equal(images[1], IMAGES[1])
    assert images.path(0) is None
    np.savez(tmp_path / "i.npz", X=IMAGES, y=np.array(["dog", "cat"]), paths=np.array(["p/0", "p/1"]))
    images = open_source(tmp_path / "i.npz")
    assert list(images.names) == ["p/0", "p/1"]
    assert images.classes.tolist() == ["cat", "dog"]
    assert images.labels.tolist() == [1, 0]
    np.savez_compressed(tmp_path / "v.npz", features=IMAGES[0].astype(float), ids=np.arange(4))
    table = open_source(tmp_path / "v.npz")
    assert isinstance(table, VectorTable)
    assert table.shape == (4, 5)
    assert table.ids.tolist() == [0, 1, 2, 3]
    np.savez(tmp_path / "w.npz", whatever=IMAGES[0])
    assert open_source(tmp_path / "w.npz").shape == (4, 5)


def test_parquet_and_idx(tmp_path):
    pq.write_table(pa.table({"v": [[1.0, 2.0]], "w": [[1.0]]}), tmp_path / "t.parquet")
    assert isinstance(open_source(tmp_path / "t.parquet", vectors="v"), ParquetTable)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.array([7, 3], "u1")))
    images = open_source(tmp_path / "train-images-idx3-ubyte.gz")
    np.testing.assert_array_equal(images[0], IMAGES[0])
    assert images.classes.tolist() == [3, 7]
    assert images.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": IMAGES, "images": IMAGES}, "holds X, images"),
        ({"a": IMAGES, "b": IMAGES}, "expected one called"),
        ({"X": IMAGES[:, :, :, None]}, r"shape \(2, 4, 5, 1\)"),
        ({"X": IMAGES[0, 0]}, r"shape \(5,\)"),
        ({"X": IMAGES.astype(int)}, "images of type int64"),
        ({"X": IMAGES, "y": np.arange(3)}, r"labels has shape \(3,\)"),
    ],
)
def test_arrays_that_are_neither(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ArrayFileError, match=message):
        open_source(tmp_path / "a.npz")


def test_unread_images_are_reported_with_the_read_ones(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing does not exist"):
        open_source(tmp_path / "nothing")
    (tmp_path / "a.bin").write_bytes(encoded(picture(), "PNG"))
    with pytest.raises(ValueError, match=r"a\.bin.*expected a folder"):
        open_source(tmp_path / "a.bin")
    with pytest.raises(ValueError, match="vectors name columns of a parquet file"):
        open_source(tmp_path / "a.bin", vectors="v")


def test_labels_that_are_not_a_number_are_absent(tmp_path):
    np.savez(tmp_path / "v.npz", X=np.zeros((4, 3)), y=np.array([1.0, 0.0, np.nan, 1.0]))
    table = open_source(tmp_path / "v.npz")
    assert table.labels.tolist() == [1, 0, -1, 1]
    assert table.classes.tolist() == [0.0, 1.0]
