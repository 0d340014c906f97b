"""Embeddings of images by a network in an ONNX file."""

import mmap
import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cbid.descriptors.base import Descriptor, Image
from cbid.descriptors.preprocessing import Preprocessing
from cbid.extras import missing_extra
from cbid.params import estimator
from cbid.storage.digests import digest_bytes, new_digest

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}
_USUAL_SIZE = 224  # if the network accepts any size
_FEWEST_VALUES = 16  # of an embedding; fewer are likely to be class scores


class Network(NamedTuple):
    """An open network and its input and output."""

    session: Any
    name: str  # of the input
    type: Any
    batch: int  # images per run; 1 if it accepts any number
    layout: str
    channels: int | None
    size: tuple[int | None, int | None]
    outputs: tuple[str, ...]


class NetworkDescriptor(Descriptor):
    """Base class of the embeddings of networks; a subclass opens the network."""

    _threads: ClassVar[bool] = True

    @abstractmethod
    def _open(self) -> tuple[Network, Preprocessing]:
        """Return the network and its preprocessing."""

    def _check_params(self) -> None:
        super()._check_params()
        self._open()

    def describe(self, image: Image) -> NDArray[np.float32]:
        """Return the values (d,) of one image."""
        network, preprocessing = self._open()
        values = preprocessing.finish(_run(network, preprocessing, image))[0]
        if not np.isfinite(values).all():
            raise ValueError("the output of the network is not finite")
        return values


def _run(network: Network, preprocessing: Preprocessing, image: Image) -> NDArray[Any]:
    """Return the output (1, ...) of the network for one image."""
    pixels = preprocessing.apply(image).astype(network.type, copy=False)
    batch = np.repeat(pixels[None], network.batch, axis=0)
    (output,) = network.session.run([preprocessing.output], {network.name: batch})
    return np.asarray(output[:1])


@estimator
class ONNXEmbedding(NetworkDescriptor):
    """The output of a network over images, run by onnxruntime on the CPU (extra ``deep``).

    Parameters
    ----------
    model : path
        An ONNX file with one input over images, (n, channels, h, w) or (n, h, w, channels).
    preprocessing : None, path or mapping
        Preprocessing of images and choice of the output: a JSON file or a dict with some of the entries size, fit,
        crop, interpolation, scale, mean, std, channels, layout, output, pooling and l2. None uses the file beside
        the model with the suffix ``.json``, or the defaults if that is missing.
    layer : str, optional
        The name of an intermediate layer (or of its output) whose values are the embedding, in place of an output of
        the network.
    n_jobs : int, optional
        Number of threads over images. The network runs on one image at a time, in one thread: larger batches are not
        faster on a CPU.
    verbose : int
        1 shows progress.

    Notes
    -----
    The fingerprint depends on the content of the model file (and of files beside it that hold its weights), not on
    its name. ``fit`` warns if the output looks like class scores: few values, or values that sum to one.
    """

    model: str | os.PathLike[str]
    preprocessing: str | os.PathLike[str] | Mapping[str, Any] | None = None
    layer: str | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters and the output of the network; nothing is learned from X."""
        super().fit(X, y)
        self._warn_of_scores()
        return self

    def settings(self) -> dict[str, Any]:
        """Return the settings, with the network and its preprocessing."""
        _, preprocessing = self._open()
        settings = super().settings()
        settings |= {"model": _digest(*_state(self.model)), "preprocessing": asdict(preprocessing)}
        if self.layer is None:
            del settings["layer"]  # fingerprints from before this parameter stay valid
        return settings

    def _warn_of_scores(self) -> None:
        network, preprocessing = self._open()
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        values = replace(preprocessing, l2=False).finish(_run(network, preprocessing, noise))[0]
        if values.size > 1 and values.min() >= 0 and abs(float(values.sum()) - 1) < 1e-3:
            found = f"are not negative and sum to one over {values.size}"
        elif values.size < _FEWEST_VALUES:
            found = f"are only {values.size}"
        else:
            return
        warnings.warn(
            f"{os.fspath(self.model)}: the values of {preprocessing.output!r} {found}, as class scores do; "
            "an embedding is the output of an earlier layer (onnx:FILE#LAYER)",
            UserWarning,
            stacklevel=3,
        )

    def _open(self) -> tuple[Network, Preprocessing]:
        if self.layer is not None and not isinstance(self.layer, str):
            raise ValueError(f"layer={self.layer!r}: expected the name of a layer, or None")
        network = _network(*_state(self.model), self.layer)
        preprocessing = self._preprocessing()
        if self.layer is not None:
            preprocessing = replace(preprocessing, output=network.outputs[-1])
        return network, _fitted(preprocessing, network, self.model)

    def _preprocessing(self) -> Preprocessing:
        given = self.preprocessing
        if isinstance(given, Mapping):
            return Preprocessing.of(given)
        if given is None:
            beside = Path(self.model).with_suffix(".json")
            return Preprocessing.read(beside) if beside.exists() else Preprocessing()
        if not isinstance(given, (str, os.PathLike)):
            raise ValueError(f"preprocessing={given!r}: expected the path of a JSON file, a dict, or None")
        return Preprocessing.read(given)


def _fitted(preprocessing: Preprocessing, network: Network, model: Any) -> Preprocessing:
    """Return the preprocessing with None replaced by the network's values; raise a ValueError if they differ."""
    layout = preprocessing.layout or network.layout
    if layout != network.layout and network.channels is not None:
        raise ValueError(f"layout={layout!r}: the input of {model} is {network.layout}")
    channels = preprocessing.channels or ("gray" if network.channels == 1 else "RGB")
    if network.channels not in (None, 1 if channels == "gray" else 3):
        raise ValueError(f"channels={channels!r}: the input of {model} has {network.channels}")
    size = preprocessing.size or (network.size[0] or _USUAL_SIZE, network.size[1] or _USUAL_SIZE)
    for given, own in zip(size, network.size):
        if own not in (None, given):
            raise ValueError(f"size={list(size)}: the input of {model} has {list(network.size)}")
    output = network.outputs[0] if preprocessing.output is None else preprocessing.output
    if output not in network.outputs:
        raise ValueError(f"output={output!r}: expected an output of {model}: {', '.join(network.outputs)}")
    if network.type == np.uint8:  # the network scales the pixels itself
        for name, usual in (("scale", Preprocessing.scale), ("mean", None), ("std", None)):
            value = getattr(preprocessing, name)
            if value != usual:
                raise ValueError(f"{name}={value!r}: the input of {model} is uint8, which takes pixels as they are")
        preprocessing = replace(preprocessing, scale=1.0, mean=(0.0,), std=(1.0,))
    return preprocessing.settled(size, layout, channels, output)


