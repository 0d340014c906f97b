"""The rows that a patch classifier keeps: class by class, and within a class image by image."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PatchStore", "UnknownImageError"]

Rows = NDArray[Any]


class UnknownImageError(KeyError):
    """No image with this id is stored."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr


class PatchStore:
    """Rows (n, width) of each class, one array a class, with the id and the number of rows of every image in it."""

    def __init__(self) -> None:
        self.parts: list[Rows] = []
        self.ids: list[list[Hashable]] = []
        self.sizes: list[list[int]] = []
        self._class_of: dict[Hashable, int] = {}

    def copied(self) -> "PatchStore":
        """Another store of the same rows, which are shared: they are replaced where they change."""
        other = PatchStore()
        other.parts = list(self.parts)
        other.ids, other.sizes = [list(ids) for ids in self.ids], [list(sizes) for sizes in self.sizes]
        other._number()
        return other

    @property
    def n_images(self) -> int:
        return len(self._class_of)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def __contains__(self, image: Hashable) -> bool:
        return image in self._class_of

    def new_ids(self, ids: Sequence[Any] | None, n: int) -> list[Hashable]:
        """Ids for n more images: those given, checked, or the integers from above the largest one on."""
        if ids is None:
            start = 1 + max((image for image in self._class_of if isinstance(image, int)), default=-1)
            return list(range(start, start + n))
        given = [image.item() if isinstance(image, np.generic) else image for image in ids]
        if len(given) != n:
            raise ValueError(f"ids has {len(given)} entries for {n} images; give one for each")
        seen: set[Hashable] = set()
        for image in given:
            if not isinstance(image, (int, str)) or isinstance(image, bool):
                raise ValueError(f"ids holds {image!r}; integers and strings are accepted")
            if image in self or image in seen:
                raise ValueError(f"ids holds {image!r}, which another image has already")
            seen.add(image)
        return given

    def insert_class(self, at: int) -> None:
        """A new class before class ``at``; it needs an image before anything is asked of it."""
        self.parts.insert(at, np.empty((0, 0), np.uint8))
        self.ids.insert(at, [])
        self.sizes.insert(at, [])
        self._number()

    def add(self, of_class: int, rows: Sequence[Rows], ids: Iterable[Hashable]) -> None:
        """Images of one class, the rows of each."""
        before = [self.parts[of_class]] if self.sizes[of_class] else []
        self.parts[of_class] = np.concatenate([*before, *rows])
        self.sizes[of_class] += [len(part) for part in rows]
        self.ids[of_class] += ids
        self._number()

    def remove(self, image: Hashable) -> int:
        """Forget an image; returns its class, which may have none left."""
        if image not in self._class_of:
            raise UnknownImageError(f"no image has the id {image!r}")
        c = self._class_of[image]
        i = self.ids[c].index(image)
        start = sum(self.sizes[c][:i])
        self.parts[c] = np.delete(self.parts[c], slice(start, start + self.sizes[c][i]), axis=0)
        del self.ids[c][i], self.sizes[c][i]
        self._number()
        return c

    def drop_class(self, at: int) -> None:
        """Forget a class, with whatever images it has."""
        del self.parts[at], self.ids[at], self.sizes[at]
        self._number()

    def _number(self) -> None:
        self._class_of = {image: c for c, ids in enumerate(self.ids) for image in ids}

    # As arrays, for files

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "rows": np.concatenate(self.parts),
            "sizes": np.array([size for sizes in self.sizes for size in sizes], np.int64),
            "images": np.array([len(ids) for ids in self.ids], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], ids: list[Hashable]) -> "PatchStore":
        """A ValueError tells of arrays that do not fit together."""
        rows, sizes, images = (arrays[name] for name in ("rows", "sizes", "images"))
        fits = rows.ndim == 2 and sizes.ndim == images.ndim == 1 and sizes.dtype == images.dtype == np.int64
        if not fits or min(sizes.min(initial=0), images.min(initial=0)) < 0:
            raise ValueError("rows, sizes and images are not what they should be")
        if sizes.sum() != len(rows) or not images.sum() == len(sizes) == len(ids):
            raise ValueError("rows, images and classes do not fit together")
        if len(set(ids)) < len(ids):
            raise ValueError("two images have one id")
        store = cls()
        image = row = 0
        for count in images.tolist():
            of_class = sizes[image : image + count].tolist()
            store.parts.append(rows[row : row + sum(of_class)])
            store.sizes.append(of_class)
            store.ids.append(ids[image : image + count])
            image, row = image + count, row + sum(of_class)
        store._number()
        return store
