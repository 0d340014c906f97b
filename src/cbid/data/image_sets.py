"""Sets of images with names and labels; images are read one at a time.

Names are kept in little memory and may hold any bytes.
"""

import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.data.decode import MAX_PIXELS, ImageError, decode_image, read_bytes, reason_of
from cbid.data.images import check_image
from cbid.data.isolated import DecodeLimits, decode_isolated
from cbid.storage.digests import new_digest
from cbid.text import printable

Image = NDArray[Any]
Problems = list[tuple[str, str]]
_Set = TypeVar("_Set", bound="ImageSet")


class Names(Sequence[str]):
    """A sequence of file names, stored as bytes in one buffer.

    Item i is text, in which bytes that are not UTF-8 appear as ``\\xff``. ``raw(i)`` returns the bytes.

    Examples
    --------
    >>> names = Names(["a/1.jpg", b"caf\\xe9.jpg"])
    >>> list(names), names.raw(1)
    (['a/1.jpg', 'caf\\\\xe9.jpg'], b'caf\\xe9.jpg')
    """

    def __init__(self, names: Iterable[str | bytes]) -> None:
        encoded = [name if isinstance(name, bytes) else os.fsencode(name) for name in names]
        self._buffer = b"".join(encoded)
        self._ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends)

    def raw(self, i: int) -> bytes:
        """Return name i as bytes."""
        i = range(len(self))[i]
        return self._buffer[self._ends[i - 1] if i else 0 : self._ends[i]]

    def __getitem__(self, i: Any) -> str:
        return self.raw(i).decode("utf-8", "backslashreplace")

    def take(self, rows: ArrayLike) -> "Names":
        """Return the names of these rows, in this order."""
        return Names(self.raw(i) for i in row_numbers(rows, len(self)).tolist())

    def __repr__(self) -> str:
        return f"<{len(self)} names>"


