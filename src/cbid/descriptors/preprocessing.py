"""What happens to an image before a network, and to the values after it; read from a small JSON file."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cbid.checks import check_integer, check_real
from cbid.data.images import as_gray, as_rgb, to_uint8
from cbid.params import check_params, choice, flag, param, positive, real

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
            # Pillow copies what it gets, with 4 bytes per pixel. So the rows of a large image become short first.
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