def _state(model: Any) -> tuple[str, int, int]:
    """Return path, size and modification time, the key of the open network."""
    if not isinstance(model, (str, os.PathLike)):
        raise ValueError(f"model={model!r}: expected the path of an ONNX file")
    try:
        state = os.stat(model)
    except OSError as error:
        raise ValueError(f"model={os.fspath(model)!r} cannot be read: {error.strerror}") from error
    return os.path.abspath(model), state.st_size, state.st_mtime_ns


@lru_cache(maxsize=16)
def _digest(path: str, size: int, time: int) -> str:
    """Return a digest of a model file and of the files beside it that it names (external weights)."""
    digest = new_digest()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        digest.update(content)
        beside = sorted(p for p in Path(path).parent.iterdir() if p.is_file() and p != Path(path))
        named = [p for p in beside if content.find(os.fsencode(p.name)) >= 0]
    for weights in named:
        digest.update(digest_bytes(weights.read_bytes()))
    return digest.hexdigest()


@lru_cache(maxsize=4)
def _network(path: str, size: int, time: int, layer: str | None) -> Network:
    return open_network(path if layer is None else _with_layer(path, layer), f"model={path!r}")


def _with_layer(path: str, layer: str) -> bytes:
    """Return the network with one more output, the last: that of the named layer."""
    try:
        import onnx
    except ImportError as error:
        raise missing_extra("a layer of an ONNX file", "deep") from error
    try:
        model = onnx.load(path)
    except Exception as error:  # protobuf has its own errors
        raise ValueError(f"model={path!r} cannot be opened as an ONNX network: {error}") from error
    nodes = list(model.graph.node)
    names = [output for node in nodes for output in node.output if output]
    chosen = layer if layer in names else next((n.output[0] for n in nodes if n.name == layer and n.output), None)
    if chosen is None:
        close = get_close_matches(layer, names, n=5, cutoff=0.0)
        raise ValueError(f"layer={layer!r}: expected a layer of {path}, such as {', '.join(close)}")
    kept = [output for output in model.graph.output if output.name != chosen]
    del model.graph.output[:]
    model.graph.output.extend([*kept, onnx.ValueInfoProto(name=chosen)])
    content: bytes = model.SerializeToString()
    return content


def open_network(source: str | bytes, name: str) -> Network:
    """Open an ONNX file, given by its path or its content; errors call it ``name``."""
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra("a network", "deep") from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # images run in parallel, see n_jobs
    options.log_severity_level = 3  # errors, which are raised
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the errors of onnxruntime have no common base class
        raise ValueError(f"{name} cannot be opened as an ONNX network: {error}") from error
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(repr(given.name) for given in inputs)
        raise ValueError(f"{name} has {len(inputs)} inputs ({names}); expected one")
    (given,) = inputs
    shape = [length if isinstance(length, int) else None for length in given.shape]
    if len(shape) != 4:
        raise ValueError(f"{name} has an input of shape {given.shape}; expected four axes")
    if given.type not in _TYPES:
        raise ValueError(f"{name} has an input of type {given.type}; expected {', '.join(_TYPES)}")
    layout = "NHWC" if shape[3] in (1, 3) and shape[1] not in (1, 3) else "NCHW"
    channels, h, w = (shape[i] for i in ((3, 1, 2) if layout == "NHWC" else (1, 2, 3)))
    if channels not in (None, 1, 3):
        raise ValueError(f"{name} has an input of shape {given.shape}; expected 1 or 3 channels")
    outputs = tuple(output.name for output in session.get_outputs())
    return Network(session, given.name, _TYPES[given.type], shape[0] or 1, layout, channels, (h, w), outputs)
