"""Write a hyperplane coder as an ONNX graph, alone or behind the user's own network."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.codes import n_bytes
from cbid.extras import missing_extra
from cbid.storage.atomic import whole_file

OPSET = 17  # of a coder alone; behind a network it is that of the network
INPUT, OUTPUT = "X", "codes"
_OLDEST_OPSET = 13
_MOST_BYTES = 2**31 - 1  # of one protobuf message
_PREFIX = "cbid/"


class OnnxGraph:
    """Nodes and constants of a graph in the order in which they are added; values have names."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: NDArray[Any]) -> str:
        """Return the name of a new constant."""
        name = f"{_PREFIX}constant_{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, op: str, *inputs: str | NDArray[Any], output: str | None = None, **attributes: Any) -> str:
        """Append a node over named values and constant arrays, and return the name of its output."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        output = output or f"{_PREFIX}value_{len(self.nodes)}"
        name = f"{_PREFIX}{op}_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(op, names, [output], name=name, **attributes))
        return output

    def cast(self, value: str, dtype: type[np.generic], output: str | None = None) -> str:
        """Convert a value to another type."""
        to = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", value, to=to, output=output)

    def similarities(self, X: str, anchors: NDArray[np.floating], gamma: float, kernel: str) -> str:
        """Add similarities to anchors, computed as `cbid.learning.features.Anchors` does."""
        centre, unit = anchors.mean(axis=0, dtype=np.float64), np.sqrt(gamma) if kernel == "rbf" else gamma
        points = ((anchors - centre) * unit).astype(np.float32)
        centred = self.add("Sub", self.cast(X, np.float64), centre)
        Z = self.cast(self.add("Mul", centred, np.array(unit)), np.float32)
        if kernel == "laplacian":
            return self.add("Exp", self.add("Neg", self._absolute_distances(Z, points)))
        lengths = self.add("MatMul", self.add("Mul", Z, Z), np.ones((anchors.shape[1], 1), np.float32))
        D = self.add("Add", self.add("MatMul", Z, -2 * points.T), lengths)
        D = self.add("Add", D, np.einsum("ij,ij->i", points, points))
        return self.add("Exp", self.add("Neg", self.add("Relu", D)))

    def _absolute_distances(self, Z: str, points: NDArray[np.float32]) -> str:
        """Add ||z - a||_1, one anchor at a time: all differences together would not fit into memory."""
        helper, FLOAT = self._onnx.helper, self._onnx.TensorProto.FLOAT
        names = [f"{_PREFIX}{name}" for name in ("anchor", "difference", "size", "distance")]
        nodes = [
            helper.make_node("Sub", [Z, names[0]], [names[1]]),
            helper.make_node("Abs", [names[1]], [names[2]]),
            helper.make_node("ReduceSum", [names[2], self.constant(np.array([1]))], [names[3]], keepdims=0),
        ]
        inputs = [helper.make_tensor_value_info(names[0], FLOAT, [points.shape[1]])]
        outputs = [helper.make_tensor_value_info(names[3], FLOAT, None)]
        body = helper.make_graph(nodes, f"{_PREFIX}distance_to_anchor", inputs, outputs)
        return self.add("Transpose", self.add("Scan", points, body=body, num_scan_inputs=1), perm=[1, 0])

    def shares(
        self, X: str, mean: NDArray[np.floating], coef: NDArray[np.floating], intercept: NDArray[np.floating]
    ) -> str:
        """Add the shares of the classes, computed as `cbid.learning.features.ClassShares` does."""
        centred = self.add("Sub", X, mean.astype(np.float32))
        product = self.add("MatMul", centred, coef.T.astype(np.float32))
        return self.add("Softmax", self.add("Add", product, intercept.astype(np.float32)), axis=1)

    def pack(self, values: str, n_bits: int, output: str) -> str:
        """Add the bits of real values (n, n_bits), packed as by ``numpy.packbits``: big, with zero padding."""
        width = n_bytes(n_bits)
        bits = self.cast(self.add("GreaterOrEqual", values, np.zeros((), np.float32)), np.float32)
        if 8 * width > n_bits:
            bits = self.add("Pad", bits, np.array([0, 0, 0, 8 * width - n_bits]))
        in_bytes = self.add("Reshape", bits, np.array([-1, 8]))
        values = self.add("MatMul", in_bytes, 2.0 ** np.arange(7, -1, -1, dtype=np.float32)[:, None])
        return self.cast(self.add("Reshape", values, np.array([-1, width])), np.uint8, output)


def write_onnx(
    coder: Any,
    path: str | os.PathLike[str],
    *,
    network: str | os.PathLike[str] | None = None,
    output: str | None = None,
) -> None:
    """Write ``coder`` to an ONNX file; see `HyperplaneCoder.to_onnx`."""
    onnx = _onnx()
    graph = OnnxGraph(onnx)
    if network is None:
        if output is not None:
            raise ValueError(f"output={output!r}: expected None without a network")
        model, X = _empty(onnx, int(coder.n_features_in_)), INPUT
    else:
        model = _load(onnx, network)
        X = graph.cast(_embedding(onnx, model, network, output, int(coder.n_features_in_)), np.float32)
    taken = {name for node in model.graph.node for name in node.output}
    taken |= {value.name for value in (*model.graph.input, *model.graph.initializer)}
    codes = OUTPUT if OUTPUT not in taken else f"{_PREFIX}{OUTPUT}"
    graph.pack(coder._onnx_values(graph, X), coder.n_bits_, codes)
    model.graph.node.extend(graph.nodes)
    model.graph.initializer.extend(graph.constants)
    del model.graph.output[:]
    shape = ["n", n_bytes(coder.n_bits_)]
    model.graph.output.append(onnx.helper.make_tensor_value_info(codes, onnx.TensorProto.UINT8, shape))
    for key, value in (("cbid.n_bits", str(coder.n_bits_)), ("cbid.coder", type(coder).__name__)):
        model.metadata_props.add(key=key, value=value)
    if model.ByteSize() > _MOST_BYTES:
        raise ValueError(f"the graph takes {model.ByteSize():,} bytes: expected at most {_MOST_BYTES:,} (ONNX)")
    onnx.checker.check_model(model)
    with whole_file(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise missing_extra("to_onnx", "deep") from error
    return onnx


def _empty(onnx: Any, d: int) -> Any:
    X = onnx.helper.make_tensor_value_info(INPUT, onnx.TensorProto.FLOAT, ["n", d])
    graph = onnx.helper.make_graph([], "cbid", [X], [])
    opset = onnx.helper.make_opsetid("", OPSET)
    return onnx.helper.make_model(graph, opset_imports=[opset], producer_name="cbid", ir_version=8)


def _load(onnx: Any, path: str | os.PathLike[str]) -> Any:
    name = os.fspath(path)
    try:
        model = onnx.load(name)
        onnx.checker.check_model(model)
    except OSError:
        raise
    except Exception as error:  # protobuf and onnx have errors of their own
        raise ValueError(f"network={name!r} is not a valid ONNX file: {str(error).strip()[:200]}") from error
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < _OLDEST_OPSET:
        raise ValueError(
            f"network={name!r} has opset {opset}: expected {_OLDEST_OPSET} or newer (see onnx.version_converter)"
        )
    return model


def _embedding(onnx: Any, model: Any, path: str | os.PathLike[str], wanted: str | None, d: int) -> str:
    """Return the name of the output that the coder reads: (n, d) real numbers, unless the file says otherwise."""
    outputs = {output.name: output.type.tensor_type for output in model.graph.output}
    if wanted not in outputs and (wanted is not None or len(outputs) > 1):
        raise ValueError(f"output={wanted!r}: expected an output of {os.fspath(path)}: {', '.join(outputs)}")
    name = next(iter(outputs)) if wanted is None else wanted
    kind, shape = outputs[name].elem_type, [dim.dim_value or dim.dim_param for dim in outputs[name].shape.dim]
    real = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    width_differs = len(shape) != 2 or (isinstance(shape[1], int) and shape[1] != d)
    if kind not in real or (outputs[name].HasField("shape") and width_differs):
        raise ValueError(
            f"the output {name!r} of {os.fspath(path)} has type {onnx.TensorProto.DataType.Name(kind)} and shape "
            f"({', '.join(map(str, shape))}): expected real numbers (n, {d}), the features of the coder"
        )
    return name
