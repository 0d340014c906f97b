"""Coders as ONNX graphs: the codes of onnxruntime are those of ``encode``."""

import builtins
import functools

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from cbid import CBID, PatchCBID
from cbid.coders import ITQ, KSH, LSH, PStableLSH, ShiftInvariantLSH, SignEmbedding
from cbid.coders.hyperplane import HyperplaneCoder
from cbid.coders.onnx_file import OPSET
from tests.coders.every import EVERY, make

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROWS = 3_000
TIE = 1e-5  # projections nearer to zero than this share of their root mean square may go either way


@functools.cache
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@functools.cache
def queries():
    rng = np.random.default_rng(0)
    X, _ = digits()
    return (X[rng.integers(0, len(X), ROWS)] + rng.normal(size=(ROWS, 64))).astype(np.float32)


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def check_codes(coder, found, X):
    assert found.dtype == np.uint8
    expected = coder.encode(X)
    assert found.shape == expected.shape
    values = np.abs(coder.project(X))
    differ = np.unpackbits(found ^ expected, axis=1).astype(bool)
    assert not differ[:, coder.n_bits_ :].any()  # zero padding
    allowed = values < TIE * np.sqrt(np.mean(values**2))
    assert not (differ[:, : coder.n_bits_] & ~allowed).any()


