"""EfficientNet-Lite0: the reader of its weights, the cache, and the values themselves."""

import io
import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from cbid.data import read_image
from cbid.descriptors import EfficientNet, efficientnet

pytest.importorskip("onnxruntime")
if not EfficientNet.is_installed():
    pytest.skip("the extra 'deep' is not installed", allow_module_level=True)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """One cache for this file, and no open network from another test."""
    folder = tmp_path_factory.getbasetemp() / "efficientnet"
    monkeypatch.setenv(efficientnet.CACHE_VARIABLE, str(folder))
    efficientnet._open_once.cache_clear()
    yield folder
    efficientnet._open_once.cache_clear()


def test_values_are_of_unit_length_and_follow_the_content():
    rng = np.random.default_rng(0)
    smooth = np.kron(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8), np.ones((40, 50, 1), np.uint8))
    noise = rng.integers(0, 256, (160, 200, 3), dtype=np.uint8)
    described = EfficientNet(n_jobs=2).fit(None).transform([smooth, smooth[:, ::-1], noise])
    assert (described.shape, described.dtype) == ((3, 1280), np.float32)
    np.testing.assert_allclose(np.linalg.norm(described, axis=1), 1, rtol=1e-5)
    assert described[0] @ described[1] > described[0] @ described[2]  # a mirrored image is nearer than noise
    np.testing.assert_array_equal(described[0], EfficientNet().describe(smooth))


@pytest.mark.data
def test_values_are_those_of_the_torch_network():
    """The stored embeddings of Caltech-101 were computed by torch, in float16."""
    root = Path(os.environ.get("CBID_DATA", "no data")) / "caltech101"
    if not root.is_dir():
        pytest.skip("needs CBID_DATA with caltech101")
    stored = np.load(root / "embeddings_efficientnet_lite0.npz")
    rows = np.random.default_rng(0).choice(len(stored["paths"]), 5, replace=False)
    expected = stored["features"][rows].astype(np.float64)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = EfficientNet().transform([read_image(root / "images" / path) for path in stored["paths"][rows]])
    np.testing.assert_allclose((found * expected).sum(axis=1), 1, atol=1e-5)


def test_the_network_is_converted_once(own_cache, monkeypatch):
    gray = np.full((8, 8), 100, np.uint8)
    first = EfficientNet().describe(gray)
    (kept,) = own_cache.iterdir()
    efficientnet._open_once.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(efficientnet, "_read_weights", lambda: pytest.fail("converted again"))
        np.testing.assert_array_equal(EfficientNet().describe(gray), first)
    # A damaged file is made again, under the same name.
    kept.write_bytes(kept.read_bytes()[:-1])
    efficientnet._open_once.cache_clear()
    np.testing.assert_array_equal(EfficientNet().describe(gray), first)
    assert list(own_cache.iterdir()) == [kept]


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(efficientnet.CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="CBID_CACHE"):
        EfficientNet().fit(None)


def test_the_folder_of_the_cache(monkeypatch):
    monkeypatch.delenv(efficientnet.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert efficientnet.cache_folder() == Path("/elsewhere/cbid")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert efficientnet.cache_folder() == Path.home() / ".cache" / "cbid"


def test_other_weights_are_refused(tmp_path, monkeypatch):
    other = tmp_path / "weights.pth"
    other.write_bytes(b"something else")
    monkeypatch.setattr(efficientnet, "_weights_file", lambda: other)
    monkeypatch.setenv(efficientnet.CACHE_VARIABLE, str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"weights\.pth has the SHA-256 digest .*: expected 57934424"):
        EfficientNet().fit(None)
    assert not (tmp_path / "cache").exists()


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(efficientnet, "_PACKAGE", "no-such-package")
    monkeypatch.setenv(efficientnet.CACHE_VARIABLE, str(tmp_path / "cache"))
    assert not EfficientNet.is_installed()
    with pytest.raises(ImportError, match="extra 'deep'"):
        EfficientNet().fit(None)


def opcodes(*parts):
    return b"".join(part.encode() if isinstance(part, str) else part for part in parts)


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def legacy_file(values, shape, strides, *, function="ctorch._utils\n_rebuild_tensor_v2\n"):
    """A file of one tensor "w", written opcode by opcode."""
    numbers = [b"M" + struct.pack("<H", n) for n in (*shape, *strides)]
    tensor = opcodes(
        *(b"\x80\x02", "ccollections\nOrderedDict\n", b")R", b"(", text("w"), function, b"(("),
        *(text("storage"), "ctorch\nFloatStorage\n", text("7"), text("cpu"), b"K", bytes([len(values)]), b"Nt", b"Q"),
        *(b"K\x00", b"(", *numbers[: len(shape)], b"t(", *numbers[len(shape) :], b"t", b"\x89"),
        *("ccollections\nOrderedDict\n", b")R", b"t", b"R", b"u."),
    )
    head = [pickle.dumps(value, 2) for value in (7, 1001, {"little_endian": True})]
    data = struct.pack("<q", len(values)) + np.asarray(values, "<f4").tobytes()
    return io.BytesIO(b"".join([*head, tensor, opcodes(b"\x80\x02](", text("7"), b"e."), data]))


def test_tensors_are_read_by_their_strides():
    """Values 0 to 5 as (2, 3) with strides (1, 2): column by column."""
    (array,) = efficientnet.read_tensors(legacy_file(range(6), (2, 3), (1, 2))).values()
    np.testing.assert_array_equal(array, [[0, 2, 4], [1, 3, 5]])


def test_a_tensor_outside_of_its_storage():
    with pytest.raises(ValueError, match="outside"):
        efficientnet.read_tensors(legacy_file(range(6), (2, 3), (4, 2)))


def test_nothing_is_run():
    """A file that names a function of the system is refused before anything happens."""
    with pytest.raises(ValueError, match="posix system"):
        efficientnet.read_tensors(legacy_file(range(6), (2, 3), (1, 2), function="cposix\nsystem\n"))
    for content, word in (
        (pickle.dumps(OrderedDict(a=1), 0), "instruction"),
        (pickle.dumps({1, 2}, 4), "instruction"),
    ):
        with pytest.raises(ValueError, match=word):
            efficientnet._parse(io.BytesIO(content))
