"""Bags of local descriptors: many rows per image, and the place of each row in its image."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Largest squared length of a descriptor: the squared distance of two is then finite in float32.
_MOST_SQUARES = float(np.finfo(np.float32).max) / 4


class Bags(Sequence[NDArray[np.float32]]):
    """The local descriptors of n images, concatenated in one array.

    Parameters
    ----------
    values : array (m, d) of float32
        The rows of all images.
    offsets : array (n + 1,) of int64
        Image i has rows offsets[i] to offsets[i + 1] - 1.
    frames : array (m, 3) of float32, optional
        Centre x, y and side of each patch, in pixels of the image as described.
    shapes : array (n, 2) of int64, optional
        Height and width of the images as described.

    Examples
    --------
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
            raise ValueError(f"values has shape {values.shape}: expected the rows of all images, (m, d)")
        if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(values):
            raise ValueError(
                f"offsets={offsets!r:.80}: expected to start at 0 and end at the number of rows, {len(values)}"
            )
        if (np.diff(offsets) < 0).any():
            raise ValueError(f"offsets={offsets!r:.80}: expected not to decrease")
        if frames is not None and frames.shape != (len(values), 3):
            raise ValueError(
                f"frames has shape {frames.shape}: expected x, y and side of each row, ({len(values)}, 3)"
            )
        if shapes is not None and shapes.shape != (len(offsets) - 1, 2):
            raise ValueError(f"shapes has shape {shapes.shape}: expected height and width, ({len(offsets) - 1}, 2)")
        self.values, self.offsets, self.frames, self.shapes = values, offsets, frames, shapes

    @classmethod
    def from_list(
        cls,
        bags: Sequence[ArrayLike],
        frames: Sequence[ArrayLike] | None = None,
        shapes: Sequence[tuple[int, int]] | None = None,
    ) -> Self:
        """Concatenate one (m_i, d) array per image; an image without descriptors is a (0, d) array."""
        arrays = [_rows(bag, i) for i, bag in enumerate(bags)]
        if not arrays:
            raise ValueError("bags is empty: expected one (m_i, d) array for each image")
        for i, array in enumerate(arrays):
            if array.shape[1] != arrays[0].shape[1]:
                raise ValueError(
                    f"bag {i} has shape {array.shape}: expected as many columns as bag 0, {arrays[0].shape}"
                )
        offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
        joined = None if frames is None else np.concatenate([np.asarray(f, dtype=np.float32) for f in frames])
        sizes = None if shapes is None else np.asarray(shapes, dtype=np.int64).reshape(-1, 2)
        return cls(np.concatenate(arrays), offsets, joined, sizes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each image, (n,)."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> NDArray[np.int64]:
        """Image number of each row, (m,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: Any) -> NDArray[np.float32]:  # type: ignore[override]
        """Return the rows of image i, (m_i, d), as a view."""
        i = range(len(self))[i]
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        return (self[i] for i in range(len(self)))

    def take(self, images: ArrayLike) -> "Bags":
        """Return the bags of these images, in this order."""
        index = np.arange(len(self))[np.asarray(images)]
        sizes = self.sizes[index]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[index] - offsets[:-1], sizes)
        return self.take_rows(rows, offsets, None if self.shapes is None else self.shapes[index])

    def take_rows(
        self, rows: NDArray[np.integer], offsets: NDArray[np.int64], shapes: NDArray[np.int64] | None
    ) -> "Bags":
        """Return Bags of these rows, divided into images by ``offsets``."""
        return Bags(self.values[rows], offsets, None if self.frames is None else self.frames[rows], shapes)

    def sample(self, most: int, rng: np.random.Generator) -> "Bags":
        """Draw at most ``most`` rows of each image without replacement; their order is kept."""
        chosen = [
            start + np.sort(rng.choice(size, most, replace=False)) if size > most else start + np.arange(size)
            for start, size in zip(self.offsets, self.sizes)
        ]
        offsets = np.concatenate([[0], np.cumsum([len(c) for c in chosen])]).astype(np.int64)
        return self.take_rows(np.concatenate(chosen).astype(np.int64), offsets, self.shapes)


def _array(name: str, given: ArrayLike, dtype: type[np.number]) -> NDArray[Any]:
    """Return an array unchanged (it may be a memory map); convert anything else to ``dtype``."""
    if isinstance(given, np.ndarray):
        return given
    try:
        array = np.asarray(given)
        return array.astype(dtype, casting="same_kind" if array.size else "unsafe", copy=False)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is not an array of {np.dtype(dtype)}: {error}") from error


def _rows(bag: ArrayLike, i: int) -> NDArray[np.float32]:
    try:
        array = np.asarray(bag, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise ValueError(f"bag {i} is not an array of numbers: {error}") from error
    if array.ndim != 2:
        raise ValueError(f"bag {i} has shape {array.shape}: expected one row per descriptor, (m_i, d)")
    return array


def are_bags(X: Any) -> bool:
    """Return whether X is Bags or a sequence of 2-D arrays, rather than one array of descriptors."""
    if isinstance(X, Bags):
        return True
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    return isinstance(X, (list, tuple, np.ndarray)) and len(X) > 0 and all(np.ndim(bag) == 2 for bag in X)


def check_bags(X: Any, *, n_features: int | None = None, first: int = 0) -> Bags:
    """Return X as Bags after checking widths and values; errors name the image.

    Parameters
    ----------
    X : Bags or sequence of arrays (m_i, d)
    n_features : int, optional
        The required number of columns.
    first : int, default=0
        The number of the first image in error messages, if X is a part of a larger set.
    """
    if not isinstance(X, Bags):
        if not isinstance(X, (list, tuple, np.ndarray)) or (isinstance(X, np.ndarray) and X.ndim == 2):
            shape = f" of shape {X.shape}" if hasattr(X, "shape") else ""
            raise ValueError(f"bags is a {type(X).__name__}{shape}: expected Bags, or one (m_i, d) array per image")
        X = Bags.from_list(list(X))
    d = X.values.shape[1]
    if d == 0:
        raise ValueError("bags have descriptors of 0 columns: expected at least 1")
    if n_features is not None and d != n_features:
        raise ValueError(f"bags have descriptors of {d} columns: expected {n_features}")
    squares = np.einsum("ij,ij->i", X.values, X.values, dtype=np.float64)
    good = squares <= _MOST_SQUARES
    if not good.all():
        row = int(good.argmin())
        i = int(np.searchsorted(X.offsets, row, side="right")) - 1
        where = f"row {row - X.offsets[i]} of its bag"
        if not np.isfinite(X.values[row]).all():
            raise ValueError(f"image {first + i} has a descriptor with NaN or infinity: {where}")
        raise ValueError(
            f"image {first + i} has a descriptor of length {np.sqrt(squares[row]):.3g}: {where}; expected at most "
            f"{np.sqrt(_MOST_SQUARES):.3g}, because distances are float32"
        )
    return X


def positions(bags: Bags) -> NDArray[np.float32]:
    """Return the relative place of each patch in its image, (m, 2): x / width and y / height."""
    if bags.frames is None or bags.shapes is None:
        absent = " and ".join(name for name in ("frames", "shapes") if getattr(bags, name) is None)
        raise ValueError(f"bags have no {absent}: location requires frames and shapes")
    empty = np.flatnonzero((bags.shapes <= 0).any(axis=1) & (bags.sizes > 0))
    if len(empty):
        raise ValueError(f"image {empty[0]} has descriptors but shape {bags.shapes[empty[0]].tolist()}")
    where = bags.frames[:, :2] / bags.shapes[bags.owners][:, ::-1]
    finite = np.isfinite(where).all(axis=1)
    if not finite.all():
        raise ValueError(f"image {bags.owners[finite.argmin()]} has a frame with NaN or infinity")
    return where.astype(np.float32)


def position_scale(bags: Bags, location: float | None) -> float:
    """Return the factor of positions: ``location`` times the root mean square length of the descriptors."""
    if not location:
        return 0.0
    squares = np.einsum("ij,ij->i", bags.values, bags.values, dtype=np.float64)
    return float(location * np.sqrt(squares.mean()))


def with_positions(bags: Bags, scale: float) -> Bags:
    """Return bags whose descriptors end in ``scale`` times x / width and y / height; the same bags if it is zero."""
    if not scale:
        return bags
    values = np.hstack([bags.values, np.float32(scale) * positions(bags)], dtype=np.float32, casting="same_kind")
    return Bags(values, bags.offsets, bags.frames, bags.shapes)