@pytest.mark.parametrize(
    "coder",
    [
        CBID(n_bits=16),
        CBID(n_bits=21, likeness=0.0),
        CBID(n_bits=21, kernel="rbf", n_anchors=100, likeness=0.0),
        CBID(n_bits=21, kernel="rbf", n_anchors=100, likeness=0.5),
        CBID(n_bits=21, kernel="laplacian", n_anchors=100, likeness=0.5),
        ITQ(n_bits=32),
        KSH(n_bits=12, n_anchors=50),
        LSH(n_bits=100),
        PStableLSH(n_bits=33),
        ShiftInvariantLSH(n_bits=33),
    ],
    ids=lambda coder: f"{type(coder).__name__}-{getattr(coder, 'kernel', None)}-{getattr(coder, 'likeness', None)}",
)
@pytest.mark.parametrize("offset", [0, 1000])
def test_codes_are_those_of_encode(coder, offset, tmp_path):
    X, y = digits()
    shift = np.float32(offset)
    coder = coder.fit(X + shift, y)
    coder.to_onnx(tmp_path / "coder.onnx")
    run = session(tmp_path / "coder.onnx")
    assert [(i.name, i.type, i.shape[1]) for i in run.get_inputs()] == [("X", "tensor(float)", 64)]
    assert [(o.name, o.type) for o in run.get_outputs()] == [("codes", "tensor(uint8)")]
    check_codes(coder, run.run(None, {"X": queries() + shift})[0], queries() + shift)
    assert run.run(None, {"X": queries()[:0]})[0].shape == (0, (coder.n_bits_ + 7) // 8)
    model = onnx.load(tmp_path / "coder.onnx")
    assert [(o.domain, o.version) for o in model.opset_import] == [("", OPSET)]
    assert {"cbid.n_bits": str(coder.n_bits_)}.items() <= {p.key: p.value for p in model.metadata_props}.items()


@pytest.mark.filterwarnings("ignore:.*classes have fewer than:UserWarning", "ignore:learning ended at:UserWarning")
@pytest.mark.parametrize("cls", [c for c in EVERY if issubclass(c, HyperplaneCoder)], ids=lambda cls: cls.__name__)
def test_every_hyperplane_coder(cls, tmp_path):
    X, y = digits()
    coder = make(cls, n_bits=9).fit(X[:250], y[:250])
    coder.to_onnx(tmp_path / "coder.onnx")
    check_codes(coder, session(tmp_path / "coder.onnx").run(None, {"X": X})[0], X)


@pytest.mark.parametrize("likeness", [0.0, 0.5])
def test_bits_over_shares_of_the_classes(likeness, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 40
    X = (1000 + 2 * rng.normal(size=(40, 20))[y] + rng.normal(size=(400, 20))).astype(np.float32)
    coder = CBID(n_bits=40, likeness=likeness).fit(X, y)
    assert hasattr(coder, "class_coef_")
    coder.to_onnx(tmp_path / "coder.onnx")
    check_codes(coder, session(tmp_path / "coder.onnx").run(None, {"X": X})[0], X)


def test_a_prefix_and_patches(tmp_path):
    X, y = digits()
    coder = CBID(n_bits=16).fit(X, y).truncate(5)
    coder.to_onnx(tmp_path / "coder.onnx")
    check_codes(coder, session(tmp_path / "coder.onnx").run(None, {"X": X})[0], X)

    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(5, 6)) + label for label in (0, 1) for _ in range(4)]
    patches = PatchCBID(n_bits=3).fit(bags, [0] * 4 + [1] * 4)
    patches.to_onnx(tmp_path / "patches.onnx")
    rows = np.concatenate(bags).astype(np.float32)
    check_codes(patches, session(tmp_path / "patches.onnx").run(None, {"X": rows})[0], rows)
    patches.location_ = 0.5
    with pytest.raises(ValueError, match="location="):
        patches.to_onnx(tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()


def write_network(path, *, dtype=TensorProto.FLOAT, width=64, opset=17, hidden="codes", rank=2):
    """Write relu(images @ W) with two outputs; an inner value has the name that codes would have."""
    W = np.random.default_rng(1).normal(size=(20, width)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    shape = ["n", width, 1][:rank]
    outputs = [
        helper.make_tensor_value_info("embedding", dtype, shape),
        helper.make_tensor_value_info("scores", dtype, ["n", width]),
    ]
    nodes = [
        helper.make_node("MatMul", ["images", "W"], [hidden]),
        helper.make_node("Relu", [hidden], ["scores"]),
        helper.make_node("Identity", ["scores"], ["embedding"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("images", dtype, ["n", 20])],
        outputs,
        [numpy_helper.from_array(W, "W")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return W


@pytest.mark.parametrize(
    ("dtype", "opset"),
    [(TensorProto.FLOAT, 17), (TensorProto.FLOAT, 13), (TensorProto.FLOAT, 21), (TensorProto.DOUBLE, 18)],
)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_behind_a_network(dtype, opset, kernel, tmp_path):
    W = write_network(tmp_path / "network.onnx", dtype=dtype, opset=opset)
    rng = np.random.default_rng(2)
    images = rng.normal(size=(500, 20)).astype(W.dtype)
    X = np.maximum(images @ W, 0).astype(np.float32)
    coder = CBID(n_bits=11, kernel=kernel, n_anchors=100).fit(X, images[:, 0] > 0)
    coder.to_onnx(tmp_path / "whole.onnx", network=tmp_path / "network.onnx", output="embedding")
    run = session(tmp_path / "whole.onnx")
    assert [i.name for i in run.get_inputs()] == ["images"]
    assert [o.name for o in run.get_outputs()] == ["cbid/codes"]  # the network has a value called codes
    check_codes(coder, run.run(None, {"images": images})[0], X)
    assert {o.version for o in onnx.load(tmp_path / "whole.onnx").opset_import} == {opset}


def test_a_network_without_the_name_codes(tmp_path):
    write_network(tmp_path / "network.onnx", hidden="inner")
    coder = LSH(n_bits=8).fit(digits()[0])
    coder.to_onnx(tmp_path / "whole.onnx", network=tmp_path / "network.onnx", output="scores")
    assert [o.name for o in session(tmp_path / "whole.onnx").get_outputs()] == ["codes"]


@pytest.mark.parametrize(
    ("network", "output", "message"),
    [
        ({}, None, r"output=None: expected an output of .*: embedding, scores"),
        ({}, "logits", r"output='logits': .*: embedding, scores"),
        ({"width": 63}, "scores", r"'scores' of .* shape \(n, 63\): expected real numbers \(n, 64\)"),
        ({"rank": 3}, "embedding", r"shape \(n, 64, 1\): expected"),
        ({"dtype": TensorProto.INT32}, "scores", "has type INT32"),
        ({"opset": 12}, "scores", "has opset 12: expected 13 or newer"),
    ],
)
def test_networks_that_do_not_fit(network, output, message, tmp_path):
    coder = LSH(n_bits=8).fit(digits()[0])
    write_network(tmp_path / "network.onnx", **network)
    with pytest.raises(ValueError, match=message):
        coder.to_onnx(tmp_path / "whole.onnx", network=tmp_path / "network.onnx", output=output)
    assert not (tmp_path / "whole.onnx").exists()


def test_bad_files_and_arguments(tmp_path, monkeypatch):
    coder = LSH(n_bits=8).fit(digits()[0])
    (tmp_path / "text.onnx").write_text("not a network at all")
    with pytest.raises(ValueError, match=r"text\.onnx' is not a valid ONNX file"):
        coder.to_onnx(tmp_path / "whole.onnx", network=tmp_path / "text.onnx")
    with pytest.raises(FileNotFoundError):
        coder.to_onnx(tmp_path / "whole.onnx", network=tmp_path / "missing.onnx")
    with pytest.raises(ValueError, match="output='x': expected None"):
        coder.to_onnx(tmp_path / "whole.onnx", output="x")
    with pytest.raises(NotFittedError):
        LSH().to_onnx(tmp_path / "whole.onnx")
    assert not hasattr(SignEmbedding, "to_onnx")
    monkeypatch.setattr("cbid.coders.onnx_file._MOST_BYTES", 100)
    with pytest.raises(ValueError, match="expected at most 100"):
        coder.to_onnx(tmp_path / "whole.onnx")
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("onnx"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"extra .deep."):
        coder.to_onnx(tmp_path / "whole.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["text.onnx"]