def row_numbers(rows: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return indices (negative ones allowed) or a mask of n rows as indices from 0 to n - 1."""
    index = np.asarray(rows)
    if index.dtype == bool:
        if index.shape != (n,):
            raise IndexError(f"the mask has shape {index.shape}: expected ({n},)")
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise IndexError(f"rows have type {index.dtype} and shape {index.shape}: expected integers (m,) or a mask")
    index = index.astype(np.int64)
    if index.size and (index.min() < -n or index.max() >= n):
        raise IndexError(f"rows from {index.min()} to {index.max()}: expected less than {n}")
    return np.where(index < 0, index + n, index)


class ImageSet(Sequence[Image], metaclass=ABCMeta):
    """A lazy sequence of images: item i is read on access.

    An index array, a mask or a slice gives a smaller set, which is also lazy.

    Attributes
    ----------
    names : Names
        One for each image.
    labels : array (n,) of int64, or None
        The index of each image's class in ``classes``; -1 if the label is missing.
    classes : array (c,), or None
        The sorted labels.
    label_sets : list of n lists, or None
        The labels of each image, if the source gives several; ``labels`` and ``classes`` are then None.
    problems : list of (name, reason)
        What was found but skipped.
    limits : DecodeLimits or None
        Files are decoded in separate processes with these limits; None, the default: in this process.
    """

    max_pixels: int = MAX_PIXELS
    label_sets: list[list[Any]] | None = None
    limits: DecodeLimits | None = None

    def __init__(
        self,
        names: Names | Iterable[str | bytes],
        labels: NDArray[np.int64] | None = None,
        classes: NDArray[Any] | None = None,
    ) -> None:
        self.names = names if isinstance(names, Names) else Names(names)
        self.labels, self.classes = labels, classes
        self.problems: Problems = []

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def load(self, i: int) -> bytes | Image:
        """Return item i as stored: the bytes of an image file, or an array."""

    @abstractmethod
    def path(self, i: int) -> Path | None:
        """Return the file of image i, or None."""

    @abstractmethod
    def take(self, rows: ArrayLike) -> "ImageSet":
        """Return the set of these rows (indices or a mask), in this order."""

    def _labelled(self, part: _Set, index: NDArray[np.int64]) -> _Set:
        """Give a part of this set the labels of its rows."""
        part.labels, part.classes = None if self.labels is None else self.labels[index], self.classes
        part.limits = self.limits
        if self.label_sets is not None:
            part.label_sets = [self.label_sets[i] for i in index.tolist()]
        return part

    def read(self, i: int) -> Image:
        """Return image i as an array; raise an ``ImageError`` with its name if it cannot be read."""
        try:
            return self.decode(self.load(i))
        except (ImageError, OSError) as error:
            raise ImageError(f"{printable(self.names[i])}: {reason_of(error)}") from error

    def decode(self, item: bytes | Image) -> Image:
        """Return the image of a result of ``load``."""
        if not isinstance(item, bytes):
            return check_image(item)
        if self.limits is None:
            return decode_image(item, max_pixels=self.max_pixels)
        return decode_isolated(item, replace(self.limits, max_pixels=self.max_pixels))

    def digest(self, i: int) -> bytes:
        """Return a digest of the content of image i, 16 bytes."""
        return content_digest(self.load(i))

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self.take(np.arange(*i.indices(len(self))))
        return self.read(range(len(self))[i]) if np.ndim(i) == 0 else self.take(i)

    def __repr__(self) -> str:
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        return f"<{type(self).__name__}: {len(self)} images{classes}>"


class ImageFiles(ImageSet):
    """Image files in a folder (or with absolute names); the set holds only their names."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        names: Names | Iterable[str | bytes],
        labels: NDArray[np.int64] | None = None,
        classes: NDArray[Any] | None = None,
        *,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        super().__init__(names, labels, classes)
        self.root, self.max_pixels = os.fspath(root), max_pixels

    def path(self, i: int) -> Path:
        return Path(os.path.join(self.root, os.fsdecode(self.names.raw(i))))

    def load(self, i: int) -> bytes:
        return read_bytes(self.path(i), max_pixels=self.max_pixels)

    def take(self, rows: ArrayLike) -> "ImageFiles":
        index = row_numbers(rows, len(self))
        part = ImageFiles(self.root, self.names.take(index), max_pixels=self.max_pixels)
        return self._labelled(part, index)


class ImageItems(ImageSet):
    """A sequence of arrays, paths or bytes of image files; or one array (n, h, w) or (n, h, w, 3)."""

    def __init__(
        self,
        items: Sequence[Any] | NDArray[Any],
        names: Names | Iterable[str | bytes] | None = None,
        labels: NDArray[np.int64] | None = None,
        classes: NDArray[Any] | None = None,
    ) -> None:
        if names is None:
            names = (os.fspath(v) if isinstance(v, (str, os.PathLike)) else f"image {i}" for i, v in enumerate(items))
        super().__init__(names, labels, classes)
        self.items = items

    def path(self, i: int) -> Path | None:
        item = self.items[i]
        return Path(item) if isinstance(item, (str, os.PathLike)) else None

    def load(self, i: int) -> bytes | Image:
        item = self.items[i]
        if isinstance(item, (str, os.PathLike)):
            return read_bytes(item)
        return item if isinstance(item, bytes) else np.asarray(item)

    def take(self, rows: ArrayLike) -> "ImageItems":
        index = row_numbers(rows, len(self))
        items = self.items[index] if isinstance(self.items, np.ndarray) else [self.items[i] for i in index]
        return self._labelled(ImageItems(items, self.names.take(index)), index)


def as_image_set(X: Any) -> ImageSet:
    """Return an ``ImageSet`` of X: a set, an array of images, or an iterable of arrays and paths."""
    if isinstance(X, ImageSet):
        return X
    if isinstance(X, (str, bytes, os.PathLike)):
        raise ValueError(f"X={X!r:.80}: expected a sequence of images or paths, or open_source(folder)")
    return ImageItems(X if isinstance(X, (Sequence, np.ndarray)) else list(X))


def content_digest(item: bytes | Image) -> bytes:
    """Return a digest of a file's bytes, or of an array's values, type and shape; 16 bytes."""
    # Increase the number if decoding changes: the same bytes then give other pixels.
    digest = new_digest(person=b"cbid image 1")
    if isinstance(item, bytes):
        digest.update(item)
    else:
        digest.update(f"array {item.dtype.str} {item.shape}\n".encode())
        digest.update(np.ascontiguousarray(item).data)
    return digest.digest()
