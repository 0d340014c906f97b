"""Embeddings of images by a network in an ONNX file, with preprocessing as set in a small JSON file."""

import json
import math
import mmap
import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer, check_real
from cbid.data.images import as_gray, as_rgb, to_uint8
from cbid.descriptors.base import Descriptor, Image
from cbid.extras import missing_extra
from cbid.params import check_params, choice, estimator, flag, param, positive, real
from cbid.storage.atomic import check_regular
from cbid.storage.digests import digest_bytes, new_digest

_USUAL = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])  # mean and std of ImageNet, red, green, blue
_LARGE = 2**22  # pixels


@dataclass(frozen=True)
class Preprocessing:
    """The steps before and after a network.

    The pixels given to the network are (scale v - mean) / std, with v from 0 to 255. The defaults are those of most
    networks trained on ImageNet. None means the value of the network, and the mean and std of ImageNet.

    size: height and width of the input; one number stands for both.
    fit: "crop" cuts the largest centred part of the right shape, "stretch" takes the whole image.
    crop: the part of each side of that centred part that is kept.
    interpolation: "bilinear", "bicubic" (both over the area that a new pixel covers) or "nearest".
    scale, mean, std: numbers; mean and std one for all channels or one for each, in the network's order of channels.
        A network whose input is uint8 gets the pixels as they are, without these.
    channels: "RGB", "BGR" or "gray".
    layout: "NCHW" or "NHWC", of the input and of outputs with four axes.
    output: the name of the output to take; None is the first.
    pooling: of outputs with more than two axes, over positions (or tokens): "mean", "max", "first" (token) or
        "flatten".
    l2: whether values are scaled to unit length.
    """

    size: tuple[int, int] | None = None
    fit: str = param("crop", choice("crop", "stretch"))
    crop: float = param(0.875, real(0, 1 + 1e-9, open_below=True))
    interpolation: str = param("bilinear", choice("bilinear", "bicubic", "nearest"))
    scale: float = param(1 / 255, positive)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    channels: str | None = param(None, choice(None, "RGB", "BGR", "gray"))
    layout: str | None = param(None, choice(None, "NCHW", "NHWC"))
    output: str | None = None
    pooling: str = param("mean", choice("mean", "max", "first", "flatten"))
    l2: bool = param(True, flag)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a JSON file; a ValueError names the file and the entry."""
        try:
            check_regular(path)
            entries = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"{os.fspath(path)} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # neither UTF-8 nor JSON, or too deep
            raise ValueError(f"{os.fspath(path)} is not a JSON file: {error}") from error
        try:
            return cls.of(entries)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error

    @classmethod
    def of(cls, entries: Any) -> Self:
        """Return the preprocessing of a mapping; missing fields have their defaults."""
        if not isinstance(entries, Mapping):
            raise ValueError(f"preprocessing is a {type(entries).__name__}: expected an object with named entries")
        names = [field.name for field in fields(cls)]
        for name in entries:
            if name not in names:
                raise ValueError(f"preprocessing has an entry {name!r}: expected {', '.join(names)}")
        given = dict(entries)
        for name, above in (("mean", -math.inf), ("std", 0)):
            if given.get(name) is not None:
                given[name] = _numbers(name, given[name], above)
        if given.get("size") is not None:
            given["size"] = _size(given["size"])
        made = cls(**given)
        check_params(made)
        if made.output is not None and not isinstance(made.output, str):
            raise ValueError(f"output={made.output!r}: expected the name of an output")
        return made

    def settled(self, size: tuple[int, int], layout: str, channels: str, output: str) -> Self:
        """Return a copy with these values and the mean and std to use."""
        usual = {"RGB": _USUAL, "BGR": _USUAL[:, ::-1], "gray": _USUAL.mean(axis=1, keepdims=True)}[channels]
        mean, std = (given or tuple(own.tolist()) for given, own in zip((self.mean, self.std), usual))
        for name, numbers in (("mean", mean), ("std", std)):
            if len(numbers) not in (1, usual.shape[1]):
                raise ValueError(
                    f"{name} has {len(numbers)} numbers: expected 1 or {usual.shape[1]}, one per channel"
                )
        return replace(self, size=size, layout=layout, channels=channels, output=output, mean=mean, std=std)

    def apply(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Return the input for one image, (channels, h, w) or (h, w, channels) by the layout."""
        from PIL import Image

        assert self.size is not None, "known once the network is open"
        pixels, channels = to_uint8(image), as_gray if self.channels == "gray" else as_rgb
        height, width = self.size
        method = Image.Resampling[self.interpolation.upper()]
        left, top, right, bottom = self._box(*pixels.shape[:2])
        if (n := len(pixels) * pixels.shape[1]) > _LARGE and pixels.shape[1] > width:
            # Pillow copies its input, with 4 bytes per pixel. So the rows of a large image are shortened first.
            pixels = np.concatenate([
                Image.fromarray(channels(band)).resize((width, len(band)), method, (left, 0, right, len(band)))
                for band in np.array_split(pixels, min(len(pixels), math.ceil(4 * n / _LARGE)))
            ])  # fmt: skip
            left, right = 0, width
        whole = Image.fromarray(channels(pixels))
        resized = np.asarray(whole.resize((width, height), method, (left, top, right, bottom)), dtype=np.float32)
        resized = resized.reshape(height, width, -1)
        if self.channels == "BGR":
            resized = resized[:, :, ::-1]
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        values = (resized * np.float32(self.scale) - mean) / std
        return np.ascontiguousarray(values.transpose(2, 0, 1) if self.layout == "NCHW" else values)

    def _box(self, h: int, w: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the part of an image that is used."""
        if self.fit == "stretch":
            return 0, 0, w, h
        assert self.size is not None
        height, width = self.size
        ratio = self.crop * min(h / height, w / width)  # old pixels for a new one
        half_y, half_x = ratio * height / 2, ratio * width / 2
        return max(0, w / 2 - half_x), max(0, h / 2 - half_y), min(w, w / 2 + half_x), min(h, h / 2 + half_y)

    def finish(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Return one row per image (n, d) of an output (n, d), (n, tokens, d), or with four axes by the layout."""
        values = np.asarray(values, dtype=np.float32)
        if self.pooling != "flatten" and values.ndim > 2:
            if values.ndim == 4 and self.layout == "NCHW":
                values = values.transpose(0, 2, 3, 1)
            values = values.reshape(len(values), -1, values.shape[-1])
            if self.pooling == "first":
                values = values[:, 0]
            else:
                values = values.mean(axis=1) if self.pooling == "mean" else values.max(axis=1)
        values = values.reshape(len(values), -1)
        if self.l2:
            lengths = np.linalg.norm(values, axis=1, keepdims=True)
            values = values / np.where(lengths > 0, lengths, np.float32(1))
        return np.ascontiguousarray(values)


def _numbers(name: str, value: Any, above: float) -> tuple[float, ...]:
    numbers = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for number in numbers:
        check_real(name, number, above, open_below=True)
    return tuple(float(number) for number in numbers)


def _size(value: Any) -> tuple[int, int]:
    sides = tuple(value) if isinstance(value, (list, tuple)) else (value, value)
    if len(sides) != 2:
        raise ValueError(f"size={value!r}: expected one number, or height and width")
    for side in sides:
        check_integer("size", side, 1, 10_000)
    return int(sides[0]), int(sides[1])


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
