"""Arrays in checked files, shared by models and caches. The ways to harm them: tests/storage/test_models.py."""

import numpy as np
import pytest

from cbid.storage.tensors import FileKind


class ToyError(ValueError):
    pass


TOY = FileKind(format="toy", version=3, noun="toy", error=ToyError)
ARRAYS = {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "none": np.empty((0, 2)), "one": np.array(2.5)}


def test_round_trip_and_one_array_alone(tmp_path):
    TOY.write(tmp_path / "t", {"é": [1, None]}, ARRAYS)
    content, arrays = TOY.read(tmp_path / "t")
    assert content == {"é": [1, None]}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        np.testing.assert_array_equal(TOY.peek(tmp_path / "t", name), array)
    with pytest.raises(ToyError, match="damaged"):
        TOY.peek(tmp_path / "t", "other")


def test_another_kind_or_version_is_rejected(tmp_path):
    TOY.write(tmp_path / "t", {}, {})
    other = FileKind(format="doll", version=3, noun="doll", error=ToyError)
    later = FileKind(format="toy", version=4, noun="toy", error=ToyError)
    for read in (other.read, lambda path: other.peek(path, "a")):
        with pytest.raises(ToyError, match="not a cbid doll"):
            read(tmp_path / "t")
    with pytest.raises(ToyError, match="version '3'"):
        later.read(tmp_path / "t")


def test_a_changed_value_is_found_by_reading_but_not_by_looking_at_another(tmp_path):
    TOY.write(tmp_path / "t", {}, ARRAYS)
    data = bytearray((tmp_path / "t").read_bytes())
    data[data.index(ARRAYS["a"].tobytes())] ^= 1
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(ToyError, match="damaged"):
        TOY.read(tmp_path / "t")
    assert TOY.peek(tmp_path / "t", "one") == 2.5
