"""From images to bags of patches, from patches to rows, and the rows that a classifier stores, by class and image."""

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from cbid.bags import Bags, check_bags, position_scale, with_positions
from cbid.learning.neighbourhoods import of_unit_size

Images = Bags | Sequence[Any]


def named_bags(X: Images, descriptor: Any, n_features: int | None, n_jobs: int | None) -> tuple[Bags, list[str]]:
    """Return X as checked bags, described first if there is a descriptor, and the names of the images."""
    if descriptor is None or isinstance(X, Bags):
        bags = check_bags(X, n_features=n_features)
        return bags, [f"image {i}" for i in range(len(bags))]
    from cbid.descriptors import describe

    described = describe(X, descriptor, n_jobs=n_jobs)
    return check_bags(described.values, n_features=n_features), list(described.names)


def drop_empty(
    bags: Bags, numbers: NDArray[np.int64], ids: list[Hashable], names: list[str]
) -> tuple[Bags, NDArray[np.int64], list[Hashable]]:
    """Drop images without descriptors and warn about them."""
    empty = np.flatnonzero(bags.sizes == 0)
    if not len(empty):
        return bags, numbers, ids
    shown = ", ".join(names[i] for i in empty[:5]) + (", ..." if len(empty) > 5 else "")
    warnings.warn(f"images without descriptors are skipped: {shown}", stacklevel=4)
    kept = np.flatnonzero(bags.sizes > 0)
    return bags.take(kept), numbers[kept], [ids[i] for i in kept]


@dataclass(frozen=True)
class PatchRows:
    """The map from bags to rows: descriptors float32, or codes uint8 with a coder."""

    location: float = 0.0  # factor of x / width and y / height, which are appended to the descriptor; 0: nothing is
    mean: NDArray[np.float32] | None = None  # (d,); descriptors are projected to the axes around it
    components: NDArray[np.float32] | None = None  # (n, d)
    coder: Any = None  # fitted

    @classmethod
    def fit(
        cls,
        bags: Bags,
        labels: NDArray[Any],
        *,
        location: float | None,
        n_components: int | None,
        coder: Any,
        max_patches: int,
        rng: np.random.Generator,
    ) -> Self:
        """Fit on the bags of images with labels (n,).

        A coder that takes bags is fitted on all of them, everything else on a sample of ``max_patches`` patches. A
        fitted coder is used unchanged.
        """
        sample = bags.sample(max(1, max_patches // len(bags)), rng)
        scale = position_scale(sample, location)
        if coder is not None and not is_fitted(coder):
            coder = clone(coder)
            if takes_bags(coder):
                coder.fit(with_positions(bags, scale), labels)
            else:
                coder.fit(with_positions(sample, scale).values, labels[sample.owners])
        if n_components is None:
            return cls(scale, coder=coder)
        X = with_positions(sample, scale).values
        if n_components > min(X.shape):
            raise ValueError(
                f"n_components={n_components}: expected at most {min(X.shape)} for {len(X)} patches of {X.shape[1]} "
                "values"
            )
        # Centred, to keep the digits of float32.
        pca = PCA(n_components, svd_solver="covariance_eigh").fit(of_unit_size(X))
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls(scale, mean, pca.components_.astype(np.float32))

    def __call__(self, bags: Bags) -> NDArray[Any]:
        """Return the rows of all images, concatenated."""
        joined = with_positions(bags, self.location)
        if self.coder is not None and takes_bags(self.coder):
            return np.asarray(self.coder.encode(joined))
        X = np.ascontiguousarray(joined.values, dtype=np.float32)
        if self.coder is not None:
            return np.asarray(self.coder.encode(X))
        if self.mean is None or self.components is None:
            return X
        return (X - self.mean) @ self.components.T


def takes_bags(coder: Any) -> bool:
    """Return whether a coder takes bags, not an array of descriptors."""
    return not get_tags(coder).input_tags.two_d_array


def is_fitted(estimator: Any) -> bool:
    """Return whether an estimator is fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


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
