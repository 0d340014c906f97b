"""The rows that a patch classifier stores, by class and image."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PatchStore", "UnknownImageError"]

Rows = NDArray[Any]


class UnknownImageError(KeyError):
    """The id belongs to no stored image."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError shows the repr


class PatchStore:
    """One array of rows (n, width) for each class, with the id and the number of rows of each of its images."""

    def __init__(self) -> None:
        self.parts: list[Rows] = []
        self.ids: list[list[Hashable]] = []
        self.sizes: list[list[int]] = []
        self._class_of: dict[Hashable, int] = {}

    def copy(self) -> "PatchStore":
        """Return a copy that shares the arrays, which are replaced, never changed."""
        other = PatchStore()
        other.parts = list(self.parts)
        other.ids, other.sizes = [list(ids) for ids in self.ids], [list(sizes) for sizes in self.sizes]
        other._index_images()
        return other

    @property
    def n_images(self) -> int:
        """The number of images."""
        return len(self._class_of)

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return sum(part.nbytes for part in self.parts)

    def __contains__(self, image: Hashable) -> bool:
        return image in self._class_of

    def new_ids(self, ids: Sequence[Any] | None, n: int) -> list[Hashable]:
        """Return ids for n new images: the given ones, checked, or integers from the largest id + 1 on."""
        if ids is None:
            start = 1 + max((image for image in self._class_of if isinstance(image, int)), default=-1)
            return list(range(start, start + n))
        given = [image.item() if isinstance(image, np.generic) else image for image in ids]
        if len(given) != n:
            raise ValueError(f"ids has {len(given)} entries; expected {n}, one for each image")
        seen: set[Hashable] = set()
        for image in given:
            if not isinstance(image, (int, str)) or isinstance(image, bool):
                raise ValueError(f"ids holds {image!r}; expected integers or strings")
            if image in self or image in seen:
                raise ValueError(f"ids holds {image!r}, the id of another image")
            seen.add(image)
        return given

    def insert_class(self, at: int) -> None:
        """Insert an empty class before class ``at``; add an image before the store is used."""
        self.parts.insert(at, np.empty((0, 0), np.uint8))
        self.ids.insert(at, [])
        self.sizes.insert(at, [])
        self._index_images()

    def add(self, class_number: int, rows: Sequence[Rows], ids: Iterable[Hashable]) -> None:
        """Add the rows of each image of one class."""
        before = [self.parts[class_number]] if self.sizes[class_number] else []
        self.parts[class_number] = np.concatenate([*before, *rows])
        self.sizes[class_number] += [len(part) for part in rows]
        self.ids[class_number] += ids
        self._index_images()

    def remove(self, image: Hashable) -> int:
        """Remove an image and return its class, which may now be empty."""
        if image not in self._class_of:
            raise UnknownImageError(f"image={image!r}: no stored image has this id")
        c = self._class_of[image]
        i = self.ids[c].index(image)
        start = sum(self.sizes[c][:i])
        self.parts[c] = np.delete(self.parts[c], slice(start, start + self.sizes[c][i]), axis=0)
        del self.ids[c][i], self.sizes[c][i]
        self._index_images()
        return c

    def drop_class(self, at: int) -> None:
        """Remove a class with its images."""
        del self.parts[at], self.ids[at], self.sizes[at]
        self._index_images()

    def _index_images(self) -> None:
        self._class_of = {image: c for c, ids in enumerate(self.ids) for image in ids}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the content as arrays for a file, without the ids."""
        return {
            "rows": np.concatenate(self.parts),
            "sizes": np.array([size for sizes in self.sizes for size in sizes], np.int64),
            "images": np.array([len(ids) for ids in self.ids], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], ids: list[Hashable]) -> "PatchStore":
        """Restore a store; raise a ValueError if the arrays do not fit together."""
        rows, sizes, images = (arrays[name] for name in ("rows", "sizes", "images"))
        fits = rows.ndim == 2 and sizes.ndim == images.ndim == 1 and sizes.dtype == images.dtype == np.int64
        if not fits or min(sizes.min(initial=0), images.min(initial=0)) < 0:
            raise ValueError("rows, sizes or images have a wrong shape or type")
        if sizes.sum() != len(rows) or not images.sum() == len(sizes) == len(ids):
            raise ValueError("rows, images and classes do not fit together")
        if len(set(ids)) < len(ids):
            raise ValueError("two images have one id")
        store = cls()
        image = row = 0
        for count in images.tolist():
            class_sizes = sizes[image : image + count].tolist()
            store.parts.append(rows[row : row + sum(class_sizes)])
            store.sizes.append(class_sizes)
            store.ids.append(ids[image : image + count])
            image, row = image + count, row + sum(class_sizes)
        store._index_images()
        return store
