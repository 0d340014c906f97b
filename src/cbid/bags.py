"""Bags of local descriptors: one image, many rows, and where in the image each was taken."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Bags"]


class Bags(Sequence[NDArray[np.float32]]):
    """The local descriptors of n images, one after the other in one array.

    values: (m, d) float32, the rows of all images.
    offsets: (n + 1,) int64; image i has rows offsets[i] to offsets[i + 1].
    frames: (m, 3) float32 or None; the centre x, y and the side of each patch, in pixels of the image as described.
    shapes: (n, 2) int64 or None; height and width of that image.

    >>> bags = Bags.from_list([np.zeros((2, 128)), np.ones((3, 128))])
    >>> len(bags), bags[1].shape, bags.sizes.tolist()
    (2, (3, 128), [2, 3])
    """

    def __init__(
        self,
        values: ArrayLike,
        offsets: ArrayLike,
        frames: ArrayLike | None = None,
        shapes: ArrayLike | None = None,
    ) -> None:
        values, offsets = _array("values", values, np.float32), _array("offsets", offsets, np.int64)
        frames = None if frames is None else _array("frames", frames, np.float32)
        shapes = None if shapes is None else _array("shapes", shapes, np.int64)
        if values.ndim != 2:
            raise ValueError(f"values has shape {values.shape}; give the rows of all images, (m, d)")
        if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(values):
            raise ValueError(f"offsets must start at 0 and end at the number of rows, {len(values)}")
        if (np.diff(offsets) < 0).any():
            raise ValueError("offsets must not decrease")
        if frames is not None and frames.shape != (len(values), 3):
            raise ValueError(f"frames has shape {frames.shape}; give x, y and side of each row, ({len(values)}, 3)")
        if shapes is not None and shapes.shape != (len(offsets) - 1, 2):
            raise ValueError(f"shapes has shape {shapes.shape}; give height and width, ({len(offsets) - 1}, 2)")
        self.values, self.offsets, self.frames, self.shapes = values, offsets, frames, shapes

    @classmethod
    def from_list(
        cls,
        bags: Sequence[ArrayLike],
        frames: Sequence[ArrayLike] | None = None,
        shapes: Sequence[tuple[int, int]] | None = None,
    ) -> Self:
        """Join one (m_i, d) array per image; an image without descriptors is a (0, d) array."""
        arrays = [_rows(bag, i) for i, bag in enumerate(bags)]
        if not arrays:
            raise ValueError("bags is empty; give one (m_i, d) array for each image")
        for i, array in enumerate(arrays):
            if array.shape[1] != arrays[0].shape[1]:
                raise ValueError(f"bag {i} has shape {array.shape}; bag 0 has {arrays[0].shape}: widths must agree")
        offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
        joined = None if frames is None else np.concatenate([np.asarray(f, dtype=np.float32) for f in frames])
        sizes = None if shapes is None else np.asarray(shapes, dtype=np.int64).reshape(-1, 2)
        return cls(np.concatenate(arrays), offsets, joined, sizes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each image, (n,)."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The image of each row, (m,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: Any) -> NDArray[np.float32]:  # type: ignore[override]
        """The rows of image i, (m_i, d): a view."""
        i = range(len(self))[i]
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        return (self[i] for i in range(len(self)))

    def take(self, images: ArrayLike) -> "Bags":
        """The bags of these images, in this order."""
        index = np.arange(len(self))[np.asarray(images)]
        sizes = self.sizes[index]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[index] - offsets[:-1], sizes)
        return self.take_rows(rows, offsets, None if self.shapes is None else self.shapes[index])

    def take_rows(
        self, rows: NDArray[np.integer], offsets: NDArray[np.int64], shapes: NDArray[np.int64] | None
    ) -> "Bags":
        """Bags of chosen rows, cut into images by new offsets."""
        return Bags(self.values[rows], offsets, None if self.frames is None else self.frames[rows], shapes)

    def sample(self, most: int, rng: np.random.Generator) -> "Bags":
        """At most ``most`` rows of each image, drawn without replacement, in their old order."""
        chosen = [
            start + np.sort(rng.choice(size, most, replace=False)) if size > most else start + np.arange(size)
            for start, size in zip(self.offsets, self.sizes)
        ]
        offsets = np.concatenate([[0], np.cumsum([len(c) for c in chosen])]).astype(np.int64)
        return self.take_rows(np.concatenate(chosen).astype(np.int64), offsets, self.shapes)


def _array(name: str, given: ArrayLike, dtype: type[np.number]) -> NDArray[Any]:
    """An array as it is, which may be mapped from a file; anything else as an array of this type."""
    if isinstance(given, np.ndarray):
        return given
    try:
        array = np.asarray(given)
        return array.astype(dtype, casting="same_kind" if array.size else "unsafe", copy=False)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is no array of numbers that can be {np.dtype(dtype)}: {error}") from error


def _rows(bag: ArrayLike, i: int) -> NDArray[np.float32]:
    try:
        array = np.asarray(bag, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise ValueError(f"bag {i} is no array of numbers: {error}") from error
    if array.ndim != 2:
        raise ValueError(f"bag {i} has shape {array.shape}; a row for each descriptor, (m_i, d), is accepted")
    return array
