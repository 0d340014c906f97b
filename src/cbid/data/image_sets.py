"""Images that are read one at a time, with their names and labels, whatever they come from."""

import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.data.decode import MAX_PIXELS, ImageError, decode_image, read_bytes, reason_of
from cbid.data.images import check_image
from cbid.data.names import Names, printable, row_numbers
from cbid.storage.digests import new_digest

__all__ = ["ImageFiles", "ImageItems", "ImageSet", "as_image_set", "content_digest"]

Image = NDArray[Any]
Problems = list[tuple[str, str]]


class ImageSet(Sequence[Image], metaclass=ABCMeta):
    """A sequence of images; item i is read when it is asked for.

    names: one for each image.
    labels: (n,) int64, each the place of its class in ``classes``, -1 where none is given; or None.
    classes: (c,) array, sorted; the labels as they were given. None without labels.
    problems: (name, reason) of what was found but left out.

    An index array, a mask or a slice gives a smaller set, which is as lazy.
    """

    names: Names
    labels: NDArray[np.int64] | None = None
    classes: NDArray[Any] | None = None

    def __init__(self) -> None:
        self.problems: Problems = []

    @abstractmethod
    def load(self, i: int) -> bytes | Image:
        """Item i as it is kept: the bytes of an image file, or an array."""

    @abstractmethod
    def path(self, i: int) -> Path | None:
        """The file of image i, or None where there is none."""

    @abstractmethod
    def take(self, rows: ArrayLike) -> Self:
        """The images of these rows (indices or a mask), in this order."""

    def read(self, i: int) -> Image:
        """Image i as an array; an ``ImageError`` names it if it cannot be had."""
        try:
            return self.decode(self.load(i))
        except (ImageError, OSError) as error:
            raise ImageError(f"{printable(self.names[i])}: {reason_of(error)}") from error

    def decode(self, item: bytes | Image) -> Image:
        """An image from what ``load`` gave."""
        return decode_image(item) if isinstance(item, bytes) else check_image(item)

    def digest(self, i: int) -> bytes:
        """16 bytes that are the same for the same content, whatever its name."""
        return content_digest(self.load(i))

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self.take(np.arange(*i.indices(len(self))))
        return self.read(range(len(self))[i]) if np.ndim(i) == 0 else self.take(i)

    def _take_labels(self, other: Self, index: NDArray[np.int64]) -> Self:
        other.labels = None if self.labels is None else self.labels[index]
        other.classes = self.classes
        return other

    def __repr__(self) -> str:
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        return f"<{type(self).__name__}: {len(self)} images{classes}>"


class ImageFiles(ImageSet):
    """Image files under one folder (or with absolute names), read one at a time; the set itself holds names only."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        names: Names | Iterable[str | bytes],
        labels: NDArray[np.int64] | None = None,
        classes: NDArray[Any] | None = None,
        *,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        super().__init__()
        self.root = os.fspath(root)
        self.names: Names = names if isinstance(names, Names) else Names(names)
        self.labels, self.classes, self.max_pixels = labels, classes, max_pixels

    def __len__(self) -> int:
        return len(self.names)

    def path(self, i: int) -> Path:
        return Path(os.path.join(self.root, os.fsdecode(self.names.raw(i))))

    def load(self, i: int) -> bytes:
        return read_bytes(self.path(i), max_pixels=self.max_pixels)

    def decode(self, item: bytes | Image) -> Image:
        return decode_image(item, max_pixels=self.max_pixels) if isinstance(item, bytes) else check_image(item)

    def take(self, rows: ArrayLike) -> "ImageFiles":
        index = row_numbers(rows, len(self))
        taken = ImageFiles(self.root, self.names.take(index), max_pixels=self.max_pixels)
        return self._take_labels(taken, index)


class ImageItems(ImageSet):
    """Images given one by one: arrays, paths, or bytes of image files; also one array (n, h, w) or (n, h, w, 3)."""

    def __init__(
        self,
        items: Sequence[Any] | NDArray[Any],
        names: Names | Iterable[str | bytes] | None = None,
        labels: NDArray[np.int64] | None = None,
        classes: NDArray[Any] | None = None,
    ) -> None:
        super().__init__()
        self.items = items
        if names is None:
            names = (os.fspath(v) if isinstance(v, (str, os.PathLike)) else f"image {i}" for i, v in enumerate(items))
        self.names: Names = names if isinstance(names, Names) else Names(names)
        self.labels, self.classes = labels, classes

    def __len__(self) -> int:
        return len(self.items)

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
        return self._take_labels(ImageItems(items, self.names.take(index)), index)


def as_image_set(X: Any) -> ImageSet:
    """What descriptors take: a set as it is, an array of images, or any iterable of arrays and paths."""
    if isinstance(X, ImageSet):
        return X
    if isinstance(X, (str, bytes, os.PathLike)):
        raise ValueError(f"X={X!r:.80} is one image; give a sequence of images or paths, or open_source(folder)")
    return ImageItems(X if isinstance(X, (Sequence, np.ndarray)) else list(X))


def content_digest(item: bytes | Image) -> bytes:
    """16 bytes of BLAKE2b over a file's bytes, or over an array's values, type and shape."""
    # The number is raised when the same bytes come to be read as other pixels.
    digest = new_digest(person=b"cbid image 1")
    if isinstance(item, bytes):
        digest.update(item)
    else:
        digest.update(f"array {item.dtype.str} {item.shape}\n".encode())
        digest.update(np.ascontiguousarray(item).data)
    return digest.digest()
